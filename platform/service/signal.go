package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"
)

// SignalError is the cause of a context that was ended by a signal.
type SignalError struct{ Signal os.Signal }

// Error names the signal.
func (e *SignalError) Error() string { return fmt.Sprintf("signal: %v", e.Signal) }

// IgnoreInterrupt returns nil if err only says that ctx has ended, as of a start that a signal interrupted. Otherwise it
// returns err: also if one of several joined errors says something else, such as what was lost by the stop.
func IgnoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() != nil && isInterrupt(ctx, err) {
		return nil
	}
	return err
}

// isInterrupt requires it of each error of errors.Join. An error of fmt.Errorf with several is one error: the interrupt
// and what was tried before it.
func isInterrupt(ctx context.Context, err error) bool {
	for next := err; next != nil; next = errors.Unwrap(next) {
		joined, ok := next.(interface{ Unwrap() []error })
		if ok && reflect.TypeOf(next) == reflect.TypeOf(errors.Join(err)) {
			return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isInterrupt(ctx, err) })
		}
	}
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}

// WithSignals returns a context that ends on SIGINT or SIGTERM, with a [SignalError] as its cause. A second signal
// calls exit(130) immediately, in case the stop hangs; programs pass os.Exit. The caller must call release, which stops
// the signal handling and restores the default behavior.
func WithSignals(
	parent context.Context,
	logger *slog.Logger,
	exit func(code int),
) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	released, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			logger.Info("stopping; a second signal exits immediately", "signal", s.String())
			cancel(&SignalError{Signal: s})
		case <-released:
			return
		}
		select {
		case <-signals:
			exit(130)
		case <-released:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(released)
		<-done
		cancel(context.Canceled)
	}
}
