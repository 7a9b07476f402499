package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// ErrLogWriteFailed means that a write to the log failed and the broker has stopped. It sends no more responses; what
// it has acknowledged is in its files.
var ErrLogWriteFailed = errors.New("the embedded Kafka broker has stopped, a write to its log failed; " +
	"acknowledged data is intact: free disk space and restart")

// failure is a latch for the error that stopped the broker.
type failure struct {
	once     sync.Once
	happened chan struct{}
	err      error
}

func newFailure() *failure { return &failure{happened: make(chan struct{})} }

func (f *failure) set(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.happened)
	})
}

func (f *failure) get() error {
	select {
	case <-f.happened:
		return f.err
	default:
		return nil
	}
}

// Failed returns a channel that is closed when the broker has failed. Its owner must then call Close; Err returns the
// cause.
func (b *Broker) Failed() <-chan struct{} { return b.failure.happened }

// Err returns the error that stopped the broker, an ErrLogWriteFailed, or nil.
func (b *Broker) Err() error { return b.failure.get() }

// WithFailure returns a context that is canceled with ctx, or with cause Err when the broker fails.
func (b *Broker) WithFailure(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-b.Failed():
			cancel(b.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// logAdapter forwards warnings and errors of kfake to slog. A failed write is visible only there: kfake logs it and
// answers with success.
type logAdapter struct {
	logger  *slog.Logger
	failure *failure
}

// Logf blocks forever after a failed write. It is called by the goroutine that handles all requests, so nothing is
// acknowledged that depends on the write. The next start finds the files as after a kill.
func (l *logAdapter) Logf(level kfake.LogLevel, msg string, args ...any) {
	if level != kfake.LogLevelError && level != kfake.LogLevelWarn {
		return
	}
	text := fmt.Sprintf(msg, args...)
	if failedWrite(text) {
		l.logger.Error("kafka broker: " + text)
		l.failure.set(fmt.Errorf("%w: %s", ErrLogWriteFailed, text))
		select {}
	}
	if level == kfake.LogLevelError {
		l.logger.Error("kafka broker: " + text)
		return
	}
	l.logger.Warn("kafka broker: " + text)
}

// failedWrite reports whether kfake logged a failed file change. Failed rewrites of groups.log and pids.log do not
// count: they leave the file as it was.
func failedWrite(text string) bool {
	// Batches, group and producer entries, topics. At Close everything except sessions, whose members rejoin.
	return strings.HasPrefix(text, "persist ") ||
		// Compaction.
		strings.HasPrefix(text, "rebuildSegments ") ||
		// A start would append after what should have been truncated.
		strings.Contains(text, ": open for truncate: ") || strings.Contains(text, ": truncate: ") ||
		// A new topic of the same name would append to the remaining files.
		strings.HasPrefix(text, "delete topic ")
}
