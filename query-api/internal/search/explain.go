package search

import (
	"context"
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/planner"
)

// Explanation is what a search would do.
type Explanation struct {
	Refused       string      `json:"refused,omitempty"`
	Query         any         `json:"query,omitzero"`
	Statements    []Statement `json:"statements"`
	EstimatedRows int64       `json:"estimated_rows"`
	MaxCredits    int64       `json:"max_credits"`
	// Passing says that the same query may be explained otherwise a moment later.
	Passing bool `json:"-"`
}

// Statement is one step of a search.
type Statement struct {
	Step       string            `json:"step"`
	SQL        string            `json:"sql"`
	Parameters map[string]string `json:"parameters"`
}

// Explain says what a search would do. What is refused is an answer, not an
// error; a wrong cursor is an error. The weights of terms stand for one match
// of each, since nothing is counted; nor are those left out that nobody has, or fields that cannot matter for the page, and
// the sample by which those are found is not there. It waits its turn as a search does.
func (s *Searcher) Explain(ctx context.Context, r Request) (e *Explanation, err error) {
	prepared, err := s.Prepare(r)
	if err == nil {
		err = prepared.inTurn(ctx, func(ctx context.Context) (err error) {
			e, err = prepared.explain(ctx)
			return err
		})
	}
	var refused *clause.Error
	var budget *Budget
	switch {
	case errors.As(err, &refused):
		return &Explanation{Refused: refused.Error(), Statements: []Statement{}}, nil
	case errors.As(err, &budget):
		return &Explanation{Refused: budget.Error(), Statements: []Statement{}, Passing: true}, nil
	case err != nil:
		return nil, err
	}
	return e, nil
}

func (s *Search) explain(ctx context.Context) (*Explanation, error) {
	if err := s.expand(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.from.Refreshed, err = s.searcher.refreshed(ctx, s.node, s.sorts); err != nil {
		return nil, err
	}
	e := &Explanation{Query: algebra.Describe(s.node), Statements: []Statement{}}
	add := func(step string, p planner.Statement) error {
		if p.SQL == "" {
			return nil
		}
		if p.Parameters == nil {
			p.Parameters = map[string]string{}
		}
		e.Statements = append(e.Statements, Statement{Step: step, SQL: p.SQL, Parameters: p.Parameters})
		estimate := p
		estimate.SQL = "EXPLAIN ESTIMATE " + p.SQL
		return s.searcher.query(ctx, "estimate", estimate, func(rows driver.Rows) error {
			var database, table string
			var parts, read, marks uint64
			if err := rows.Scan(&database, &table, &parts, &read, &marks); err != nil {
				return err
			}
			e.EstimatedRows += int64(read)
			return nil
		})
	}
	scored := planner.ScoresDecide(s.node) || planner.Scores(s.node, s.sorts) && s.request.Size > 0
	filters := planner.SortFilters(s.sorts)
	stats := s.cursor.Stats
	if s.first {
		for _, p := range planner.PresenceStatements(s.node, filters, firstBlend) {
			if err := add("presence", p.Statement); err != nil {
				return nil, err
			}
		}
		none := planner.NewStats()
		total := !planner.ScoresDecide(s.node) && !planner.Dear(s.node, s.sorts)
		counted := false
		if scored {
			terms, keys := planner.TermStatement(s.node, filters, total, s.from, none, func(string) bool { return false })
			counted = len(keys) > 0
			if err := add("count", terms); err != nil {
				return nil, err
			}
			for _, c := range planner.FieldStatements(s.node, filters, none, func(string) bool { return false }) {
				if err := add("fields", c.Statement); err != nil {
					return nil, err
				}
			}
		}
		if s.request.Size == 0 && (!counted || !total) {
			if err := add("count", planner.CountStatement(s.node, planner.UnknownStats(s.node, filters), s.from)); err != nil {
				return nil, err
			}
		}
		stats = planner.UnknownStats(s.node, filters)
	}
	if s.request.Size > 0 {
		rank := planner.Rank{Node: s.node, Sort: s.sorts, Stats: stats, Limit: s.request.Size + 1, From: s.from, Total: s.first}
		if !s.first {
			rank.After = &s.cursor.After
			rank.Identified = rank.After.ProfileID != ""
		}
		if err := add("rank", planner.RankStatement(rank)); err != nil {
			return nil, err
		}
	}
	return e, nil
}
