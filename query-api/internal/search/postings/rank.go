package postings

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// Question is a request for a page.
type Question struct {
	Node  algebra.Node
	Sort  []planner.Sort
	Stats *planner.Stats
	// First counts, in Stats, the terms that scores need.
	First bool
	After *planner.Place // nil: from the beginning
	// Skip is the number of people before the page, Limit their number up to its end; 0: only the total.
	Skip, Limit int
	// TrackScores computes scores even if the order does not depend on them.
	TrackScores bool
	// Collapse, if set, is the field of which only the first person with each value counts, except in the total.
	Collapse *algebra.Field
	// Named are clauses of which the answer tells whether they match the people of the page.
	Named []algebra.Node
	// Hidden are the profile hashes of people who are neither ranked nor counted.
	Hidden []uint64
	// MaxTime bounds ranking, after reading; 0: no limit. If exceeded, the error is context.DeadlineExceeded.
	MaxTime time.Duration
	// Workers is the number of goroutines that rank; at least 1.
	Workers int
	// Yielding yields the processor after each window, to cheaper queries.
	Yielding bool
	// CountFields counts in Stats the fields that scores need. It is called when the terms are counted.
	CountFields func(context.Context, *Snapshot) error
	// Inner are the clauses whose matching elements are returned for the people of the page.
	Inner []algebra.Nested
	// Aggregations are those of all people who match, whatever the page.
	Aggregations []aggregation.Aggregation
}

// Answer is a page.
type Answer struct {
	// Places have profile IDs only if several people share a hash.
	Places []planner.Place
	Total  int64
	// Invalid states that a score is negative or not a number.
	Invalid bool
	// Elements are, for each place and each of Question.Inner, the elements that match.
	Elements [][][]Element
	// Matches are, for each place and each of Question.Named, whether it matches.
	Matches [][]bool
	// Aggregations are the results of Question.Aggregations.
	Aggregations []aggregation.Value

	page []candidate // one for each of Places
}

// Element is an element of a nested path that matches.
type Element struct {
	Index int
	Score float32
	// Values are those of the fields that order the elements, empty if missing.
	Values []string
}

// plan is a question compiled for one part.
type plan struct {
	root         op
	keys         []sortKey // one for each sort key that has values
	inner        []innerPlan
	aggregations []aggregator
	collapse     column
	named        []op
}

// innerPlan finds the elements that match a clause.
type innerPlan struct {
	op
	elements *elements
	scored   bool
	columns  []column
}

// plan compiles a question. Without a view it records what the question needs.
func (c *compiler) plan(q *Question, scored bool) (*plan, error) {
	root, err := c.node(q.Node, "", scored)
	if err != nil {
		return nil, err
	}
	p := &plan{root: root}
	if p.aggregations, err = c.aggregators(q.Aggregations, ""); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		return p, nil
	}
	for _, s := range q.Sort {
		var key sortKey
		switch s.Kind {
		case planner.SortDocument:
			continue
		case planner.SortField:
			if key.column, err = c.column(s.Field, ""); err != nil {
				return nil, err
			}
			if s.Nested == nil {
				break
			}
			if key.filter, err = c.node(s.Nested, s.Field.Nested, false); err != nil {
				return nil, err
			}
		}
		p.keys = append(p.keys, key)
	}
	if q.Collapse != nil {
		if p.collapse, err = c.column(*q.Collapse, ""); err != nil {
			return nil, err
		}
	}
	if p.named, err = c.list(q.Named, "", false); err != nil {
		return nil, err
	}
	for _, n := range q.Inner {
		inner := innerPlan{scored: n.InnerHits.Scored()}
		if inner.op, err = c.node(n.Node, n.Path, inner.scored); err != nil {
			return nil, err
		}
		if c.view == nil {
			c.needs.paths[n.Path] = true
		} else {
			inner.elements = c.view.elements[n.Path]
		}
		for _, s := range n.InnerHits.Sort {
			if s.By != algebra.InnerField {
				continue
			}
			values, err := c.column(s.Field, n.Path)
			if err != nil {
				return nil, err
			}
			inner.columns = append(inner.columns, values)
		}
		p.inner = append(p.inner, inner)
	}
	return p, nil
}

// find returns the elements of a person that match. invalid reports whether a score is negative or not a number.
func (p *innerPlan) find(row int) (list []Element, invalid bool) {
	first, last := int(p.elements.starts[row]), int(p.elements.starts[row+1])
	if first == last {
		return nil, false
	}
	found := make([]uint64, span(first, last))
	scores := make([]float64, 64*len(found))
	p.match(first, last, found)
	clip(first, last, found)
	if p.scored {
		p.score(first, last, found, scores)
	}
	base := first &^ 63
	for unit := first; unit < last; unit++ {
		i := unit - base
		if found[i>>6]>>(i&63)&1 == 0 {
			continue
		}
		e := Element{Index: unit - first, Score: float32(scores[i])}
		invalid = invalid || !(e.Score >= 0) // NaN is not
		for _, c := range p.columns {
			e.Values = append(e.Values, c.text(unit))
		}
		list = append(list, e)
	}
	return list, invalid
}

// Rank answers a question as of a snapshot. It returns an [Unavailable], a [TooLarge], an error that is [Changed], or
// an error of reading.
func (x *Index) Rank(ctx context.Context, s *Snapshot, q *Question) (*Answer, error) {
	scored := q.scored()
	newCompiler := func() compiler {
		return compiler{stats: q.Stats, needs: newNeeds(), pace: &pace{ctx: ctx, yielding: q.Yielding}}
	}
	if q.First && NeedsCounts(q) {
		wanted := planner.Wanted(q.Node, planner.SortFilters(q.Sort), q.Stats)
		first := newCompiler()
		early := len(wanted) <= maxEarlyTerms && len(s.parts) > 0
		if early {
			if _, err := first.plan(q, scored); err != nil {
				return nil, err
			}
		}
		if err := x.count(ctx, s, q, wanted, first.needs, early); err != nil {
			return nil, err
		}
	}
	c := newCompiler()
	c.weights = planner.NewWeights(q.Stats, append(planner.SortFilters(q.Sort), q.Node)...)
	if _, err := c.plan(q, scored); err != nil {
		return nil, err
	}
	views, err := x.views(ctx, s, c.needs, q.reader())
	if err != nil {
		return nil, err
	}
	if q.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.MaxTime)
		defer cancel()
	}
	people := 0
	for _, v := range views {
		people += v.part.size
	}
	workers := max(1, min(q.Workers, people/(8*window)))
	collectors := make([]*collector, workers)
	budget := &aggregation.Budget{}
	g, working := errgroup.WithContext(ctx)
	for i := range collectors {
		var err error
		if collectors[i], err = newCollector(q, planner.Fallible(q.Node)); err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		collectors[i].budget = budget
		g.Go(func() error {
			own, done := c.worker(working, x)
			defer done()
			mine := collectors[i]
			mine.scores, mine.matching = own.buffers.takeScores(window), own.buffers.takeBits(window/64)
			defer own.buffers.giveScores(mine.scores)
			defer own.buffers.giveBits(mine.matching)
			for number, v := range views {
				own.view, own.next = v, 0
				plan, err := own.plan(q, scored)
				if err != nil {
					return err
				}
				mine.countTexts(plan.aggregations)
				windows := (v.part.size + window - 1) / window
				from, to := i*windows/workers*window, min((i+1)*windows/workers*window, v.part.size)
				if err := mine.collect(own.pace, v, number, plan, q.Hidden, from, to); err != nil {
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
		aggregation.Merge(q.Aggregations, collectors[0].partials, other.partials)
		collectors[0].mergeCounts(other)
	}
	if err := collectors[0].flush(); err != nil {
		return nil, err
	}
	a := collectors[0].answer()
	if a.Aggregations, err = aggregation.Finish(q.Aggregations, collectors[0].partials); err != nil {
		return nil, &TooLarge{err.Error()}
	}
	if len(q.Inner)+len(q.Named) > 0 && len(a.Places) > 0 {
		err = c.details(ctx, x, q, views, a)
	}
	return a, err
}

// worker returns a compiler for one goroutine, with separate buffers until done is called.
func (c *compiler) worker(ctx context.Context, x *Index) (own *compiler, done func()) {
	copied := *c
	own = &copied
	own.buffers = x.buffers.Get().(*buffers) //nolint:forcetypeassert // nothing else is in it
	own.buffers.pace = pace{ctx: ctx, yielding: c.pace.yielding}
	own.pace = &own.buffers.pace
	return own, func() {
		own.buffers.pace = pace{}
		x.buffers.Put(own.buffers)
	}
}

func (q *Question) reader() reader { return reader{q.Workers, q.Yielding} }

// scored reports whether scores are computed.
func (q *Question) scored() bool { return q.Limit > 0 && (q.TrackScores || planner.Scored(q.Sort)) }

// details finds the elements of the people of a page, and the named clauses that match them.
func (c *compiler) details(ctx context.Context, x *Index, q *Question, views []*view, a *Answer) error {
	own, done := c.worker(ctx, x)
	defer done()
	a.Elements, a.Matches = make([][][]Element, len(a.page)), make([][]bool, len(a.page))
	for number, v := range views {
		var plan *plan
		for i := range a.page {
			if a.page[i].view != number {
				continue
			}
			if plan == nil {
				var err error
				own.view, own.next = v, 0
				if plan, err = own.plan(q, q.scored()); err != nil {
					return err
				}
			}
			row := a.page[i].row
			found := make([]uint64, 1)
			for _, n := range plan.named {
				n.match(row, row+1, found)
				a.Matches[i] = append(a.Matches[i], found[0]>>(row&63)&1 != 0)
			}
			for k := range plan.inner {
				list, invalid := plan.inner[k].find(row)
				a.Elements[i] = append(a.Elements[i], list)
				a.Invalid = a.Invalid || invalid
			}
			if own.pace.over || ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// join merges the hits of another collector.
func (c *collector) join(other *collector) {
	c.total += other.total
	c.invalid = c.invalid || other.invalid
	c.best = append(c.best, other.best...)
	slices.SortFunc(c.best, func(a, b candidate) int { return c.compare(&a, &b) })
	if c.collapsed {
		seen := make(map[groupKey]bool, len(c.best))
		c.best = slices.DeleteFunc(c.best, func(one candidate) bool {
			isLater := seen[one.group]
			seen[one.group] = true
			return isLater
		})
	}
	c.best = c.best[:min(len(c.best), c.limit)]
}

// NoteAbsent records in the statistics of a query the terms that are known not to occur in the snapshot.
func (s *Snapshot) NoteAbsent(n algebra.Node, stats *planner.Stats) {
	note := func(f algebra.Field, text string) {
		key := planner.TermKey(f.Name(), text)
		if _, counted := stats.Terms[key]; !counted && s.terms.absent(key) { // the first page's counts stay
			stats.Count(key, 0)
		}
	}
	algebra.Walk(n, func(n algebra.Node) {
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
}

// Identify reads the profile IDs of the people of a page. Rank omits them, since they are rarely needed.
func (x *Index) Identify(ctx context.Context, s *Snapshot, a *Answer) error {
	hashes := make([]uint64, len(a.Places))
	byRow := make(map[[2]int]int)
	for i, p := range a.Places {
		hashes[i] = p.Hash
		byRow[[2]int{a.page[i].view, a.page[i].row}] = i
	}
	for number, p := range s.parts {
		var row uint32
		var id string
		err := x.query(
			ctx,
			"identify",
			p.replica.Read(planner.SharedStatement(hashes, p.name)),
			func(rows driver.Rows) error {
				if err := rows.Scan(&row, &id); err != nil {
					return err
				}
				if i, ok := byRow[[2]int{number, int(row)}]; ok {
					a.Places[i].ID = id
				}
				return nil
			},
		)
		if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(a.Places, func(p planner.Place) bool { return p.ID == "" }) {
		return errChanged
	}
	return nil
}

// NeedsCounts reports whether a question depends on document frequencies: whether scores decide the matches or the
// order.
func NeedsCounts(q *Question) bool {
	return planner.ScoresDecide(q.Node) || (q.TrackScores || planner.Scores(q.Node, q.Sort)) && q.Limit > 0
}

// maxEarlyTerms is the maximum number of terms with which all that a question needs is read before it is known which of
// them exist.
const maxEarlyTerms = 8

// count counts the terms that scores need, each in all live people and elements, and their fields. It also reads n. If
// early, it reads all at the same time.
func (x *Index) count(
	ctx context.Context, s *Snapshot, q *Question, wanted map[string]algebra.Term, n *needs, early bool,
) error {
	leaves := make(map[string]string) // keys of uncounted terms, by those of the terms
	for key, t := range wanted {
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
	early = early && len(leaves) > 0
	var g errgroup.Group
	g.SetLimit(max(1, q.Workers))
	var views []*view
	g.Go(func() (err error) {
		if len(leaves) > 0 {
			views, err = x.views(ctx, s, n, q.reader())
		}
		return err
	})
	if early {
		g.Go(func() error { return q.CountFields(ctx, s) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for key, leaf := range leaves {
		total := int64(0)
		for _, v := range views {
			total += v.units(v.leaves[leaf], wanted[key].Field.CountsElements())
		}
		s.terms.count(key, total)
		q.Stats.Count(key, total)
	}
	if early {
		return nil
	}
	return q.CountFields(ctx, s)
}

// Living returns those of some texts, found in the parts of a snapshot as terms of a field, that a live person has who
// is not hidden. Unless people were replaced, deleted or hidden, each term is of such a person, and nothing is read.
func (x *Index) Living(
	ctx context.Context, s *Snapshot, f algebra.Field, texts []string, hidden []uint64, yielding bool,
) ([]string, error) {
	whole, visible := !f.Linked, make(map[*part][]uint64, len(s.parts))
	for _, p := range s.parts {
		visible[p] = p.visible(hidden)
		whole = whole && visible[p] == nil
	}
	if whole {
		return texts, nil
	}
	n, leaves := newNeeds(), make([]string, len(texts))
	for i, text := range texts {
		leaf := planner.Leaf{Node: algebra.Term{Field: f, Text: text}}
		leaves[i] = leaf.Key()
		n.leaves[leaves[i]] = leaf
	}
	views, err := x.views(ctx, s, n, reader{1, yielding})
	if err != nil {
		return nil, err
	}
	var living []string
	for i, text := range texts {
		if slices.ContainsFunc(views, func(v *view) bool { return v.leaves[leaves[i]].intersects(visible[v.part]) }) {
			living = append(living, text)
		}
	}
	return living, nil
}

// units returns how many live people have a term, and how many of their elements.
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
