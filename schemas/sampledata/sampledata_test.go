package sampledata

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	update = flag.Bool("update", false, "rewrite golden files")
	scale  = flag.Int("world.people", 15_000, "people in the statistics test and the benchmark; 1000000 checks the "+
		"full-size statistics")
)

// memory stores a whole world.
type memory struct {
	lines map[string][][]byte
	truth [][]byte
}

func (m *memory) Record(kind string, json []byte) error {
	m.lines[kind] = append(m.lines[kind], append([]byte(nil), json...))
	return nil
}

func (m *memory) Truth(json []byte) error {
	m.truth = append(m.truth, append([]byte(nil), json...))
	return nil
}

func generate(tb testing.TB, o Options) *memory {
	tb.Helper()
	m := &memory{lines: map[string][][]byte{}}
	require.NoError(tb, Generate(tb.Context(), o, m, nil))
	return m
}

// hasher reduces a world to one hash per file.
type hasher struct{ files map[string]hash.Hash }

func (h *hasher) write(name string, json []byte) {
	if h.files[name] == nil {
		h.files[name] = sha256.New()
	}
	h.files[name].Write(json)
	h.files[name].Write([]byte{'\n'})
}

func (h *hasher) Record(kind string, json []byte) error { h.write(kind, json); return nil }
func (h *hasher) Truth(json []byte) error               { h.write("truth", json); return nil }

func (h *hasher) String() string {
	var b strings.Builder
	for _, name := range append(Kinds(), "truth") {
		fmt.Fprintf(&b, "%s %s\n", name, hex.EncodeToString(h.files[name].Sum(nil)))
	}
	return b.String()
}

func TestGenerate_IsDeterministic(t *testing.T) {
	run := func(o Options) string {
		h := &hasher{files: map[string]hash.Hash{}}
		require.NoError(t, Generate(t.Context(), o, h, nil))
		return h.String()
	}
	o := Options{People: 400, Seed: 7}
	got := run(o)
	golden := filepath.Join("testdata", "world-400-7.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "the world of a seed has changed; run with -update if that is intended")
	require.Equal(t, got, run(o))

	o.Seed = 8
	other := run(o)
	for i, line := range strings.Split(strings.TrimSpace(got), "\n") {
		require.NotEqual(t, line, strings.Split(other, "\n")[i], "seed has no influence")
	}
}

func TestPerson_EqualsPersonOfWholeWorld(t *testing.T) {
	o := Options{People: 300, Seed: 3}
	m := generate(t, o)
	all := map[string]bool{}
	for kind, lines := range m.lines {
		for _, l := range lines {
			all[kind+string(l)] = true
		}
	}
	truth := map[string]bool{}
	for _, l := range m.truth {
		truth[string(l)] = true
	}
	w, err := New(t.Context(), o)
	require.NoError(t, err)
	kinds := map[string]int{}
	for i := range o.People {
		recs, err := w.Person(i)
		require.NoError(t, err)
		require.NotEmpty(t, recs)
		for _, r := range recs {
			require.True(t, all[r.Kind+string(r.JSON)], "person %d: %s", i, r.JSON)
			kinds[r.Kind]++
		}
		line, err := w.Truth(i)
		require.NoError(t, err)
		require.True(t, truth[string(line)], "%s", line)
	}
	require.Len(t, kinds, len(Kinds())-1)
	require.Equal(t, len(m.lines[NetworkPerson]), kinds[NetworkPerson])
	for _, bad := range []int{-1, o.People} {
		_, err = w.Person(bad)
		require.Error(t, err)
		_, err = w.Truth(bad)
		require.Error(t, err)
	}
}

func TestOptions_AreValidated(t *testing.T) {
	for name, o := range map[string]Options{
		"no people":       {},
		"too many people": {People: MaxPeople + 1},
		"negative links":  {People: 1, AccountLinks: -1},
		"early now":       {People: 1, Now: time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(t.Context(), o)
			require.Error(t, err)
		})
	}
	for _, n := range []int{1, 2, 17} {
		m := generate(t, Options{People: n, Seed: 5})
		require.NotEmpty(t, m.truth)
	}
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, l := range generate(t, Options{People: 50, Now: now}).lines[NetworkPerson] {
		require.Less(t, decode(t, l)["last_updated"].(string), "2031-02-03T04:05:06")
	}
}

func TestWriteFiles_WritesAllKinds(t *testing.T) {
	dir := t.TempDir()
	var calls, last int
	sum, err := WriteFiles(t.Context(), dir, Options{People: 250, Seed: 2}, func(done, total int) {
		require.Equal(t, 250, total)
		require.GreaterOrEqual(t, done, last)
		calls, last = calls+1, done
	})
	require.NoError(t, err)
	require.Equal(t, 250, last)
	require.Greater(t, calls, 5)
	require.Equal(t, 250, sum.People)
	var size int64
	for _, kind := range Kinds() {
		n, bytes := countLines(t, filepath.Join(dir, FileName(kind)))
		require.Equal(t, sum.Records[kind], n, kind)
		size += bytes
	}
	require.Equal(t, sum.Bytes, size)
	n, _ := countLines(t, filepath.Join(dir, TruthFile))
	require.Equal(t, sum.Truth, n)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(Kinds())+1, "only complete files remain")
}

func TestWriteFiles_LeavesNothingIfCanceled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := WriteFiles(ctx, dir, Options{People: 2000}, func(done, _ int) {
		if done > 300 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

type failing struct{ after int }

var errFull = errors.New("disk full")

func (f *failing) Record(string, []byte) error {
	if f.after--; f.after < 0 {
		return errFull
	}
	return nil
}

func (f *failing) Truth([]byte) error { return errFull }

func TestGenerate_ReturnsSinkError(t *testing.T) {
	for _, n := range []int{0, 500, 1 << 30} {
		require.ErrorIs(t, Generate(t.Context(), Options{People: 200}, &failing{n}, nil), errFull)
	}
}

func countLines(t *testing.T, path string) (n int, size int64) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		n++
		size += int64(len(sc.Bytes())) + 1
	}
	require.NoError(t, sc.Err())
	return n, size
}

func TestPermutation_IsBijective(t *testing.T) {
	for _, size := range []uint64{1, 2, 3, 7, 64, 1000, 4097} {
		p, seen := newPermutation(size, size*31), make([]bool, size)
		for i := range size {
			at := p.at(i)
			require.Less(t, at, size)
			require.False(t, seen[at])
			require.Equal(t, i, p.index(at))
			seen[at] = true
		}
	}
}

// peak records the maximum live heap during a generation.
type peak struct {
	every, n int
	most     uint64
}

func (p *peak) Record(string, []byte) error {
	if p.n++; p.n%p.every == 0 {
		p.most = max(p.most, liveHeap())
	}
	return nil
}

func (p *peak) Truth([]byte) error { return p.Record("", nil) }

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The live heap grows by less than 200 bytes per person.
func TestGenerate_MemoryPerPersonIsBounded(t *testing.T) {
	measure := func(people int) uint64 {
		base := liveHeap()
		p := &peak{every: people / 2}
		require.NoError(t, Generate(t.Context(), Options{People: people, Seed: 4}, p, nil))
		require.Greater(t, p.most, base)
		return p.most - base
	}
	small, large := measure(3000), measure(15000)
	perPerson := (float64(large) - float64(small)) / 12000
	t.Logf("live heap: %d bytes at 3,000 people, %d at 15,000: %.0f bytes per person", small, large, perPerson)
	require.Less(t, perPerson, 200.0)
}

type discard struct{ bytes int64 }

func (d *discard) Record(_ string, json []byte) error { d.bytes += int64(len(json)); return nil }
func (d *discard) Truth(json []byte) error            { d.bytes += int64(len(json)); return nil }

// BenchmarkGenerate reports people per minute on one goroutine.
func BenchmarkGenerate(b *testing.B) {
	people := *scale
	var d discard
	for b.Loop() {
		require.NoError(b, Generate(b.Context(), Options{People: people, Seed: 1}, &d, nil))
	}
	b.SetBytes(d.bytes / int64(b.N))
	b.ReportMetric(float64(people)*float64(b.N)/b.Elapsed().Minutes(), "people/min")
}
