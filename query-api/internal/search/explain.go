package search

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
)

// Explanation describes how a search would be executed.
type Explanation struct {
	// Refused is why the request is invalid or too expensive; empty: it is neither.
	Refused       string      `json:"refused,omitempty"`
	Query         any         `json:"query,omitzero"`
	Statements    []Statement `json:"statements"`
	EstimatedRows int64       `json:"estimated_rows"`
	MaxCredits    int64       `json:"max_credits"`
	// Transient reports that the same query may have another explanation later.
	Transient bool `json:"-"`
}

// Statement is a step of a search.
type Statement struct {
	Step       string            `json:"step"`
	SQL        string            `json:"sql"`
	Parameters map[string]string `json:"parameters"`
}

// Explain describes how a search would be executed, without executing it. An invalid or too expensive query is an
// [Explanation] with Refused; an invalid cursor is an error. Statistics are unknown: weights assume one match of each
// term, absent terms are not dropped, and the sample for the minimum score is missing. Stored terms that multi-term
// queries expand to are replaced by placeholders, since only a charged search may reveal stored data. It waits for a
// slot as a search does.
func (s *Searcher) Explain(ctx context.Context, r Request) (e *Explanation, err error) {
	prepared, err := s.Prepare(r)
	if err == nil {
		err = prepared.withSlot(ctx, func(ctx context.Context) (err error) {
			e, err = prepared.explain(ctx)
			return err
		})
	}
	var invalid *clause.Error
	var tooExpensive *TooExpensiveError
	switch {
	case errors.As(err, &invalid):
		return &Explanation{Refused: invalid.Error(), Statements: []Statement{}}, nil
	case errors.As(err, &tooExpensive):
		return &Explanation{Refused: tooExpensive.Error(), Statements: []Statement{}, Transient: true}, nil
	case err != nil:
		return nil, err
	}
	return e, nil
}

func (s *Search) explain(ctx context.Context) (*Explanation, error) {
	if err := s.findExpansions(ctx); err != nil {
		return nil, err
	}
	blend, redacted := firstBlend, redactedTerms{names: make(map[string]string)}
	query, err := s.explainNode(ctx, s.node, &blend, &redacted)
	if err != nil {
		return nil, err
	}
	executed, shown := slices.Clone(s.sorts), slices.Clone(s.sorts)
	for i, key := range s.sorts {
		if key.Nested == nil {
			continue
		}
		filter, err := s.explainNode(ctx, key.Nested, &blend, &redacted)
		if err != nil {
			return nil, err
		}
		executed[i].Nested, shown[i].Nested = filter.executed, filter.redacted
	}
	query.executed = algebra.ShareStatistics(query.executed)
	query.redacted = algebra.ShareStatistics(query.redacted)
	if s.from.Refreshed, err = s.searcher.hasVersionBumps(ctx, query.executed, executed); err != nil {
		return nil, err
	}
	e := &Explanation{Query: algebra.Describe(query.requested), Statements: []Statement{}}
	// First, since it determines whether text indexes can be read as tables.
	if e.EstimatedRows, err = s.estimateRows(ctx, query.executed, executed); err != nil {
		return nil, err
	}
	for _, p := range s.steps(query.redacted, shown, redacted.redactStats(s.cursor.Stats)) {
		if p.Parameters == nil {
			p.Parameters = map[string]string{}
		}
		e.Statements = append(e.Statements, Statement{Step: p.step, SQL: p.SQL, Parameters: p.Parameters})
	}
	return e, nil
}

// estimateRows returns how many rows the statements of a query read.
func (s *Search) estimateRows(ctx context.Context, n algebra.Node, sorts []planner.Sort) (int64, error) {
	var total int64
	for _, p := range s.steps(n, sorts, s.cursor.Stats) {
		p.SQL = "EXPLAIN ESTIMATE " + p.SQL
		name := "estimate"
		if p.index {
			name = stepTerms
		}
		err := s.searcher.query(ctx, name, p.Statement, func(rows driver.Rows) error {
			var database, table string
			var parts, read, marks uint64
			if err := rows.Scan(&database, &table, &parts, &read, &marks); err != nil {
				return err
			}
			total += int64(read)
			return nil
		})
		var noIndex *noIndexError
		if errors.As(err, &noIndex) {
			s.searcher.disableIndexReads()
			return s.estimateRows(ctx, n, sorts) // Its steps read columns now.
		}
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}

// step is a statement of a search with the name of its step.
type step struct {
	step string
	planner.Statement
	index bool // it reads text indexes as tables
}

// steps returns the statements of a query. stats are those of the cursor.
func (s *Search) steps(n algebra.Node, sorts []planner.Sort, stats *planner.Stats) []step {
	var out []step
	add := func(name string, p planner.Statement) {
		if p.SQL != "" {
			out = append(out, step{step: name, Statement: p})
		}
	}
	scored := planner.ScoresDecide(n) || planner.Scores(n, sorts) && s.request.Size > 0
	filters := planner.SortFilters(sorts)
	if s.first {
		for _, p := range planner.PresenceStatements(n, filters, firstBlend) {
			if s.searcher.usesIndex(p) {
				out = append(out, step{step: stepTerms, Statement: p.Index, index: true})
			} else {
				add(stepTerms, p.Columns)
			}
		}
		none := planner.NewStats()
		unknown := func(string) bool { return false }
		total := !planner.ScoresDecide(n) && !planner.Dear(n, sorts)
		counted := false
		if scored {
			terms, keys := planner.TermStatement(n, filters, total, s.from, none, unknown)
			counted = len(keys) > 0
			add("count", terms)
			for _, c := range planner.FieldStatements(n, filters, none, unknown) {
				add("field_stats", c.Statement)
			}
		}
		stats = planner.UnknownStats(n, filters)
		if s.request.Size == 0 && (!counted || !total) {
			add("count", planner.CountStatement(n, stats, s.from))
		}
	}
	if s.request.Size > 0 {
		rank := planner.Rank{Node: n, Sort: sorts, Stats: stats, Limit: s.request.Size + 1, From: s.from, Total: s.first}
		if !s.first {
			rank.After = &s.cursor.After
			rank.Identified = rank.After.ProfileID != ""
		}
		add("rank", planner.RankStatement(rank))
	}
	return out
}

// explainedNode is a query, or the filter of a sort key, in three forms: as executed, the same with stored terms
// redacted, and as requested.
type explainedNode struct {
	executed, redacted, requested algebra.Node
}

func (s *Search) explainNode(ctx context.Context, n algebra.Node, blend *int,
	redacted *redactedTerms) (explainedNode, error) {
	var e explainedNode
	var rewritten []algebra.Node // in the order in which the nodes are visited, which is always the same
	var err error
	e.executed, err = algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) {
		m, err := s.rewrite(ctx, n, blend)
		if err == nil {
			m, err = s.dropDeadTerms(ctx, m, n)
		}
		rewritten = append(rewritten, m)
		return m, err
	})
	if err != nil {
		return e, err
	}
	replace := func(change func(original, rewritten algebra.Node) algebra.Node) algebra.Node {
		i := -1
		out, _ := algebra.Rewrite(n, func(n algebra.Node) (algebra.Node, error) {
			i++
			if !needsStore(n) {
				return n, nil
			}
			return change(n, rewritten[i]), nil
		})
		return out
	}
	e.redacted = replace(redacted.redact)
	e.requested = replace(func(original, rewritten algebra.Node) algebra.Node {
		if terms, ok := countExpansion(original, rewritten); ok {
			return algebra.Expanded{Node: original, Terms: terms}
		}
		return original
	})
	return e, nil
}

// needsStore reports whether rewriting a node may read from the store.
func needsStore(n algebra.Node) bool {
	switch n.(type) {
	case algebra.Fuzzy, algebra.Pattern, algebra.Phrase:
		return true
	}
	return false
}

// countExpansion returns the number of terms that a node expanded to. ok is false if it was not expanded.
func countExpansion(original, rewritten algebra.Node) (terms int, ok bool) {
	switch p := original.(type) {
	case algebra.Pattern:
		if _, same := rewritten.(algebra.Pattern); same {
			return 0, false
		}
	case algebra.Phrase:
		if !p.PrefixLast {
			return 0, false
		}
	}
	algebra.Walk(rewritten, func(n algebra.Node) {
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

// dropDeadTerms drops from the terms that a node expanded to those without a live document. A search need not, since
// they match nothing; an explanation would reveal that there was a document.
func (s *Search) dropDeadTerms(ctx context.Context, rewritten, original algebra.Node) (algebra.Node, error) {
	set, ok := rewritten.(algebra.Set)
	if _, same := original.(algebra.Set); !ok || same {
		return rewritten, nil
	}
	var live []string
	for some := range slices.Chunk(set.Values, clause.MaxExpansions) {
		terms, err := s.liveTerms(ctx, set.Field, some, len(some))
		if err != nil {
			return nil, err
		}
		live = append(live, terms...)
	}
	set.Values = live
	return setOrNone(set), nil
}

// redactedTerms maps stored terms to placeholders: the caller was not charged for the records that have them.
type redactedTerms struct {
	names map[string]string // by planner's keys
	terms int
}

// placeholder returns the placeholder of a term, the same for each occurrence.
func (p *redactedTerms) placeholder(f algebra.Field, term string) string {
	key := planner.TermKey(f.Name(), term)
	if _, ok := p.names[key]; !ok {
		p.terms++
		p.names[key] = "<term " + strconv.Itoa(p.terms) + ">"
	}
	return p.names[key]
}

func (p *redactedTerms) placeholders(f algebra.Field, terms []string) []string {
	out := make([]string, len(terms))
	for i, t := range terms {
		out[i] = p.placeholder(f, t)
	}
	return out
}

// redact replaces the terms that a node expanded to by placeholders.
func (p *redactedTerms) redact(original, rewritten algebra.Node) algebra.Node {
	_, expanded := countExpansion(original, rewritten)
	out, _ := algebra.Rewrite(rewritten, func(n algebra.Node) (algebra.Node, error) {
		switch n := n.(type) {
		case algebra.Term:
			n.Text = p.placeholder(n.Field, n.Text)
			return n, nil
		case algebra.Set:
			n.Values = p.placeholders(n.Field, n.Values)
			return n, nil
		case algebra.Phrase:
			if last := len(n.Terms) - 1; expanded {
				n.Terms = append(slices.Clone(n.Terms[:last]), p.placeholders(n.Field, n.Terms[last]))
			}
			if n.Found != nil { // It has hashes of people.
				n.Found = &algebra.Frequencies{Keys: []uint64{0}, Values: []float64{1}}
			}
			return n, nil
		}
		return n, nil
	})
	return out
}

// redactStats returns a copy of the statistics in which placeholders have the counts of their terms.
func (p *redactedTerms) redactStats(stats *planner.Stats) *planner.Stats {
	out := &planner.Stats{
		Fields: stats.Fields, Terms: maps.Clone(stats.Terms), Absent: maps.Clone(stats.Absent),
		Bits: maps.Clone(stats.Bits),
	}
	for key, name := range p.names {
		field, _, _ := strings.Cut(key, "\x00")
		redacted := planner.TermKey(field, name)
		if n, ok := stats.Terms[key]; ok {
			out.Terms[redacted] = n
		}
		if stats.Absent[key] {
			out.Absent[redacted] = true
		}
		if n, ok := stats.Bits[key]; ok {
			out.Bits[redacted] = n
		}
	}
	return out
}
