package source

import (
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/stretchr/testify/require"
)

// Levels are unchanged after re-encoding, and the maximum ones are counted, in runs and in packed groups.
func TestCleanRuns_PreservesLevels(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= 7; width++ {
		for _, length := range []int{1, 7, 8, 9, 100, 1000} {
			full := 1<<width - 1 - random.IntN(1<<(width-1))
			levels, want := make([]byte, length), int64(0)
			for i := range levels {
				if i > 300 && i < 600 || random.IntN(3) == 0 {
					levels[i] = byte(full)
					want++
				} else {
					levels[i] = byte(random.IntN(full))
				}
			}
			data, err := (&rle.Encoding{BitWidth: width}).EncodeLevels(nil, levels)
			require.NoError(t, err)
			clean, all, got, err := cleanRuns(nil, data, int64(width), int64(length), full)
			require.NoError(t, err)
			require.Equal(t, int64(length), all)
			require.Equal(t, want, got, "width %d, length %d", width, length)
			redecoded, err := (&rle.Encoding{BitWidth: width}).DecodeLevels(nil, clean)
			require.NoError(t, err)
			require.Equal(t, levels, redecoded)
		}
	}
}

func TestPageBudget_IsRestoredByRelease(t *testing.T) {
	type row struct {
		A *string  `parquet:"a,optional,dict"`
		B []string `parquet:"b,list,plain"`
		C string   `parquet:"c,delta"`
	}
	rows := make([]row, 5000)
	for i := range rows {
		text := strconv.Itoa(i % 700)
		rows[i].C, rows[i].B = text, make([]string, i%3)
		if i%5 > 0 {
			rows[i].A = &text
		}
	}
	for version := 1; version <= 2; version++ {
		path := filepath.Join(t.TempDir(), "f.parquet")
		require.NoError(
			t,
			parquet.WriteFile(path, rows, parquet.MaxRowsPerRowGroup(2000), parquet.PageBufferSize(2000),
				parquet.DataPageVersion(version)),
		)
		s, err := Open(t.Context(), path, Options{MaxLine: 1 << 20, Head: 64 << 10, ChunkSize: 1000})
		require.NoError(t, err)
		p := s.(*Parquet)
		minimum := p.budget.remaining
		for err == nil {
			_, err = s.Next()
			minimum = min(minimum, p.budget.remaining)
		}
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, p.budget.total, p.budget.remaining)
		require.Less(t, minimum, p.budget.total)
		require.Greater(t, minimum, p.budget.total-100_000)
		require.NoError(t, s.Close())
	}
}
