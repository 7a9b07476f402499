package postings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// Question is a page that is asked for.
type Question struct {
	Node  algebra.Node
	Sort  []planner.Sort
	Stats *planner.Stats
	// First counts, in Stats, the terms that scores need.
	First bool
	After *planner.Place // nil: from the beginning
	Limit int            // people of the page; 0 counts alone
	// Hidden are the profile hashes of people who neither rank nor count.
	Hidden []uint64
	// Workers is how many go over the people at the same time; at least 1.
	Workers int
	// Yielding lets other goroutines have the processor after each window: those of queries that take less.
	Yielding bool
	// CountFields counts in Stats what scores need of fields. It is called when the terms are known.
	CountFields func(context.Context, *Snapshot) error
}

// Answer is a page.
type Answer struct {
	Places []planner.Place
	Total  int64
	// Invalid: somebody's score is none, and comes first.
	Invalid bool
}

// Supported says whether the sort keys of a query are known: nil or an ErrUnsupported.
func Supported(q *Question) error {
	if len(planner.SortFilters(q.Sort)) > 0 {
		return unsupported("a sort key with a filter")
	}
	for _, s := range q.Sort {
		if s.Kind == planner.SortField && (s.Field.Nested != "" || s.Field.IsString() || s.Field.Type == readmodel.SearchBoolean) {
			return unsupported("a sort by " + s.Field.Name())
		}
	}
	return nil
}

// Rank answers a question as of a snapshot. Errors are ErrUnsupported, one that is Changed, or those of reading.
func (x *Index) Rank(ctx context.Context, s *Snapshot, q *Question) (*Answer, error) {
	scored := q.Limit > 0 && planner.Scored(q.Sort)
	if q.First {
		if err := x.count(ctx, s, q); err != nil {
			return nil, err
		}
	}
	c := compiler{stats: q.Stats, needs: newNeeds(), weights: planner.NewWeights(q.Stats, q.Node)}
	if _, err := c.node(q.Node, "", scored); err != nil {
		return nil, err
	}
	for _, key := range q.Sort {
		if key.Kind == planner.SortField {
			if _, err := c.column(key.Field, ""); err != nil {
				return nil, err
			}
		}
	}
	views, err := x.views(ctx, s, c.needs, q.Yielding)
	if err != nil {
		return nil, err
	}
	people := 0
	for _, v := range views {
		people += v.part.size
	}
	workers := max(1, min(q.Workers, people/(8*window)))
	collectors := make([]*collector, workers)
	g, working := errgroup.WithContext(ctx)
	for i := range collectors {
		var err error
		if collectors[i], err = newCollector(q, planner.Fallible(q.Node)); err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			own := c                                 // each has buffers of its own
			own.buffers = x.buffers.Get().(*buffers) //nolint:forcetypeassert // nothing else is in it
			defer x.buffers.Put(own.buffers)
			mine := collectors[i]
			mine.scores, mine.matching = own.buffers.takeScores(window), own.buffers.takeBits(window/64)
			defer own.buffers.giveScores(mine.scores)
			defer own.buffers.giveBits(mine.matching)
			for _, v := range views {
				own.view = v
				root, err := own.node(q.Node, "", scored)
				if err != nil {
					return err
				}
				windows := (v.part.size + window - 1) / window
				from, to := i*windows/workers*window, min((i+1)*windows/workers*window, v.part.size)
				if err := mine.collect(working, v, root, q.Hidden, from, to); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, other := range collectors[1:] {
		collectors[0].join(other)
	}
	return collectors[0].answer(), nil
}

// join takes over whom another collector has found.
func (c *collector) join(other *collector) {
	c.total += other.total
	c.invalid = c.invalid || other.invalid
	c.best = append(c.best, other.best...)
	slices.SortFunc(c.best, func(a, b candidate) int { return a.compare(&b) })
	c.best = c.best[:min(len(c.best), c.limit)]
}

// Unread is how many leaves of a query have to be read. Terms that nobody has, as far as is known, are noted in its Stats.
func (x *Index) Unread(s *Snapshot, q *Question) (int, error) {
	algebra.Walk(q.Node, func(n algebra.Node) {
		note := func(f algebra.Field, text string) {
			key := planner.TermKey(f.Name(), text)
			if _, counted := q.Stats.Terms[key]; !counted && s.terms.absent(key) { // what the first page counted stays
				q.Stats.Count(key, 0)
			}
		}
		switch n := n.(type) {
		case algebra.Term:
			note(n.Field, n.Text)
		case algebra.Phrase:
			for _, position := range n.Terms {
				for _, text := range position {
					note(n.Field, text)
				}
			}
		}
	})
	c := compiler{stats: q.Stats, needs: newNeeds()}
	if _, err := c.node(q.Node, "", true); err != nil {
		return 0, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	unread := 0
	for key := range c.needs.leaves {
		if _, ok := x.kept.get(entryKey{s.parts[0].identity, leafKind + key}); !ok {
			unread++
		}
	}
	return unread, nil
}

// Lacking notes terms that nobody has, by their keys.
func (s *Snapshot) Lacking(stats *planner.Stats) {
	for key := range stats.Absent {
		s.terms.count(key, 0)
	}
}

// count counts the terms that scores need, each among all people and elements who live.
func (x *Index) count(ctx context.Context, s *Snapshot, q *Question) error {
	decide := planner.ScoresDecide(q.Node)
	if !decide && (!planner.Scores(q.Node, q.Sort) || q.Limit == 0) {
		return nil
	}
	wanted, _ := planner.Wanted(q.Node, nil, q.Stats)
	n := newNeeds()
	leaves := make(map[string]string) // keys of what is not known yet, by those of their terms
	for key, t := range wanted {
		if t.Field.Identity {
			return unsupported("the identity as a term")
		}
		if q.Stats.Absent[key] {
			continue
		}
		if total, ok := s.terms.counted(key); ok {
			q.Stats.Count(key, total)
			continue
		}
		leaf := planner.Leaf{Node: algebra.Term{Field: t.Field, Text: t.Text}}
		leaves[key] = leaf.Key()
		n.leaves[leaves[key]] = leaf
	}
	if len(leaves) > 0 {
		views, err := x.views(ctx, s, n, q.Yielding)
		if err != nil {
			return err
		}
		for key, leaf := range leaves {
			total := int64(0)
			for _, v := range views {
				total += v.units(v.leaves[leaf], wanted[key].Field.Nested != "")
			}
			s.terms.count(key, total)
			q.Stats.Count(key, total)
		}
	}
	return q.CountFields(ctx, s)
}

// units is how many living people have a term, and how many of their elements.
func (v *view) units(m *matched, nested bool) int64 {
	if v.part.alive == nil {
		if !nested {
			return int64(m.n)
		}
		return 2*int64(m.n) + m.more
	}
	total := int64(0)
	m.each(func(unit uint32, place int) {
		if v.part.alive[unit>>6]>>(unit&63)&1 == 0 {
			return
		}
		total++
		if nested {
			total++
			if m.spread != nil {
				total += int64(m.spread[place])
			}
		}
	})
	return total
}

// rankKey is the value of a sort key so that less comes first.
type rankKey struct{ missing, value uint64 }

func (k rankKey) compare(other rankKey) int {
	return cmp.Or(cmp.Compare(k.missing, other.missing), cmp.Compare(k.value, other.value))
}

// candidate is somebody who may be on the page.
type candidate struct {
	keys []rankKey
	hash uint64
}

func (a *candidate) compare(b *candidate) int {
	for i := range a.keys {
		if by := a.keys[i].compare(b.keys[i]); by != 0 {
			return by
		}
	}
	return cmp.Compare(a.hash, b.hash)
}

// collector keeps the first people of a page.
type collector struct {
	sorts     []planner.Sort // those that have values
	missing   []*rankKey     // what counts for a missing value, nil: it is missing
	limit     int
	after     *candidate
	fallible  bool
	yielding  bool
	best      []candidate // a heap, the last of them first
	total     int64
	invalid   bool
	scores    []float64
	matching  []uint64
	hidden    []int
	columns   []numbers
	candidate candidate
}

func newCollector(q *Question, fallible bool) (*collector, error) {
	c := &collector{limit: q.Limit, fallible: fallible, yielding: q.Yielding}
	for _, s := range q.Sort {
		if s.Kind == planner.SortDocument {
			continue
		}
		var missing *rankKey
		if s.Kind == planner.SortField && s.Missing != nil {
			k, err := read(s, *s.Missing)
			if err != nil {
				return nil, unsupported("a value for missing ones")
			}
			missing = &k
		}
		c.sorts, c.missing = append(c.sorts, s), append(c.missing, missing)
	}
	c.candidate.keys = make([]rankKey, len(c.sorts))
	if q.After == nil {
		return c, nil
	}
	c.after = &candidate{hash: q.After.Hash, keys: make([]rankKey, len(c.sorts))}
	if len(q.After.Keys) != len(c.sorts) || q.After.ProfileID != "" {
		return nil, unsupported("a page behind people of one hash")
	}
	for i, last := range q.After.Keys {
		if last.Missing {
			c.after.keys[i] = gone(c.sorts[i])
			continue
		}
		k, err := read(c.sorts[i], last.Value)
		if err != nil {
			return nil, fmt.Errorf("postings: value of a cursor: %w", err)
		}
		c.after.keys[i] = k
	}
	return c, nil
}

// gone is the key of somebody without a value.
func gone(s planner.Sort) rankKey {
	if s.MissingFirst {
		return rankKey{missing: 0}
	}
	return rankKey{missing: 2}
}

func ordered(s planner.Sort, value uint64) rankKey {
	if s.Descending {
		value = ^value
	}
	return rankKey{missing: 1, value: value}
}

// ofFloat orders numbers by their bits.
func ofFloat(x float64) uint64 {
	if x == 0 {
		x = 0 // not -0
	}
	b := math.Float64bits(x)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func toFloat(b uint64) float64 {
	if b>>63 != 0 {
		return math.Float64frombits(b &^ (1 << 63))
	}
	return math.Float64frombits(^b)
}

func ofInt(x int64) uint64 { return uint64(x) ^ 1<<63 } //nolint:gosec // its bits

func toInt(b uint64) int64 { return int64(b ^ 1<<63) } //nolint:gosec // its bits

// key is that of a number of a sort key's field.
func key(s planner.Sort, v int64) rankKey {
	if s.Double {
		return ordered(s, ofFloat(float64(v)))
	}
	return ordered(s, ofInt(v))
}

// read is the key of a value as cursors and requests have it.
func read(s planner.Sort, value string) (rankKey, error) {
	if s.Kind == planner.SortScore {
		x, err := strconv.ParseFloat(value, 32)
		return ordered(s, ofFloat(x)), err
	}
	if s.Double {
		x, err := strconv.ParseFloat(value, 64)
		return ordered(s, ofFloat(x)), err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return ordered(s, ofInt(n)), err
}

// written is a key as cursors have it.
func (k rankKey) written(s planner.Sort) planner.Key {
	if k.missing != 1 {
		return planner.Key{Missing: true}
	}
	value := k.value
	if s.Descending {
		value = ^value
	}
	switch {
	case s.Kind == planner.SortScore:
		return planner.Key{Value: strconv.FormatFloat(toFloat(value), 'g', -1, 32)}
	case s.Double:
		return planner.Key{Value: strconv.FormatFloat(toFloat(value), 'g', -1, 64)}
	}
	return planner.Key{Value: strconv.FormatInt(toInt(value), 10)}
}

// collect goes over the people of a part, from a row that is a multiple of a window to before another.
func (c *collector) collect(ctx context.Context, v *view, root op, hidden []uint64, from, to int) error {
	c.hide(v.part, hidden)
	c.columns = c.columns[:0]
	for _, s := range c.sorts {
		if s.Kind == planner.SortField {
			c.columns = append(c.columns, v.numbers[s.Field.Name()])
		} else {
			c.columns = append(c.columns, nil)
		}
	}
	same, constant := root.always()
	scored := slices.ContainsFunc(c.sorts, func(s planner.Sort) bool { return s.Kind == planner.SortScore })
	for lo := from; lo < to; lo += window {
		if c.yielding {
			runtime.Gosched()
		}
		if lo&(8*window-1) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		hi := min(lo+window, v.part.size)
		out := c.matching[:span(lo, hi)]
		root.match(lo, hi, out)
		clip(lo, hi, out)
		if v.part.alive != nil {
			for w := range out {
				out[w] &= v.part.alive[lo>>6+w]
			}
		}
		for _, row := range c.hidden {
			if row >= lo && row < hi {
				out[(row-lo)>>6] &^= 1 << (row & 63)
			}
		}
		found := 0
		for _, w := range out {
			found += bits.OnesCount64(w)
		}
		c.total += int64(found)
		if found == 0 || c.limit == 0 {
			continue
		}
		if scored && !constant {
			root.score(lo, hi, out, c.scores)
			if err := c.check(out); err != nil {
				return err
			}
		}
		if (constant || !scored) && c.settled(v.part, lo, same) {
			continue
		}
		if len(c.sorts) == 1 && c.sorts[0].Kind == planner.SortScore && c.sorts[0].Descending && !constant {
			c.byScore(v.part, lo, out)
			continue
		}
		if len(c.sorts) > 0 && c.sorts[0].Kind == planner.SortField && !c.sorts[0].Double && !scored {
			c.byNumber(v.part, lo, out)
			continue
		}
		for w, word := range out {
			for ; word != 0; word &= word - 1 {
				i := w<<6 + bits.TrailingZeros64(word)
				score := same
				if !constant {
					score = c.scores[i]
				}
				c.offer(v.part, lo+i, score)
			}
		}
	}
	return nil
}

// settled says that nobody of a window can come on the page any more, where all score the same and come as they stand.
func (c *collector) settled(p *part, lo int, same float64) bool {
	if len(c.best) < c.limit || c.after != nil {
		return false
	}
	for _, s := range c.sorts {
		if s.Kind != planner.SortScore {
			return false
		}
	}
	for i, s := range c.sorts {
		c.candidate.keys[i] = ordered(s, ofFloat(float64(float32(same))))
	}
	c.candidate.hash = p.hashes[lo]
	return c.candidate.compare(&c.best[0]) > 0
}

// byScore is offer for people who come by their scores alone.
func (c *collector) byScore(p *part, lo int, out []uint64) {
	least, last, full := c.worst()
	for w, word := range out {
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			if score := float32(c.scores[i]); full && (score < least || score == least && last < p.hashes[lo+i]) {
				continue
			}
			c.offer(p, lo+i, c.scores[i])
			least, last, full = c.worst()
		}
	}
}

// worst is the score and the hash of the last of a page that is full.
func (c *collector) worst() (score float32, hash uint64, full bool) {
	if len(c.best) < c.limit {
		return 0, 0, false
	}
	return float32(toFloat(^c.best[0].keys[0].value)), c.best[0].hash, true
}

// byNumber is offer for people who come first of all by a number.
func (c *collector) byNumber(p *part, lo int, out []uint64) {
	values := c.columns[0][lo:]
	flip := uint64(1) << 63 // as ofInt
	if c.sorts[0].Descending {
		flip = ^flip
	}
	last, full := c.worstNumber()
	for w, word := range out {
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			if v := values[i]; full && uint64(v)^flip > last && v != readmodel.SearchMissing { //nolint:gosec // its bits
				continue
			}
			c.offer(p, lo+i, 0)
			last, full = c.worstNumber()
		}
	}
}

// worstNumber is the first key of the last of a page that is full of people who have one.
func (c *collector) worstNumber() (value uint64, full bool) {
	if len(c.best) < c.limit || c.best[0].keys[0].missing != 1 {
		return 0, false
	}
	return c.best[0].keys[0].value, true
}

// check notes scores that are none.
func (c *collector) check(out []uint64) error {
	if !c.fallible {
		return nil
	}
	for w, word := range out {
		for ; word != 0; word &= word - 1 {
			if s := c.scores[w<<6+bits.TrailingZeros64(word)]; !(float32(s) >= 0) { // NaN is not
				if c.sorts[0].Kind != planner.SortScore {
					return unsupported("a score that is none and does not come first")
				}
				c.invalid = true
				return nil
			}
		}
	}
	return nil
}

// offer puts somebody on the page if she is before its last.
func (c *collector) offer(p *part, row int, score float64) {
	one := &c.candidate
	one.hash = p.hashes[row]
	for i, s := range c.sorts {
		if s.Kind == planner.SortScore {
			one.keys[i] = ordered(s, ofFloat(float64(float32(score))))
		} else {
			switch v := c.columns[i][row]; {
			case v != readmodel.SearchMissing:
				one.keys[i] = key(s, v)
			case c.missing[i] != nil:
				one.keys[i] = *c.missing[i]
			default:
				one.keys[i] = gone(s)
			}
		}
		if i == 0 && len(c.best) == c.limit && one.keys[0].compare(c.best[0].keys[0]) > 0 {
			return
		}
	}
	if c.after != nil && one.compare(c.after) <= 0 {
		return
	}
	if len(c.best) < c.limit {
		c.best = append(c.best, candidate{slices.Clone(one.keys), one.hash})
		if len(c.best) == c.limit {
			for i := len(c.best)/2 - 1; i >= 0; i-- {
				c.down(i)
			}
		}
		return
	}
	if one.compare(&c.best[0]) >= 0 {
		return
	}
	copy(c.best[0].keys, one.keys)
	c.best[0].hash = one.hash
	c.down(0)
}

// down moves a candidate down the heap to where it belongs.
func (c *collector) down(i int) {
	for {
		last := 2*i + 1
		if last >= len(c.best) {
			return
		}
		if last+1 < len(c.best) && c.best[last+1].compare(&c.best[last]) > 0 {
			last++
		}
		if c.best[last].compare(&c.best[i]) <= 0 {
			return
		}
		c.best[i], c.best[last] = c.best[last], c.best[i]
		i = last
	}
}

// hide finds the rows of those who neither rank nor count.
func (c *collector) hide(p *part, hidden []uint64) {
	c.hidden = c.hidden[:0]
	for _, hash := range hidden {
		for row := p.row(hash); row < p.size && p.hashes[row] == hash; row++ {
			c.hidden = append(c.hidden, row)
		}
	}
	slices.Sort(c.hidden)
}

func (c *collector) answer() *Answer {
	slices.SortFunc(c.best, func(a, b candidate) int { return a.compare(&b) })
	a := &Answer{Total: c.total, Invalid: c.invalid}
	for _, b := range c.best {
		p := planner.Place{Hash: b.hash}
		for i, k := range b.keys {
			p.Keys = append(p.Keys, k.written(c.sorts[i]))
		}
		a.Places = append(a.Places, p)
	}
	return a
}
