package project_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
	"muster/projector/internal/projectortest"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func cpuTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// engineTime returns the engine process's CPU time so far.
func engineTime(tb testing.TB) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", enginetest.Get(tb).PID()))
	require.NoError(tb, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const tick = 10 * time.Millisecond
	var total time.Duration
	for _, f := range fields[11:13] { // utime and stime, in ticks
		n, err := strconv.ParseInt(f, 10, 64)
		require.NoError(tb, err)
		total += time.Duration(n * int64(tick))
	}
	return total
}

// BenchmarkRender measures decoding generated records and rendering them into columns.
func BenchmarkRender(b *testing.B) {
	byKind := map[record.Kind][][]byte{}
	for _, r := range projectortest.WorldRecords(b, 2_000, 3) {
		byKind[r.Kind] = append(byKind[r.Kind], r.JSON)
	}
	for _, d := range record.Definitions() {
		raws := byKind[d.Kind]
		b.Run(string(d.Kind), func(b *testing.B) {
			r, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
			var bytes int
			for _, raw := range raws {
				bytes += len(raw)
			}
			b.SetBytes(int64(bytes / len(raws)))
			b.ReportAllocs()
			var decoding time.Duration
			begin := cpuTime(b)
			for i := 0; i < b.N; {
				n := min(b.N-i, 500)
				recs := make([]*record.Record, 0, n)
				start := cpuTime(b)
				for j := range n {
					rec, err := record.Decode(d.Kind, raws[(i+j)%len(raws)])
					if err != nil {
						b.Fatal(err)
					}
					recs = append(recs, rec)
				}
				decoding += cpuTime(b) - start
				batch.Reset()
				for _, rec := range recs {
					if err := r.Rows(batch, rec, readmodel.Position{Topic: "t"}); err != nil {
						b.Fatal(err)
					}
				}
				i += n
			}
			total := cpuTime(b) - begin
			b.ReportMetric(float64(decoding)/float64(b.N), "decode-cpu-ns/op")
			b.ReportMetric(float64(total-decoding)/float64(b.N), "rows-cpu-ns/op")
		})
	}
}

// BenchmarkInsert measures the client's and the engine's work for rows of network people, per table, in
// batches in the order of the table like the projector's.
func BenchmarkInsert(b *testing.B) {
	s := projectortest.OpenStore(b)
	var recs []*record.Record
	for _, r := range projectortest.WorldRecords(b, 9_000, 3) { // about 10,000 profiles
		if r.Kind == record.KindNetworkPerson {
			recs = append(recs, r)
		}
	}
	slices.SortFunc(recs, func(a, b *record.Record) int {
		return cmp.Compare(readmodel.ProfileHash(a.Key), readmodel.ProfileHash(b.Key))
	})
	r, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for _, rec := range recs {
		require.NoError(b, r.Rows(batch, rec, readmodel.Position{Topic: "t"}))
	}
	for _, table := range []string{"lookups", "network_people", "search_people"} {
		b.Run(table, func(b *testing.B) {
			begin, engine := cpuTime(b), engineTime(b)
			for i := range b.N {
				_, err := readmodel.InsertInto(b.Context(), s.Conn, readmodel.Names{table: table}, fmt.Sprint(b.N, "/", i),
					batch)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N*len(recs)), "client-cpu-ns/record")
			b.ReportMetric(float64(engineTime(b)-engine)/float64(b.N*len(recs)), "engine-cpu-ns/record")
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*len(recs)), "ns/record")
		})
	}
}

// BenchmarkCrawl measures the same per table for records of all kinds in the proportions of sample data, in
// random order, by batch size: first inserts with merges stopped, then merging to one part.
func BenchmarkCrawl(b *testing.B) {
	s := projectortest.OpenStore(b)
	recs := projectortest.WorldRecords(b, 4_000, 3)
	shuffle := rand.New(rand.NewPCG(1, 2))
	shuffle.Shuffle(len(recs), func(i, j int) { recs[i], recs[j] = recs[j], recs[i] })
	r := readmodel.NewRenderer(identity.Default())
	for _, size := range []int{500, 2_000, 8_000} {
		var batches []*readmodel.Batch
		for part := range slices.Chunk(recs, size) {
			batch := &readmodel.Batch{}
			for _, rec := range part {
				require.NoError(b, r.Rows(batch, rec, readmodel.Position{Topic: "t"}))
			}
			batches = append(batches, batch)
		}
		for _, table := range readmodel.Tables() {
			b.Run(fmt.Sprint(size, "/", table), func(b *testing.B) {
				require.NoError(b, s.Conn.Exec(b.Context(), "TRUNCATE TABLE "+table))
				require.NoError(b, s.Conn.Exec(b.Context(), "SYSTEM STOP MERGES "+table))
				begin, engine := cpuTime(b), engineTime(b)
				for i := range b.N {
					for j, batch := range batches {
						_, err := readmodel.InsertInto(b.Context(), s.Conn, readmodel.Names{table: table},
							fmt.Sprint(b.Name(), b.N, "/", i, "/", j), batch)
						require.NoError(b, err)
					}
				}
				inserted := engineTime(b)
				all := float64(b.N * len(recs))
				b.ReportMetric(float64(cpuTime(b)-begin)/1e3/all, "client-cpu-us/record")
				b.ReportMetric(float64(inserted-engine)/1e3/all, "engine-cpu-us/record")
				b.ReportMetric(float64(inserted-engine)/1e6/float64(b.N*len(batches)), "engine-cpu-ms/insert")
				require.NoError(b, s.Conn.Exec(b.Context(), "SYSTEM START MERGES "+table))
				require.NoError(b, s.Conn.Exec(b.Context(), "OPTIMIZE TABLE "+table+" FINAL"))
				b.ReportMetric(float64(engineTime(b)-inserted)/1e3/all, "merge-cpu-us/record")
			})
		}
	}
}
