package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/clickhouse"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/postings"
)

// query runs a statement within the limits of a search.
func (s *Searcher) query(ctx context.Context, step string, statement planner.Statement, scan func(driver.Rows) error) (err error) {
	ctx, span := s.deps.Tracer.Start(ctx, "search "+step, trace.WithSpanKind(trace.SpanKindClient))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "query failed")
		}
		span.End()
	}()
	settings := ch.Settings{"priority": turnOf(ctx).priority, "max_query_size": 16 << 20, "max_ast_elements": 1_000_000, "max_expanded_ast_elements": 2_000_000, "max_ast_depth": 10_000,
		"optimize_min_equality_disjunction_chain_length": planner.MaxAlternatives + 1,
		// Compiling a case-insensitive pattern of 220 characters took 0.9 s, matching it without 8 ms.
		"compile_regular_expressions": 0}
	if statement.TokensRead {
		settings["query_plan_direct_read_from_text_index"] = 0
	}
	if statement.SkipUnavailable {
		settings["skip_unavailable_shards"] = 1
	}
	threads := 1
	if turnOf(ctx).alone() && !statement.OneThread {
		threads = s.cfg.Threads
	}
	longest := s.cfg.Deadline
	if postings.Shared(step) || postings.Behind(ctx) {
		longest = max(longest, postings.SharedTimeout)
	}
	if end, ok := ctx.Deadline(); ok { // a backstop: the end of ctx cancels the statement
		longest = min(longest, max(0, time.Until(end))+cancelTime)
	}
	ctx = clickhouse.QueryContext(ctx, clickhouse.Limits{
		MaxExecutionTime: longest, MaxMemoryBytes: s.cfg.MaxMemory, MaxThreads: threads,
	}, settings)
	options := []ch.QueryOption{ch.WithParameters(ch.Parameters(statement.Parameters))}
	size := 0
	for _, v := range statement.Parameters {
		size += len(url.QueryEscape(v))
	}
	switch {
	case size > maxParameters:
		return &Budget{"the texts of the query are too long together: shorten them"}
	case len(statement.SQL) > maxStatement:
		return &Budget{"the query is too complex: use fewer clauses"}
	case len(statement.Tables) > 0 && len(statement.SQL) > maxBeside:
		return &Budget{"the query is too complex beside its long lists: use fewer clauses or shorter lists"}
	}
	for name, values := range statement.Tables {
		table, err := ext.NewTable(name, ext.Column("v", "String"))
		if err != nil {
			return fmt.Errorf("search %s: list: %w", step, err)
		}
		for _, v := range values {
			if err := table.Append(v); err != nil {
				return fmt.Errorf("search %s: list: %w", step, err)
			}
		}
		options = append(options, ch.WithExternalTable(table))
	}
	ctx = ch.Context(ctx, options...)
	rows, err := s.deps.Conn.Query(ctx, statement.SQL)
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrNotFoundColumnInBlock && !statement.TokensRead {
		// The server lost a column of its own making: ask in the way in which it makes none.
		s.deps.Logger.Warn("search statement is asked again without answers of the index", slog.String("step", step))
		statement.TokensRead = true
		return s.query(ctx, step, statement, scan)
	}
	if err != nil {
		return s.failed(step, err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(fmt.Errorf("search %s: scan: %w", step, err), rows.Close())
		}
	}
	if err := rows.Err(); err != nil {
		return errors.Join(s.failed(step, err), rows.Close())
	}
	if err := rows.Close(); err != nil {
		return s.failed(step, err)
	}
	return nil
}

// cancelTime is how long a server may take to stop a statement whose context has ended.
const cancelTime = 250 * time.Millisecond

const (
	maxParameters = 700 << 10 // of what travels in the address of a statement, which servers limit to 1 MiB
	maxStatement  = 1 << 20   // of any: a server cannot be stopped while it analyses one, and 1,024 clauses take half of it
	maxBeside     = 120 << 10 // of a statement with tables beside it, which is a field of a form: servers limit those to 128 KiB
)
