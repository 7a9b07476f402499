package postings

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// Norms drop all bits of the excess over 24 beyond the first four (SmallFloat.intToByte4).
func TestNormOf_RoundsLengthsAsLucene(t *testing.T) {
	stands := lengths()
	check := func(length uint32) {
		want := float64(length)
		if length > exactLengths {
			beyond := length - exactLengths
			shift := max(0, bits.Len32(beyond)-4)
			want = float64(exactLengths) + float64(uint64(beyond)>>shift<<shift)
		}
		if got := stands[normOf(length)]; got != want {
			t.Fatalf("%d stands for %v, want %v", length, got, want)
		}
	}
	for length := range uint32(100_000) {
		check(length)
	}
	check(math.MaxInt32)
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte{0, 2, 1, 0, 0, 0, 7, 0, 0, 0})
	large := roaring.New()
	large.AddRange(3, 70_000)
	raw, err := large.ToBytes()
	require.NoError(f, err)
	f.Add(append(binary.AppendUvarint([]byte{1}, uint64(len(raw))), raw...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := 0
		_ = readMembers(string(raw), func(uint32) error { // other errors are valid
			if n++; n > 1<<20 {
				return errChanged
			}
			return nil
		})
	})
}

func TestMatched_ReturnsWhatWasAdded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 63, 64, 65, window - 1, window, window + 1, 3*window + 17} {
		for i, share := range []int{1, 2, 20, 100, 5000, 1, 20} {
			different := 3
			if i > 4 { // more than codes can represent
				different = 5000
			}
			b := newBuilder(size)
			want := make(map[int]float64)
			for unit := range size {
				if r.IntN(share) != 0 {
					continue
				}
				frequency := float64(1 + r.IntN(different))
				require.NoError(t, b.add(uint32(unit), b.frequency(frequency), uint32(r.IntN(2))))
				want[unit] = frequency
			}
			m := b.matched()
			require.Equal(t, len(want), m.n)
			seen := 0
			m.each(func(unit uint32, place int) {
				if _, ok := want[int(unit)]; !ok || place != seen {
					t.Fatalf("unit %d at place %d of %d", unit, place, seen)
				}
				seen++
			})
			require.Equal(t, len(want), seen)
			all := &part{size: size}
			all.allAlive()
			for _, nested := range []bool{false, true} { // whether all are live or each is checked
				require.Equal(t, (&view{part: &part{size: size}}).units(m, nested), (&view{part: all}).units(m, nested))
			}
			norms := make(norms, size)
			model := planner.BM25{Weight: 2, Fixed: 0.3, Slope: 0.1}
			scored := newTextOp(m, norms, model)
			for range 20 {
				lo := r.IntN(size)
				hi := min(size, lo+1+r.IntN(window))
				out, scores := make([]uint64, span(lo, hi)), make([]float64, 64*span(lo, hi))
				m.match(lo, hi, out)
				clip(lo, hi, out)
				scored.score(lo, hi, out, scores)
				base := lo &^ 63
				for unit := base; unit < base+64*len(out); unit++ {
					frequency, matches := want[unit]
					matches = matches && unit >= lo && unit < hi
					got, score := out[(unit-base)>>6]>>(unit&63)&1 != 0, scores[unit-base]
					if got != matches || matches && score != model.Score(frequency, 0) {
						t.Fatalf("unit %d of %d to %d of %d: %v, %v", unit, lo, hi, size, got, score)
					}
				}
			}
		}
	}
}

func TestBoolOp_MinimumMatchesNaiveCount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const size = 200
	for range 200 {
		b := &boolOp{buffers: &buffers{pace: pace{ctx: t.Context()}}, minimum: 1 + r.IntN(9)}
		counts := make([]int, size)
		for range 1 + r.IntN(9) {
			list := newBuilder(size)
			for unit := range size {
				if r.IntN(2) == 0 {
					require.NoError(t, list.add(uint32(unit), frequency{}, 0))
					counts[unit]++
				}
			}
			b.should = append(b.should, leafOp{0, list.matched()})
		}
		out := make([]uint64, span(0, size))
		b.match(0, size, out)
		for unit, n := range counts {
			if got := out[unit>>6]>>(unit&63)&1 != 0; got != (n >= b.minimum) {
				t.Fatalf("%d of %d, at least %d: %v", n, len(b.should), b.minimum, got)
			}
		}
	}
}

// counting counts the calls of an op.
type counting struct {
	op
	asked *int
}

func (c counting) match(lo, hi int, out []uint64) {
	*c.asked++
	c.op.match(lo, hi, out)
}

func (c counting) score(lo, hi int, of []uint64, out []float64) {
	*c.asked++
	c.op.score(lo, hi, of, out)
}

func TestQuery_StopsSoonAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const many, size = 10_000, window
	asked := 0
	list := newBuilder(size)
	require.NoError(t, list.add(1, frequency{}, 0))
	children := slices.Repeat([]op{counting{leafOp{1, list.matched()}, &asked}}, many)
	of, scores := make([]uint64, size/64), make([]float64, size)
	of[0] = 2
	for name, o := range map[string]func(*buffers) op{
		"must": func(b *buffers) op { return &boolOp{buffers: b, must: children, required: children} },
		"should": func(b *buffers) op {
			return &boolOp{buffers: b, should: children, minimum: 1, withScore: slices.Repeat([]bool{true}, many)}
		},
		"all": func(b *buffers) op {
			return &boolOp{buffers: b, should: children, minimum: many, withScore: slices.Repeat([]bool{true}, many)}
		},
		"some": func(b *buffers) op {
			return &boolOp{buffers: b, should: children, minimum: 7, withScore: slices.Repeat([]bool{true}, many)}
		},
		"must_not": func(b *buffers) op {
			return &boolOp{buffers: b, excluded: slices.Repeat([]op{counting{noneOp{}, &asked}}, many)}
		},
		"dis_max": func(b *buffers) op { return &disMaxOp{buffers: b, nodes: children} },
	} {
		asked = 0
		b := &buffers{pace: pace{ctx: ctx}}
		o(b).match(0, size, make([]uint64, size/64))
		require.LessOrEqual(t, asked, 2*checkInterval, name)
		require.True(t, b.over, name)
		b.pace = pace{ctx: ctx}
		asked = 0
		o(b).score(0, size, of, scores)
		require.LessOrEqual(t, asked, 2*checkInterval, name)
		o(&buffers{pace: pace{ctx: t.Context()}}).match(0, size, make([]uint64, size/64))
		require.GreaterOrEqual(t, asked, many, name)
	}
	c := compiler{stats: planner.NewStats(), needs: newNeeds(), pace: &pace{ctx: ctx}}
	_, err := c.node(algebra.Bool{Should: slices.Repeat([]algebra.Node{algebra.All{}}, many)}, "", true)
	require.ErrorIs(t, err, context.Canceled)
}

func TestMutated_DistinguishesMutationsFromMerges(t *testing.T) {
	parts := func(names ...string) (list []*part) {
		for _, name := range names {
			folder := "/store/t/"
			if other, ok := strings.CutPrefix(name, "other "); ok {
				folder, name = "/store/u/", other
			}
			list = append(list, &part{name: name, identity: folder + name + "/\x00hash"})
		}
		return list
	}
	for _, c := range []struct {
		before, after string
		want          bool
	}{
		{"all_1_5_2 all_6_6_0", "all_1_5_2 all_6_6_0 all_7_7_0", false},
		{"all_1_5_2 all_6_6_0", "all_1_6_3", false},
		{"all_1_5_2", "all_1_5_3", false}, // recompressed
		{"all_1_5_2 all_6_6_0", "all_1_5_2_10 all_6_6_0", true},
		{"all_1_5_2_10 all_6_6_0", "all_1_5_2_10 all_6_6_0_10", true},
		{"all_1_5_2_10 all_6_6_0", "all_1_6_3_10", true},
		{"all_1_5_2_10 all_11_11_0", "all_1_11_3_10", false},
		{"all_1_5_2_10 all_11_11_0", "all_1_11_3_12", true},
		{"all_1_5_2_10 all_6_6_0_10", "all_1_6_3_10", false},
		{"all_1_5_2 all_6_6_0", "all_1_5_2", true}, // dropped
		{"all_1_5_2", "other all_1_5_2", true},
		{"2026-11_1_5_2", "2026-11_1_6_3", false},
		{"a_b_1_5_2", "a_b_1_6_3", true}, // an unknown name
		{"", "all_1_1_0", false},
	} {
		after := strings.Fields(c.after)
		if name, ok := strings.CutPrefix(c.after, "other "); ok {
			after = []string{"other " + name}
		}
		got := mutated(parts(strings.Fields(c.before)...), parts(after...))
		require.Equal(t, c.want, got, "%s: %s", c.before, c.after)
	}
}

func TestMaxMatches_DoesNotOverflow(t *testing.T) {
	none := &boolOp{excluded: []op{noneOp{}}}
	require.Equal(t, math.MaxInt, (&boolOp{should: []op{none, none}, minimum: 1}).maxMatches())
	require.Equal(t, math.MaxInt, (&disMaxOp{nodes: []op{none, none, none}}).maxMatches())
	require.Equal(t, 5, (&disMaxOp{nodes: []op{everyOp{1, 2}, everyOp{1, 3}}}).maxMatches())
}

func TestLoader_LimitsBytesRead(t *testing.T) {
	l := loader{Index: &Index{cfg: Config{MaxBytes: 1000}}}
	l.note((&view{part: &part{}}).key("", "a", false), make(norms, 800))
	require.NoError(t, l.checkSize())
	l.note((&view{part: &part{}}).key("", "b", false), make(norms, 800))
	var large *TooLarge
	require.ErrorAs(t, l.checkSize(), &large)
}

func TestRankKey_OrdersLikeValuesAndSurvivesCursors(t *testing.T) {
	numbers := []int64{math.MinInt64 + 1, -1 << 40, -5, 0, 3, 1 << 40, math.MaxInt64}
	for _, s := range []planner.Sort{
		{Kind: planner.SortField},
		{Kind: planner.SortField, Descending: true},
		{Kind: planner.SortField, Double: true},
		{Kind: planner.SortField, MissingFirst: true},
	} {
		for i, n := range numbers {
			for j, m := range numbers {
				want := cmp.Compare(i, j)
				if s.Descending {
					want = -want
				}
				a, b := numberKey(s, n), numberKey(s, m)
				require.Equal(t, want, compareKeys(&s, &a, &b), "%d %d %+v", n, m, s)
			}
			k, missing := numberKey(s, n), missingKey(s)
			again, err := parseKey(s, k.cursorKey(s).Value)
			require.NoError(t, err)
			require.Equal(t, k, again)
			require.Equal(t, s.MissingFirst, compareKeys(&s, &missing, &k) < 0)
		}
	}
	score := planner.Sort{Kind: planner.SortScore, Descending: true}
	for _, x := range []float32{0, math.SmallestNonzeroFloat32, 0.1, 1, 12.34567, math.MaxFloat32} {
		k := ordered(score, floatKey(float64(x)))
		again, err := parseKey(score, k.cursorKey(score).Value)
		require.NoError(t, err)
		require.Equal(t, k, again)
	}
}

func TestCollector_PageEqualsFullSort(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		n := r.IntN(500)
		p := &part{size: n, hashes: make([]uint64, n)}
		for i := range p.hashes {
			p.hashes[i] = uint64(i * 3)
		}
		c := &collector{
			sorts:     []planner.Sort{{Kind: planner.SortScore, Descending: true}},
			missing:   make([]*rankKey, 1),
			limit:     1 + r.IntN(20),
			candidate: candidate{keys: make([]rankKey, 1)},
			scores:    make([]float64, n),
		}
		out := make([]uint64, words(n))
		order := make([]int, n)
		for i := range n {
			c.scores[i] = float64(r.IntN(5)) / 3
			out[i>>6] |= 1 << (i & 63)
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.scores[b], c.scores[a]) })
		if n > 0 {
			c.byScore(p, 0, out)
		}
		var got, want []uint64
		for _, place := range c.answer().Places {
			got = append(got, place.Hash)
		}
		for _, i := range order[:min(n, c.limit)] {
			want = append(want, p.hashes[i])
		}
		require.Equal(t, want, got)
	}
}

func TestCache_EvictsLeastRecentlyUsed(t *testing.T) {
	c := newCache(10_000)
	for i := range 100 {
		c.put(entryKey{part: "p", what: string(rune('a' + i))}, norms(bytes.Repeat([]byte{1}, 500)))
		_, ok := c.get(entryKey{part: "p", what: "a"})
		require.True(t, ok, "used each time")
		require.LessOrEqual(t, c.size, 10_000)
	}
	require.Equal(t, len(c.entries), c.order.Len())
	require.Greater(t, len(c.entries), 5)
	c.put(entryKey{part: "q", what: "x"}, norms(nil))
	c.retain([]*part{{identity: "q"}}, "")
	require.Len(t, c.entries, 1)
	c.retain(nil, "")
	require.Zero(t, c.size)
}

func TestBatchSize_AdaptsToDurations(t *testing.T) {
	s := batchSize{most: 16}
	record := func(read int, elapsed time.Duration, whole bool) int {
		s.record(read == s.length(), elapsed, whole)
		return s.length()
	}
	require.Equal(t, 16, s.length())
	require.Equal(t, 16, record(16, 50*time.Millisecond, true), "never more")
	require.Equal(t, 16, record(16, 900*time.Millisecond, true))
	require.Equal(t, 8, record(16, 1100*time.Millisecond, true), "a slow one")
	require.Equal(t, 8, record(8, time.Millisecond, false), "no time was left")
	require.Equal(t, 4, record(8, 200*time.Millisecond, false), "timed out")
	require.Equal(t, 4, record(2, 50*time.Millisecond, true), "nothing more to read")
	for range 5 {
		s.record(true, 2*time.Second, false)
	}
	require.Equal(t, 1, s.length(), "never none")
	require.Equal(t, 2, record(1, 10*time.Millisecond, true), "a fast one")
}

// Terms of columns with many texts are counted by text only as far as the counts of all of them are bounded; the others
// have the same results.
func TestCollector_BoundsCountsOfTexts(t *testing.T) {
	const texts, people = aggregation.MaxCollected/2 - 1, 1000
	v := &values{codes: make([]uint32, people), texts: make([]string, people), dictionary: make([]string, texts)}
	for row := range people {
		v.codes[row] = uint32(row) % 7
		v.dictionary[v.codes[row]] = strings.Repeat("x", row%7)
		v.texts[row] = v.dictionary[v.codes[row]]
	}
	q := &Question{}
	list := make([]aggregator, 4)
	for range list {
		field := algebra.Field{SearchField: readmodel.SearchField{Type: readmodel.SearchText}, Keyword: true}
		q.Aggregations = append(q.Aggregations, aggregation.Aggregation{Kind: aggregation.Terms, Field: field})
	}
	for i := range list {
		list[i] = aggregator{Aggregation: &q.Aggregations[i], column: column{values: v}}
	}
	c, err := newCollector(q, false)
	require.NoError(t, err)
	c.budget = &aggregation.Budget{}
	c.countTexts(list)
	counted := 0
	for i := range list {
		counted += len(list[i].counts)
	}
	require.Equal(t, 2*texts, counted)
	c.counted = append(c.counted, list)
	for _, everyone := range []bool{true, false} {
		all := make([]uint64, span(0, people))
		for row := range people {
			all[row>>6] |= 1 << (row & 63)
		}
		c.aggregate(list, 0, people, all, everyone)
	}
	require.NoError(t, c.flush())
	for i := range list {
		for text := range 7 {
			b := c.partials[i].Bucket(&q.Aggregations[i], aggregation.Key{Text: strings.Repeat("x", text)}, c.budget)
			want := int64(2 * ((people - text + 6) / 7))
			if text == 0 {
				want = 0 // missing
			}
			require.Equal(t, want, b.Count, "aggregation %d, text %d", i, text)
		}
	}
}

// A table without linked accounts is a state like any other.
func TestCache_ForgetsLinkedDataOfEmptyTable(t *testing.T) {
	p := &part{identity: "p"}
	without, with := &activeParts{people: []*part{p}}, &activeParts{people: []*part{p}, linked: []string{"l"}}
	x := New(Config{}, nil)
	t.Cleanup(x.Close)
	read := func(s *Snapshot) (*matched, bool) {
		m, ok := x.cache.get(newView(p, s).key(leafKind, "of an account", true))
		list, _ := m.(*matched)
		return list, ok
	}
	s := x.publish(without, without.people, nil)
	x.cache.put(newView(p, s).key(leafKind, "of an account", true), &matched{})
	_, ok := read(s)
	require.True(t, ok)
	_, ok = read(x.publish(with, with.people, s))
	require.False(t, ok)
	_, ok = read(x.publish(without, without.people, x.Current()))
	require.False(t, ok, "it may have been read after the state")
}
