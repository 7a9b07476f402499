package search

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// Explanation describes the execution of a search.
type Explanation struct {
	Refused       string      `json:"refused,omitempty"`
	Query         any         `json:"query,omitzero"`
	Statements    []Statement `json:"statements"`
	EstimatedRows int64       `json:"estimated_rows"`
	MaxCredits    int64       `json:"max_credits"`
	// Transient means that the same query may be explained differently a moment later.
	Transient bool `json:"-"`
}

// Statement is one step of a search.
type Statement struct {
	Step       string            `json:"step"`
	SQL        string            `json:"sql"`
	Parameters map[string]string `json:"parameters"`
}

// Explain returns the query as executed and the statements that would read its data into an empty index, with the
// number of rows they read. A rejected query is a result, an invalid cursor an error. Terms that fuzzy words,
// phrase prefixes and patterns expand to are shown as placeholders: only a search, which costs credits, shows stored
// data. admit may reject a valid query. Explain waits for a slot as a search does.
func (s *Searcher) Explain(ctx context.Context, r Request, admit func(*Search) error) (e *Explanation, err error) {
	prepared, err := s.Prepare(r)
	if err == nil {
		err = admit(prepared)
	}
	if err == nil {
		err = prepared.withSlot(ctx, func(ctx context.Context) (err error) {
			for range maxAttempts { // the parts may change
				if e, err = prepared.explain(ctx); !postings.Changed(err) {
					break
				}
			}
			return err
		})
	}
	err = tooExpensive(err)
	var invalid *clause.Error
	var large *TooExpensiveError
	switch {
	case errors.As(err, &invalid):
		return &Explanation{Refused: invalid.Error(), Statements: []Statement{}}, nil
	case errors.As(err, &large):
		return &Explanation{Refused: large.Error(), Statements: []Statement{}, Transient: true}, nil
	case err != nil:
		return nil, err
	}
	return e, nil
}

func (s *Search) explain(ctx context.Context) (*Explanation, error) {
	if s.searcher.remote != nil {
		return s.explainRemote()
	}
	snapshot, err := s.searcher.index.Latest(ctx)
	if err != nil {
		return nil, err
	}
	d := s.searcher.dictionary(snapshot)
	if err := s.lookUp(ctx, d); err != nil {
		return nil, err
	}
	blend, hidden := firstBlend, placeholders{names: make(map[string]string)}
	query, err := s.explained(ctx, d, s.node, &blend, &hidden)
	if err != nil {
		return nil, err
	}
	run, shown := *s, *s
	run.sorts, shown.sorts = slices.Clone(s.sorts), slices.Clone(s.sorts)
	for i, key := range s.sorts {
		if key.Nested == nil {
			continue
		}
		filter, err := s.explained(ctx, d, key.Nested, &blend, &hidden)
		if err != nil {
			return nil, err
		}
		run.sorts[i].Nested, shown.sorts[i].Nested = filter.run, filter.shown
	}
	run.named, shown.named = slices.Clone(s.named), slices.Clone(s.named)
	for i, n := range s.named {
		clause, err := s.explained(ctx, d, n.node, &blend, &hidden)
		if err != nil {
			return nil, err
		}
		run.named[i].node, shown.named[i].node = clause.run, clause.shown
	}
	var hiddenFilters []algebra.Node
	run.aggregations, err = aggregation.Rewrite(s.aggregations, func(n algebra.Node) (algebra.Node, error) {
		filter, err := s.explained(ctx, d, n, &blend, &hidden)
		hiddenFilters = append(hiddenFilters, filter.shown)
		return filter.run, err
	})
	if err != nil {
		return nil, err
	}
	shown.aggregations, _ = aggregation.Rewrite(s.aggregations, func(algebra.Node) (n algebra.Node, _ error) {
		n, hiddenFilters = hiddenFilters[0], hiddenFilters[1:]
		return n, nil
	})
	run.node, shown.node = algebra.ShareStatistics(query.run), algebra.ShareStatistics(query.shown)
	shown.cursor.Stats = hidden.in(s.cursor.Stats)
	e := &Explanation{Query: algebra.Describe(query.described), Statements: []Statement{}}
	readings, err := run.readings(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	for _, r := range readings {
		rows, err := s.searcher.estimate(ctx, r.Statement)
		if err != nil {
			return nil, err
		}
		e.EstimatedRows += rows
	}
	if readings, err = shown.readings(ctx, snapshot); err != nil {
		return nil, err
	}
	for _, r := range readings {
		if r.Parameters == nil {
			r.Parameters = map[string]string{}
		}
		r.Statement = r.Of(s.searcher.collection)
		e.Statements = append(e.Statements, Statement{Step: r.Step, SQL: r.SQL, Parameters: r.Parameters})
	}
	return e, nil
}

// readings returns the statements that read what an expanded search needs.
func (s *Search) readings(ctx context.Context, snapshot *postings.Snapshot) ([]postings.Reading, error) {
	out, err := s.searcher.index.Explain(ctx, snapshot, s.question())
	if err != nil || !s.first || !postings.NeedsCounts(s.question()) {
		return out, err
	}
	unknown := func(string) bool { return false }
	for _, c := range planner.FieldStatements(s.node, planner.SortFilters(s.sorts), s.cursor.Stats, unknown) {
		out = append(out, postings.Reading{Step: stepFields, Statement: c.Statement})
	}
	return out, nil
}

// estimate returns the number of rows that a statement reads.
func (s *Searcher) estimate(ctx context.Context, statement planner.Statement) (total int64, err error) {
	statement.SQL = "EXPLAIN ESTIMATE " + statement.SQL
	err = s.query(ctx, "estimate", statement, func(rows driver.Rows) error {
		var database, table string
		var parts, read, marks uint64
		if err := rows.Scan(&database, &table, &parts, &read, &marks); err != nil {
			return err
		}
		total += int64(read)
		return nil
	})
	return total, err
}

// explained is a query, or the filter of a sort key, in three forms.
type explained struct {
	// run is executed; shown is run with placeholders; described is the query as requested.
	run, shown, described algebra.Node
}

func (s *Search) explained(
	ctx context.Context, d *dictionary, n algebra.Node, blend *int, hidden *placeholders,
) (explained, error) {
	var e explained
	// in the fixed order of the rewrite
	var became []algebra.Node
	var err error
	e.run, err = algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) {
		m, err := s.rewrite(ctx, d, n, blend)
		if err == nil {
			m, err = d.dropDeadTerms(ctx, m, n)
		}
		became = append(became, m)
		return m, err
	})
	if err != nil {
		return e, err
	}
	again := func(change func(asked, became algebra.Node) algebra.Node) algebra.Node {
		i := -1
		out, _ := algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) {
			i++
			if !expands(n) {
				return n, nil
			}
			return change(n, became[i]), nil
		})
		return out
	}
	e.shown = again(func(asked, became algebra.Node) algebra.Node { return hidden.hide(asked, became) })
	e.described = again(func(asked, became algebra.Node) algebra.Node {
		if terms, ok := found(asked, became); ok {
			return algebra.Expanded{Node: asked, Terms: terms}
		}
		return asked
	})
	return e, nil
}

// expands reports whether a node needs data from the store before it is planned.
func expands(n algebra.Node) bool {
	switch n.(type) {
	case algebra.Fuzzy, algebra.Pattern, algebra.Phrase:
		return true
	}
	return false
}

// found returns the number of terms that a node expanded to.
func found(asked, became algebra.Node) (terms int, ok bool) {
	switch p := asked.(type) {
	case algebra.Pattern:
		if _, same := became.(algebra.Pattern); same {
			return 0, false
		}
	case algebra.Phrase:
		if !p.PrefixLast {
			return 0, false
		}
	}
	algebra.Walk(became, func(n algebra.Node) {
		switch n := n.(type) {
		case algebra.Term:
			terms++
		case algebra.Set:
			terms += len(n.Values)
		case algebra.Phrase:
			terms += len(n.Terms[len(n.Terms)-1])
		}
	})
	return terms, true
}

// dropDeadTerms removes found terms without live documents. A search does not need to, since they match nothing; an
// explanation would reveal that a deleted person had them.
func (d *dictionary) dropDeadTerms(ctx context.Context, became, asked algebra.Node) (algebra.Node, error) {
	set, ok := became.(algebra.Set)
	if _, same := asked.(algebra.Set); !ok || same {
		return became, nil
	}
	var found []string
	for some := range slices.Chunk(set.Values, clause.MaxExpansions) {
		living, err := d.living(ctx, set.Field, some, len(some))
		if err != nil {
			return nil, err
		}
		found = append(found, living...)
	}
	set.Values = found
	return setOrNone(set), nil
}

// placeholders replace terms from the store: the caller has not received the records that contain them.
type placeholders struct {
	names map[string]string // by term key
	terms int
}

// of returns the placeholder of a term, the same everywhere.
func (p *placeholders) of(f algebra.Field, term string) string {
	key := planner.TermKey(f.Name(), term)
	if _, ok := p.names[key]; !ok {
		p.terms++
		p.names[key] = "<term " + strconv.Itoa(p.terms) + ">"
	}
	return p.names[key]
}

func (p *placeholders) all(f algebra.Field, terms []string) []string {
	out := make([]string, len(terms))
	for i, t := range terms {
		out[i] = p.of(f, t)
	}
	return out
}

// hide replaces the terms that a node expanded to.
func (p *placeholders) hide(asked, became algebra.Node) algebra.Node {
	_, expanded := found(asked, became)
	out, _ := algebra.Rewrite(became, func(n algebra.Node) (algebra.Node, error) {
		switch n := n.(type) {
		case algebra.Term:
			n.Text = p.of(n.Field, n.Text)
			return n, nil
		case algebra.Set:
			n.Values = p.all(n.Field, n.Values)
			return n, nil
		case algebra.Phrase:
			if last := len(n.Terms) - 1; expanded {
				n.Terms = append(slices.Clone(n.Terms[:last]), p.all(n.Field, n.Terms[last]))
			}
			return n, nil
		}
		return n, nil
	})
	return out
}

// in returns statistics in which the placeholders have the counts of their terms.
func (p *placeholders) in(stats *planner.Stats) *planner.Stats {
	out := &planner.Stats{Fields: stats.Fields, Terms: maps.Clone(stats.Terms), Absent: maps.Clone(stats.Absent)}
	for key, name := range p.names {
		field, _, _ := strings.Cut(key, "\x00")
		shown := planner.TermKey(field, name)
		if n, ok := stats.Terms[key]; ok {
			out.Terms[shown] = n
		}
		if stats.Absent[key] {
			out.Absent[shown] = true
		}
	}
	return out
}
