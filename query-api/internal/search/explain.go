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
// the sample by which those are found is not there.
func (s *Searcher) Explain(ctx context.Context, r Request) (*Explanation, error) {
	prepared, err := s.Prepare(r)
	var refused *clause.Error
	if errors.As(err, &refused) {
		return &Explanation{Refused: refused.Error(), Statements: []Statement{}}, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := prepared.expand(ctx); err != nil {
		if errors.As(err, &refused) {
			return &Explanation{Refused: refused.Error(), Statements: []Statement{}}, nil
		}
		return nil, err
	}
	if prepared.from.Refreshed, err = s.refreshed(ctx, prepared.node, prepared.sorts); err != nil {
		return nil, err
	}
	e := &Explanation{Query: algebra.Describe(prepared.node), Statements: []Statement{}}
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
		return s.query(ctx, "estimate", estimate, func(rows driver.Rows) error {
			var database, table string
			var parts, read, marks uint64
			if err := rows.Scan(&database, &table, &parts, &read, &marks); err != nil {
				return err
			}
			e.EstimatedRows += int64(read)
			return nil
		})
	}
	scored := planner.ScoresDecide(prepared.node) || planner.Scores(prepared.node, prepared.sorts) && r.Size > 0
	filters := planner.SortFilters(prepared.sorts)
	stats := prepared.cursor.Stats
	if prepared.first {
		for _, p := range planner.PresenceStatements(prepared.node, filters, firstBlend) {
			if err := add("presence", p.Statement); err != nil {
				return nil, err
			}
		}
		none := planner.NewStats()
		total := !planner.ScoresDecide(prepared.node) && !planner.Dear(prepared.node, prepared.sorts)
		counted := false
		if scored {
			terms, keys := planner.TermStatement(prepared.node, filters, total, prepared.from, none, func(string) bool { return false })
			counted = len(keys) > 0
			if err := add("count", terms); err != nil {
				return nil, err
			}
			for _, c := range planner.FieldStatements(prepared.node, filters, none, func(string) bool { return false }) {
				if err := add("fields", c.Statement); err != nil {
					return nil, err
				}
			}
		}
		if r.Size == 0 && (!counted || !total) {
			if err := add("count", planner.CountStatement(prepared.node, planner.UnknownStats(prepared.node, filters), prepared.from)); err != nil {
				return nil, err
			}
		}
		stats = planner.UnknownStats(prepared.node, filters)
	}
	if r.Size > 0 {
		rank := planner.Rank{Node: prepared.node, Sort: prepared.sorts, Stats: stats, Limit: r.Size + 1, From: prepared.from, Total: prepared.first}
		if !prepared.first {
			rank.After = &prepared.cursor.After
			rank.Identified = rank.After.ProfileID != ""
		}
		if err := add("rank", planner.RankStatement(rank)); err != nil {
			return nil, err
		}
	}
	return e, nil
}
