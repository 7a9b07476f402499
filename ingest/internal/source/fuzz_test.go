package source

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
)

// FuzzParquet reads damaged files and checks that the memory for the next rows stays within the
// page budget.
func FuzzParquet(f *testing.F) {
	const (
		budget   = 2 << 20
		maxBytes = 96 << 20 // of several representations of pages: stored, uncompressed, re-encoded and decoded
	)
	type row struct {
		T string   `parquet:"t,plain"`
		D *string  `parquet:"d,optional,dict"`
		S string   `parquet:"s,delta"`
		N int64    `parquet:"n,delta"`
		M int32    `parquet:"m,delta"`
		L []int32  `parquet:"l,list,dict"`
		B *bool    `parquet:"b,optional"`
		X [4]byte  `parquet:"x,dict"`
		F float64  `parquet:"f,plain"`
		P []string `parquet:"p,list,plain"`
	}
	rows := make([]row, 40)
	for i := range rows {
		text, yes := strconv.Itoa(i%5), i%3 == 0
		rows[i] = row{
			T: text,
			S: "begins " + text,
			N: int64(i * i),
			M: int32(i),
			L: make([]int32, i%3),
			F: float64(i),
			P: []string{text},
		}
		if i%4 > 0 {
			rows[i].D, rows[i].B = &text, &yes
		}
	}
	for version := 1; version <= 2; version++ {
		path := filepath.Join(f.TempDir(), "f.parquet")
		require.NoError(
			f,
			parquet.WriteFile(path, rows, parquet.DataPageVersion(version), parquet.Compression(&parquet.Uncompressed)),
		)
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	others, err := filepath.Glob("testdata/*.parquet")
	require.NoError(f, err)
	for _, path := range others {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f.parquet")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		var s Source
		var err error
		took := heaptest.Allocated(func() {
			s, err = Open(t.Context(), path, Options{MaxLine: 1 << 16, Head: 1 << 10, ChunkSize: 16 << 10})
		})
		require.Less(t, took, uint64(maxBytes))
		p, ok := s.(*Parquet)
		if err != nil || !ok {
			return
		}
		p.budget.total, p.budget.remaining = budget, budget
		for i := 0; err == nil && i < 100; i++ {
			took := heaptest.Allocated(func() { _, err = s.Next() })
			require.Less(t, took, uint64(maxBytes), "chunk %d: %v", i, err)
		}
		require.NoError(t, s.Close())
	})
}
