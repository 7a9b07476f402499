package postings

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"

	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

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
	c := &collector{limit: q.Limit, fallible: fallible}
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
func (c *collector) collect(pace *pace, v *view, root op, hidden []uint64, from, to int) error {
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
		if pace.yielding {
			runtime.Gosched()
		}
		if pace.ctx.Err() != nil {
			return pace.ctx.Err()
		}
		hi := min(lo+window, v.part.size)
		out := c.matching[:span(lo, hi)]
		root.match(lo, hi, out)
		if pace.over {
			return pace.ctx.Err()
		}
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
			if pace.over {
				return pace.ctx.Err()
			}
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
