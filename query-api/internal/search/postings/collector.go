package postings

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sort"
	"strconv"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// rankKey is the value of a sort key, encoded so that the smaller one comes first. text is set for strings only.
type rankKey struct {
	missing, value uint64
	text           string
}

// compareKeys compares values of a sort key.
func compareKeys(s *planner.Sort, a, b *rankKey) int {
	if by := cmp.Or(cmp.Compare(a.missing, b.missing), cmp.Compare(a.value, b.value)); by != 0 || !s.Field.IsString() {
		return by
	}
	if s.Descending {
		a, b = b, a
	}
	return cmp.Compare(a.text, b.text)
}

// candidate is a person who may be on the page.
type candidate struct {
	keys []rankKey
	hash uint64
	id   string // the profile id, if several people have the hash
	// view is the index of the part, row the person's row in it.
	view, row int
	score     float32  // if scores are computed
	group     groupKey // if the page is collapsed
}

// groupKey is the value of the field of Question.Collapse.
type groupKey struct {
	text   string
	number int64
}

// compare orders candidates: by the sort keys, the hash and the profile id.
func (c *collector) compare(a, b *candidate) int {
	return cmp.Or(c.compareHashes(a, b), cmp.Compare(a.id, b.id))
}

// compareHashes orders candidates by the sort keys and the hash.
func (c *collector) compareHashes(a, b *candidate) int {
	for i := range a.keys {
		if by := compareKeys(&c.sorts[i], &a.keys[i], &b.keys[i]); by != 0 {
			return by
		}
	}
	return cmp.Compare(a.hash, b.hash)
}

// follows reports whether a candidate comes after the last page. A last hit without a profile ID was the only person
// with its hash then; all who have the hash now count as shown.
func (c *collector) follows(a *candidate) bool {
	if c.after == nil {
		return true
	}
	by := c.compareHashes(a, c.after)
	return by > 0 || by == 0 && c.after.id != "" && a.id > c.after.id
}

// sortKey reads the values of a sort key in one part. It is zero for scores.
type sortKey struct {
	column
	filter op // selects elements; nil: all
	// found has the matching elements of the people of a window; bit 0 is the element base.
	found []uint64
	base  int
}

// find finds the selected elements of the people from lo to before hi.
func (k *sortKey) find(lo, hi int) {
	if k.filter == nil {
		return
	}
	first, last := int(k.elements.starts[lo]), int(k.elements.starts[hi])
	k.base, k.found = first&^63, k.found[:0]
	if first == last {
		return
	}
	k.found = slices.Grow(k.found, span(first, last))[:span(first, last)]
	k.filter.match(first, last, k.found)
	clip(first, last, k.found)
}

// key returns the value of a person's sort key.
func (k *sortKey) key(s *planner.Sort, row int) (key rankKey, ok bool) {
	if k.elements == nil {
		if k.texts != nil {
			return rankKey{missing: 1, text: k.texts[row]}, k.texts[row] != ""
		}
		return numberKey(*s, k.numbers[row]), k.numbers[row] != readmodel.SearchMissing
	}
	var texts []string
	var numbers []int64
	first, last := k.bounds(row)
	for unit := first; unit < last; unit++ {
		if i := unit - k.base; k.filter != nil && k.found[i>>6]>>(i&63)&1 == 0 {
			continue
		}
		switch {
		case k.texts != nil:
			if t := k.texts[unit]; t != "" {
				texts = append(texts, t)
			}
		case k.numbers[unit] != readmodel.SearchMissing:
			numbers = append(numbers, k.numbers[unit])
		}
	}
	if s.Children != nil {
		texts, numbers = texts[:min(len(texts), *s.Children)], numbers[:min(len(numbers), *s.Children)]
	}
	switch {
	case len(texts) > 0 && s.Mode == algebra.ScoreMax:
		return rankKey{missing: 1, text: slices.Max(texts)}, true
	case len(texts) > 0:
		return rankKey{missing: 1, text: slices.Min(texts)}, true
	case len(numbers) > 0 && s.Double:
		return ordered(*s, floatKey(aggregate(s.Mode, floats(numbers)))), true
	case len(numbers) > 0:
		return ordered(*s, intKey(aggregateWhole(s.Mode, numbers))), true
	}
	return rankKey{}, false
}

// collector collects the first hits of a page.
type collector struct {
	sorts     []planner.Sort // those that have values
	missing   []*rankKey     // replacements of missing values; nil: none
	limit     int
	after     *candidate
	fallible  bool
	best      []candidate // a heap with the last hit at the root
	total     int64
	invalid   bool
	scores    []float64
	matching  []uint64
	others    []uint64 // people of a window who do not match
	hidden    []int
	keys      []sortKey // of the part, one for each of sorts
	candidate candidate
	partials  []aggregation.Partial
	budget    *aggregation.Budget
	counted   [][]aggregator // of each part
	// countedTexts is the number of counts of counted.
	countedTexts int
	skip         int
	scored       bool
	collapsed    bool
	collapse     column            // of the part
	groups       map[groupKey]bool // those of best
}

func newCollector(q *Question, fallible bool) (*collector, error) {
	c := &collector{limit: q.Limit, fallible: fallible, partials: aggregation.NewPartials(q.Aggregations),
		skip: q.Skip, scored: q.scored(), collapsed: q.Collapse != nil, groups: make(map[groupKey]bool)}
	for _, s := range q.Sort {
		if s.Kind == planner.SortDocument {
			continue
		}
		var missing *rankKey
		if s.Kind == planner.SortField && s.Missing != nil {
			k, err := parseKey(s, *s.Missing)
			if err != nil {
				return nil, fmt.Errorf("postings: value for missing ones: %w", err)
			}
			missing = &k
		}
		c.sorts, c.missing = append(c.sorts, s), append(c.missing, missing)
	}
	c.candidate.keys = make([]rankKey, len(c.sorts))
	if q.After == nil {
		return c, nil
	}
	c.after = &candidate{hash: q.After.Hash, id: q.After.ID, keys: make([]rankKey, len(c.sorts))}
	if len(q.After.Keys) != len(c.sorts) {
		return nil, fmt.Errorf("postings: a cursor has %d values for %d sort keys", len(q.After.Keys), len(c.sorts))
	}
	for i, last := range q.After.Keys {
		if last.Missing {
			c.after.keys[i] = missingKey(c.sorts[i])
			continue
		}
		k, err := parseKey(c.sorts[i], last.Value)
		if err != nil {
			return nil, fmt.Errorf("postings: value of a cursor: %w", err)
		}
		c.after.keys[i] = k
	}
	return c, nil
}

// missingKey returns the key of a document without a value.
func missingKey(s planner.Sort) rankKey {
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

// floatKey encodes a number so that keys order like numbers.
func floatKey(x float64) uint64 {
	if x == 0 {
		x = 0 // not -0
	}
	b := math.Float64bits(x)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func keyFloat(b uint64) float64 {
	if b>>63 != 0 {
		return math.Float64frombits(b &^ (1 << 63))
	}
	return math.Float64frombits(^b)
}

func intKey(x int64) uint64 { return uint64(x) ^ 1<<63 } //nolint:gosec // its bits

func keyInt(b uint64) int64 { return int64(b ^ 1<<63) } //nolint:gosec // its bits

// numberKey returns the key of a numeric value.
func numberKey(s planner.Sort, v int64) rankKey {
	if s.Double {
		return ordered(s, floatKey(float64(v)))
	}
	return ordered(s, intKey(v))
}

// parseKey returns the key of a value as cursors and requests write it.
func parseKey(s planner.Sort, value string) (rankKey, error) {
	if s.Kind == planner.SortScore {
		x, err := strconv.ParseFloat(value, 32)
		return ordered(s, floatKey(x)), err
	}
	if s.Field.IsString() {
		return rankKey{missing: 1, text: value}, nil
	}
	if s.Double {
		x, err := strconv.ParseFloat(value, 64)
		return ordered(s, floatKey(x)), err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return ordered(s, intKey(n)), err
}

// cursorKey returns the key as cursors write it.
func (k rankKey) cursorKey(s planner.Sort) planner.Key {
	if k.missing != 1 {
		return planner.Key{Missing: true}
	}
	if s.Kind == planner.SortField && s.Field.IsString() {
		return planner.Key{Value: k.text}
	}
	value := k.value
	if s.Descending {
		value = ^value
	}
	switch {
	case s.Kind == planner.SortScore:
		return planner.Key{Value: strconv.FormatFloat(keyFloat(value), 'g', -1, 32)}
	case s.Double:
		return planner.Key{Value: strconv.FormatFloat(keyFloat(value), 'g', -1, 64)}
	}
	return planner.Key{Value: strconv.FormatInt(keyInt(value), 10)}
}

// collect ranks the people of a part, from a row that is a multiple of a window to before another.
func (c *collector) collect(pace *pace, v *view, number int, plan *plan, hidden []uint64, from, to int) error {
	c.hide(v.part, hidden)
	root := plan.root
	c.keys, c.candidate.view = plan.keys, number
	same, constant := root.uniformScore()
	_, everyone := root.(everyOp)
	scored := c.scored
	c.collapse = plan.collapse
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
		if len(c.partials) > 0 && (found > 0 || everyone) {
			c.aggregate(plan.aggregations, lo, hi, out, everyone)
			switch {
			case pace.over:
				return pace.ctx.Err()
			case c.budget.Exceeded():
				return &TooLarge{aggregation.ErrTooManyValues.Error()}
			}
		}
		if found == 0 || c.limit == 0 {
			continue
		}
		if scored && !constant {
			root.score(lo, hi, out, c.scores)
			if pace.over {
				return pace.ctx.Err()
			}
			c.check(out)
		}
		if (constant || !scored) && c.settled(v.part, lo, same) {
			continue
		}
		if len(c.sorts) == 1 && c.sorts[0].Kind == planner.SortScore && c.sorts[0].Descending && !constant {
			c.byScore(v.part, lo, out)
			continue
		}
		for i := range c.keys {
			c.keys[i].find(lo, hi)
		}
		if len(c.sorts) > 0 && c.byOneNumber() && !scored {
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
	c.counted = append(c.counted, plan.aggregations)
	return nil
}

// settled reports whether no document of a window can enter the page: all have the same score, and the order is by
// hash.
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
		c.candidate.keys[i] = ordered(s, floatKey(float64(float32(same))))
	}
	c.candidate.hash, c.candidate.id = p.hashes[lo], ""
	return c.compare(&c.candidate, &c.best[0]) > 0
}

// byScore is offer for pages in order of scores alone.
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

// worst returns the score and the hash of the last hit of a full page.
func (c *collector) worst() (score float32, hash uint64, full bool) {
	if len(c.best) < c.limit {
		return 0, 0, false
	}
	return float32(keyFloat(^c.best[0].keys[0].value)), c.best[0].hash, true
}

// byOneNumber reports whether the first sort key is an integer field of the person.
func (c *collector) byOneNumber() bool {
	s, k := &c.sorts[0], &c.keys[0]
	return s.Kind == planner.SortField && !s.Double && k.elements == nil && k.numbers != nil
}

// byNumber is offer for pages whose first sort key is a number.
func (c *collector) byNumber(p *part, lo int, out []uint64) {
	values := c.keys[0].numbers[lo:]
	flip := uint64(1) << 63 // as intKey
	if c.sorts[0].Descending {
		flip = ^flip
	}
	last, full := c.worstNumber()
	for w, word := range out {
		for ; word != 0; word &= word - 1 {
			i := w<<6 + bits.TrailingZeros64(word)
			v := values[i]
			if full && uint64(v)^flip > last && v != readmodel.SearchMissing { //nolint:gosec // its bits
				continue
			}
			c.offer(p, lo+i, 0)
			last, full = c.worstNumber()
		}
	}
}

// worstNumber returns the first key of the last hit of a full page whose hits all have a value.
func (c *collector) worstNumber() (value uint64, full bool) {
	if len(c.best) < c.limit || c.best[0].keys[0].missing != 1 {
		return 0, false
	}
	return c.best[0].keys[0].value, true
}

// check records invalid scores.
func (c *collector) check(out []uint64) {
	if !c.fallible {
		return
	}
	for w, word := range out {
		for ; word != 0; word &= word - 1 {
			if s := c.scores[w<<6+bits.TrailingZeros64(word)]; !(float32(s) >= 0) { // NaN is not
				c.invalid = true
				return
			}
		}
	}
}

// offer adds a person to the page if it belongs before the last hit.
func (c *collector) offer(p *part, row int, score float64) {
	one := &c.candidate
	one.hash, one.row, one.id, one.score = p.hashes[row], row, p.ids[row], float32(score)
	for i := range c.sorts {
		s := &c.sorts[i]
		if s.Kind == planner.SortScore {
			one.keys[i] = ordered(*s, floatKey(float64(float32(score))))
		} else if key, ok := c.keys[i].key(s, row); ok {
			one.keys[i] = key
		} else if c.missing[i] != nil {
			one.keys[i] = *c.missing[i]
		} else {
			one.keys[i] = missingKey(*s)
		}
		if i == 0 && len(c.best) == c.limit && compareKeys(s, &one.keys[0], &c.best[0].keys[0]) > 0 {
			return
		}
	}
	if !c.follows(one) {
		return
	}
	if c.collapsed {
		c.offerGroup(one)
		return
	}
	if len(c.best) < c.limit {
		added := *one
		added.keys = slices.Clone(one.keys)
		c.best = append(c.best, added)
		if len(c.best) == c.limit {
			for i := len(c.best)/2 - 1; i >= 0; i-- {
				c.down(i)
			}
		}
		return
	}
	if c.compare(one, &c.best[0]) >= 0 {
		return
	}
	keys := c.best[0].keys
	copy(keys, one.keys)
	c.best[0] = *one
	c.best[0].keys = keys
	c.down(0)
}

// offerGroup adds a person to a collapsed page if it belongs before the last hit and those of its group. The hits are
// in order, the last one first. A group whose hit was dropped comes back with a better one, if it has any.
func (c *collector) offerGroup(one *candidate) {
	one.group = groupKey{}
	if c.collapse.texts != nil {
		one.group.text = c.collapse.texts[one.row]
	} else {
		one.group.number = c.collapse.numbers[one.row]
	}
	full := len(c.best) == c.limit
	switch {
	case full && c.compare(one, &c.best[0]) >= 0:
		return
	case c.groups[one.group]:
		i := slices.IndexFunc(c.best, func(b candidate) bool { return b.group == one.group })
		if c.compare(one, &c.best[i]) >= 0 {
			return
		}
		c.best = slices.Delete(c.best, i, i+1)
	case full:
		delete(c.groups, c.best[0].group)
		c.best = slices.Delete(c.best, 0, 1)
	}
	added := *one
	added.keys = slices.Clone(one.keys)
	at := sort.Search(len(c.best), func(i int) bool { return c.compare(&c.best[i], one) < 0 })
	c.best = slices.Insert(c.best, at, added)
	c.groups[one.group] = true
}

// down restores the heap below a candidate.
func (c *collector) down(i int) {
	for {
		last := 2*i + 1
		if last >= len(c.best) {
			return
		}
		if last+1 < len(c.best) && c.compare(&c.best[last+1], &c.best[last]) > 0 {
			last++
		}
		if c.compare(&c.best[last], &c.best[i]) <= 0 {
			return
		}
		c.best[i], c.best[last] = c.best[last], c.best[i]
		i = last
	}
}

// hide finds the rows of hidden people.
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
	slices.SortFunc(c.best, func(a, b candidate) int { return c.compare(&a, &b) })
	c.best = c.best[min(c.skip, len(c.best)):]
	a := &Answer{Total: c.total, Invalid: c.invalid, page: c.best}
	for _, b := range c.best {
		p := planner.Place{Hash: b.hash, ID: b.id, Score: b.score}
		for i, k := range b.keys {
			p.Keys = append(p.Keys, k.cursorKey(c.sorts[i]))
		}
		a.Places = append(a.Places, p)
	}
	return a
}
