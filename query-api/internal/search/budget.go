package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"muster/platform/clickhouse"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/postings"
)

// Budget is the error of a query that takes more than a query may.
type Budget struct{ Reason string }

func (e *Budget) Error() string { return e.Reason }

// Busy is the error of a query that got no answer before its deadline for reasons that do not lie in the query: others
// ran, or what it needs was read for the first time. The same query may be answered when it is sent again.
type Busy struct{ Reason string }

func (e *Busy) Error() string { return e.Reason }

// Unavailable is the error of a table that cannot be searched, whatever the query.
type Unavailable = postings.Unavailable

// patience is how long a store that has not answered a search in time has to show that it is there.
const patience = 300 * time.Millisecond

// reachable tells a query that takes too long from a store that answers nothing.
func (s *Searcher) reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.deps.Store.Ping(ctx)
}

// overTime is the error of a query whose own work takes too long.
func (s *Searcher) overTime() error {
	return &Budget{fmt.Sprintf("the query takes longer than %v, which is what a query may: narrow it with more selective "+
		"clauses, or leave out leading wildcards, regular expressions and scores of nested elements", s.cfg.Timeout)}
}

// failed tells a query that is too much from a store that is away.
func (s *Searcher) failed(step string, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // the URL holds the parameters and the host's name
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("search %s: %w", step, err)
	}
	if code, ok := clickhouse.CodeOf(err); ok {
		if step == stepDictionary && (unindexed(code) || code == proto.ErrAccessDenied) {
			return &unindexedError{err}
		}
		if postings.Shared(step) && code == proto.ErrAccessDenied {
			return fmt.Errorf("search %s: %w", step, err)
		}
		switch code {
		case proto.ErrTimeoutExceeded, proto.ErrQueryWasCancelled:
			return fmt.Errorf("search %s: %w: %w", step, context.DeadlineExceeded, err)
		case proto.ErrMemoryLimitExceeded:
			return &Budget{fmt.Sprintf("the query takes more than %d MiB of memory, which is what a query may: narrow it", s.cfg.MaxMemory>>20)}
		case proto.ErrTooDeepAst, proto.ErrTooBigAst, proto.ErrTooDeepRecursion, proto.ErrQueryIsTooLarge:
			return &Budget{"the query is too complex: use fewer clauses"}
		case proto.ErrCannotCompileRegexp:
			return &Budget{"a pattern of the query is too complex: shorten it"}
		}
	}
	s.deps.Logger.Error("search statement failed", slog.String("step", step), slog.Any("error", err))
	if clickhouse.IsTransient(err) {
		return fmt.Errorf("search %s: %w: %w", step, readstore.ErrUnavailable, err)
	}
	return fmt.Errorf("search %s: %w", step, err)
}
