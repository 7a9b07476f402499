package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"

	"muster/query-api/internal/segmentfile"
	"muster/schemas/event"
)

// Event is a final usage event and its JSON.
type Event struct {
	event.Usage
	JSON []byte
}

// Step is one of the steps that events go through. It is called at least once for each event.
type Step func(ctx context.Context, events []Event) error

// Run publishes events until ctx ends: publish writes them durably to the ledger, and settle makes the published ones
// final elsewhere. Publishing does not wait until earlier events are settled, so that the ledger is complete even while
// the balances are unavailable. After ctx, Run continues with what is queued for at most grace; what is left stays in
// the segments. It closes the outbox.
func (o *Outbox) Run(ctx context.Context, grace time.Duration, publish, settle Step) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { o.syncUntil(work) })
	others.Go(func() { o.settleUntil(work, settle) })
	for o.awaitBatch(ctx) {
		o.drain(ctx, publish)
	}
	ending, stop := context.WithTimeoutCause(work, grace, errors.New("service is stopping"))
	defer stop()
	o.drain(ending, publish)
	o.awaitSettled(ending)
	cancel()
	others.Wait()
	return o.Close()
}

// awaitBatch waits until there are events to publish that have lingered. It returns false if ctx has ended.
func (o *Outbox) awaitBatch(ctx context.Context) bool {
	select {
	case <-o.ready:
	case <-ctx.Done():
		return false
	}
	if o.cfg.Linger < 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(o.cfg.Linger)
	defer timer.Stop()
	for !o.isUrgent() {
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-o.hurry:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// isUrgent reports whether the queue must not linger: a caller waits for it, or a batch is full.
func (o *Outbox) isUrgent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent < o.due || len(o.unpublished()) >= batchEvents
}

// retries returns the pauses between the attempts of a step.
func retries() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 5*time.Second
	return pause
}

// drain publishes the events queued at its start, and retries until ctx ends. Later events wait for the next batch.
func (o *Outbox) drain(ctx context.Context, publish Step) {
	pause := retries()
	for left := o.Pending(); left > 0 && ctx.Err() == nil; {
		refs := o.toPublish(left)
		err := o.do(ctx, publish, refs)
		if err == nil {
			o.advance(refs)
			left -= len(refs)
			pause.Reset()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		o.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "outbox: publishing failed, will retry",
			slog.Int("waiting", o.Pending()), slog.Any("error", err))
		wait(ctx, pause.NextBackOff())
	}
}

// settleUntil settles published events until ctx ends.
func (o *Outbox) settleUntil(ctx context.Context, settle Step) {
	pause := retries()
	for {
		refs, progress := o.toSettle()
		if len(refs) == 0 {
			select {
			case <-progress:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := o.do(ctx, settle, refs)
		if err == nil {
			o.settled(refs)
			pause.Reset()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		o.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "outbox: settling failed, will retry", slog.Any("error", err))
		wait(ctx, pause.NextBackOff())
	}
}

// do passes events to a step.
func (o *Outbox) do(ctx context.Context, step Step, refs []ref) error {
	events := o.load(ctx, refs)
	if len(events) == 0 {
		return nil
	}
	return step(ctx, events)
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// awaitSettled waits until all published events are settled or ctx ends.
func (o *Outbox) awaitSettled(ctx context.Context) {
	for {
		refs, progress := o.toSettle()
		if len(refs) == 0 {
			return
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return
		}
	}
}

func (o *Outbox) toPublish(most int) []ref {
	o.mu.Lock()
	defer o.mu.Unlock()
	return batch(o.unpublished(), most)
}

// toSettle returns published events that are not settled, and a channel that is closed with the next progress.
func (o *Outbox) toSettle() (refs []ref, progress <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return batch(o.queue, o.published), o.progress
}

func batch(refs []ref, most int) []ref {
	n := min(len(refs), most, batchEvents)
	return refs[:n:n]
}

// advance marks the next events as published.
func (o *Outbox) advance(refs []ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.published += len(refs)
	o.sent += uint64(len(refs))
	o.wake()
}

// settled removes settled events.
func (o *Outbox) settled(refs []ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, r := range refs {
		r.segment.pending--
		o.cached -= int64(len(r.payload))
		refs[i] = ref{}
	}
	o.published -= len(refs)
	o.queue = o.queue[len(refs):]
	if len(o.queue) == 0 {
		o.queue = nil
	}
	o.prune()
	o.wake()
}

// wake wakes the goroutines that wait for published or settled events. o.mu must be held.
func (o *Outbox) wake() {
	close(o.progress)
	o.progress = make(chan struct{})
}

// load decodes events. An unreadable event is logged and dropped, so that it does not block others.
func (o *Outbox) load(ctx context.Context, refs []ref) []Event {
	events := make([]Event, 0, len(refs))
	for _, r := range refs {
		e, err := r.event()
		if err != nil {
			o.cfg.Logger.LogAttrs(ctx, slog.LevelError, "outbox: usage event lost",
				slog.String("segment", r.segment.file.Name()), slog.Int64("offset", r.offset), slog.Any("error", err))
			continue
		}
		events = append(events, e)
	}
	return events
}

// event returns the event to publish, from memory or else from its segment.
func (r ref) event() (e Event, err error) {
	if r.usage != nil {
		e = Event{*r.usage, r.payload}
	} else {
		if _, _, e.JSON, _, err = segmentfile.ReadFrame(r.segment.file, r.offset); err != nil {
			return e, fmt.Errorf("read frame: %w", err)
		}
		if err := json.Unmarshal(e.JSON, &e.Usage); err != nil {
			return e, fmt.Errorf("decode: %w", err)
		}
	}
	if r.void {
		e.Void()
		if e.JSON, err = e.AppendJSON(nil); err != nil {
			return e, fmt.Errorf("encode: %w", err)
		}
	}
	return e, nil
}

// syncUntil syncs the outbox periodically until ctx ends.
func (o *Outbox) syncUntil(ctx context.Context) {
	if o.cfg.SyncEvery < 0 {
		return
	}
	ticker := time.NewTicker(o.cfg.SyncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := o.sync(); err != nil {
				o.cfg.Logger.LogAttrs(ctx, slog.LevelError, "outbox: fsync failed", slog.Any("error", err))
			}
		case <-ctx.Done():
			return
		}
	}
}

// sync syncs the current segment without blocking writers.
func (o *Outbox) sync() error {
	o.mu.Lock()
	s := o.segments[len(o.segments)-1]
	dirty := s.dirty && !o.closed && s.pending > 0
	if dirty {
		s.dirty = false
	}
	o.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := s.file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // published and removed meanwhile
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Close closes the outbox and unlocks its directory. Run calls it at its end. It is idempotent.
func (o *Outbox) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	last := o.segments[len(o.segments)-1]
	last.sealed = true
	var err error
	if last.dirty && last.pending > 0 {
		err = last.file.Sync()
	}
	if last.pending == 0 && len(o.segments) == 1 {
		o.segments = nil
		err = errors.Join(err, last.remove())
	}
	if err = errors.Join(err, o.closeFiles()); err != nil {
		return fmt.Errorf("close outbox: %w", err)
	}
	return nil
}

func (o *Outbox) closeFiles() error {
	var errs []error
	for _, s := range o.segments {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(append(errs, o.lock.Close())...)
}
