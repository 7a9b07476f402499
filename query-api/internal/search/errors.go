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

// TooExpensiveError is the error of a query that exceeds a limit of time, memory, rows or complexity.
type TooExpensiveError struct{ Reason string }

func (e *TooExpensiveError) Error() string { return e.Reason }

// OverloadedError is the error of a query that missed its deadline for a reason outside the query: other searches ran,
// or data was read for the first time. A retry may succeed.
type OverloadedError struct{ Reason string }

func (e *OverloadedError) Error() string { return e.Reason }

// Unavailable is the error of a table that cannot be searched, whatever the query.
type Unavailable = postings.Unavailable

// pingTimeout is how long a store that missed the deadline of a search may take to answer a ping.
const pingTimeout = 300 * time.Millisecond

// ping distinguishes a query that takes too long from a store that does not respond.
func (s *Searcher) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.deps.Store.Ping(ctx)
}

// timeLimitError returns the error of a query that exceeds Config.Timeout.
func (s *Searcher) timeLimitError() error {
	return &TooExpensiveError{fmt.Sprintf("the query takes longer than the limit of %v: narrow it with more selective "+
		"clauses, or omit leading wildcards, regular expressions and scores of nested elements", s.cfg.Timeout)}
}

func errOverloaded(waited time.Duration) error {
	return &OverloadedError{fmt.Sprintf("other expensive queries took all %v of the waiting time", waited)}
}

// tooExpensive returns the error of a caller whose query exceeds a limit of the index, or another error as it is.
func tooExpensive(err error) error {
	var large *postings.TooLarge
	if errors.As(err, &large) {
		return &TooExpensiveError{large.Reason}
	}
	return err
}

// statementError classifies the error of a statement: a query that exceeds a limit, an unreadable index, a store that
// is unavailable, or another failure. It logs the failures of the store.
func (s *Searcher) statementError(step string, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // The URL contains the parameters and the host name.
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("search %s: %w", step, err)
	}
	if code, ok := clickhouse.CodeOf(err); ok {
		if step == stepDictionary && (unindexed(code) || code == proto.ErrAccessDenied) {
			return &unindexedError{err}
		}
		if (postings.Shared(step) || step == stepDocuments) && code == proto.ErrAccessDenied {
			return fmt.Errorf("search %s: %w", step, err)
		}
		switch code {
		case proto.ErrTimeoutExceeded, proto.ErrQueryWasCancelled:
			return fmt.Errorf("search %s: %w: %w", step, context.DeadlineExceeded, err)
		case proto.ErrMemoryLimitExceeded:
			return &TooExpensiveError{fmt.Sprintf("the query needs more than the limit of %d MiB of memory: narrow it",
				s.cfg.MaxMemory>>20)}
		case proto.ErrTooDeepAst, proto.ErrTooBigAst, proto.ErrTooDeepRecursion, proto.ErrQueryIsTooLarge:
			return &TooExpensiveError{"the query is too complex: use fewer clauses"}
		case proto.ErrCannotCompileRegexp:
			return &TooExpensiveError{"a pattern of the query is too complex: shorten it"}
		}
	}
	s.deps.Logger.Error("search: statement failed", slog.String("step", step), slog.Any("error", err))
	if clickhouse.IsTransient(err) {
		return fmt.Errorf("search %s: %w: %w", step, readstore.ErrUnavailable, err)
	}
	return fmt.Errorf("search %s: %w", step, err)
}
