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

// ErrUnwritable says that the broker could not write something down, and stopped
// there: it answers nothing any more. What it has acknowledged is in its files.
var ErrUnwritable = errors.New("the embedded Kafka broker cannot write its log and has stopped; what was acknowledged is kept: make room on its disk and start again")

// failure is why a broker has failed, once it has.
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

// Failed is closed when the broker has failed for good: its owner is to Close it
// and end. Err then says why.
func (b *Broker) Failed() <-chan struct{} { return b.failure.happened }

// Err is nil, or why the broker has failed: ErrUnwritable.
func (b *Broker) Err() error { return b.failure.get() }

// While returns a context that ends with ctx, or with Err as its cause when the
// broker fails.
func (b *Broker) While(ctx context.Context) (context.Context, context.CancelFunc) {
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

// logAdapter carries kfake's warnings and errors to slog. They are also all that
// kfake gives when a write fails: it then goes on, and answers with success.
type logAdapter struct {
	logger  *slog.Logger
	failure *failure
}

// Logf does not return when a write has failed. The goroutine that logs is the
// one that handles all requests: what it would do and answer next rests on the
// write. The next start finds what a kill at this moment would have left.
func (l *logAdapter) Logf(level kfake.LogLevel, msg string, args ...any) {
	if level != kfake.LogLevelError && level != kfake.LogLevelWarn {
		return
	}
	text := fmt.Sprintf(msg, args...)
	if failedWrite(text) {
		l.logger.Error("kafka broker: " + text)
		l.failure.set(fmt.Errorf("%w: %s", ErrUnwritable, text))
		select {}
	}
	if level == kfake.LogLevelError {
		l.logger.Error("kafka broker: " + text)
		return
	}
	l.logger.Warn("kafka broker: " + text)
}

// failedWrite knows kfake's complaints about changes of files, but those after which a file
// is as it was: rewriting groups.log and pids.log.
func failedWrite(text string) bool {
	return strings.HasPrefix(text, "persist ") || // batches, group and producer entries, topics; at Close all but sessions, without which members join anew
		strings.HasPrefix(text, "rebuildSegments ") || // compaction
		strings.Contains(text, ": open for truncate: ") || strings.Contains(text, ": truncate: ") || // a start would write behind what is to go
		strings.HasPrefix(text, "delete topic ") // a topic of that name would write behind what is left
}
