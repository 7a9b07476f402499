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

// query runs a statement within the limits of a search and calls scan for each row.
func (s *Searcher) query(ctx context.Context, step string, statement planner.Statement,
	scan func(driver.Rows) error) (err error) {
	ctx, span := s.deps.Tracer.Start(ctx, "search "+step, trace.WithSpanKind(trace.SpanKindClient))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "query failed")
		}
		span.End()
	}()
	statement = statement.Of(s.collection)
	slot := slotFrom(ctx)
	if slot.pause() {
		defer slot.compute(ctx)
	}
	settings := ch.Settings{
		"priority": slot.priority, "max_query_size": 16 << 20, "max_ast_elements": 1_000_000,
		"max_expanded_ast_elements": 2_000_000, "max_ast_depth": 10_000,
		"optimize_min_equality_disjunction_chain_length": planner.MaxAlternatives + 1,
		// Compiling a case-insensitive pattern of 220 characters took 0.9 s, matching it without 8 ms.
		"compile_regular_expressions": 0,
	}
	if statement.TokensRead {
		settings["query_plan_direct_read_from_text_index"] = 0
	}
	if statement.SkipUnavailable {
		settings["skip_unavailable_shards"] = 1
	}
	if statement.OneReplica {
		settings["optimize_skip_unused_shards"], settings["force_optimize_skip_unused_shards"] = 1, 1
		// it has all rows: it executes the whole statement
		settings["distributed_group_by_no_merge"] = 1
	}
	threads := 1
	if slot.mayUseAllThreads() && !statement.OneThread {
		threads = s.cfg.Threads
	}
	longest := s.cfg.Deadline
	if postings.Shared(step) || postings.IsBackground(ctx) {
		longest = max(longest, postings.SharedTimeout)
	}
	if end, ok := ctx.Deadline(); ok { // A backstop: the end of ctx cancels the statement.
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
		return &TooExpensiveError{"the texts of the query are too long in total: shorten them"}
	case len(statement.SQL) > maxStatement:
		return &TooExpensiveError{"the query is too complex: use fewer clauses"}
	case len(statement.Tables) > 0 && len(statement.SQL) > maxFormStatement:
		return &TooExpensiveError{"the query is too complex for its long lists: use fewer clauses or shorter lists"}
	}
	for name, values := range statement.Tables {
		table, err := ext.NewTable(name, ext.Column("v", "String"))
		if err != nil {
			return fmt.Errorf("search %s: external table: %w", step, err)
		}
		for _, v := range values {
			if err := table.Append(v); err != nil {
				return fmt.Errorf("search %s: external table: %w", step, err)
			}
		}
		options = append(options, ch.WithExternalTable(table))
	}
	ctx = ch.Context(ctx, options...)
	rows, err := s.deps.Conn.Query(ctx, statement.SQL)
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrNotFoundColumnInBlock && !statement.TokensRead {
		// The server lost a virtual column of its text index, which it does not create without direct reads.
		s.deps.Logger.Warn(
			"search: retrying statement without direct reads of the text index", slog.String("step", step),
		)
		statement.TokensRead = true
		return s.query(ctx, step, statement, scan)
	}
	if err != nil {
		return s.statementError(step, err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(fmt.Errorf("search %s: scan: %w", step, err), rows.Close())
		}
	}
	if err := rows.Err(); err != nil {
		return errors.Join(s.statementError(step, err), rows.Close())
	}
	if err := rows.Close(); err != nil {
		return s.statementError(step, err)
	}
	return nil
}

// cancelTime is how long a server may take to stop a statement whose context has ended.
const cancelTime = 250 * time.Millisecond

const (
	// maxParameters is the maximum size of escaped parameters: they are part of the URL, which servers limit to 1 MiB.
	maxParameters = 700 << 10
	// maxStatement is the maximum size of a statement: a server cannot be stopped while it analyzes one. 1,024 clauses
	// take half of it.
	maxStatement = 1 << 20
	// maxFormStatement is the maximum size of a statement with external tables: it is a form field, which servers limit
	// to 128 KiB.
	maxFormStatement = 120 << 10
)
