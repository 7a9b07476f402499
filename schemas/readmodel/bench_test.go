package readmodel

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
)

func decodeFile(tb testing.TB, kind record.Kind, path string) *record.Record {
	tb.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(tb, err)
	return decode(tb, kind, string(raw))
}

func decode(tb testing.TB, kind record.Kind, raw string) *record.Record {
	tb.Helper()
	rec, err := record.Decode(kind, []byte(raw))
	require.NoError(tb, err)
	return rec
}

// cpuTime returns the CPU time of this process, which other processes do not distort.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRows measures rendering and appending to columns, without decoding
// and without the insert.
func BenchmarkRows(b *testing.B) {
	for _, def := range record.Definitions() {
		path := "../record/testdata/" + string(def.Kind) + "/full.json"
		if _, err := os.Stat(path); err != nil {
			continue
		}
		b.Run(string(def.Kind), func(b *testing.B) {
			rec := decodeFile(b, def.Kind, path)
			rec.SplitEmbedded()
			r := NewRenderer(identity.Default())
			batch := &Batch{}
			b.SetBytes(int64(len(rec.JSON)))
			b.ReportAllocs()
			b.ResetTimer()
			begin := cpuTime(b)
			for i := range b.N {
				if i%2000 == 0 {
					batch.Reset()
				}
				if err := r.Rows(batch, rec, Position{Topic: "t", Offset: int64(i)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N), "cpu-ns/op")
		})
	}
}
