package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

const (
	// memoryWait is how long tasks wait for free memory before the deliveries of slow endpoints are
	// spilled.
	memoryWait = 20 * time.Millisecond
	// maxPendingWrites is the number of unwritten messages above which no call starts.
	maxPendingWrites = 12_288
	// While calls run, their results are batched for up to batchWait or maxBatchMessages messages:
	// one large write is much cheaper. A process that is killed before the write repeats these
	// deliveries.
	batchWait        = 20 * time.Millisecond
	maxBatchMessages = 384
	// maxPerTurn limits the messages and results handled before the next dispatch.
	maxPerTurn = 256
	// maxClockSkew is how far producers' clocks may be ahead. Tasks dated later do not advance the
	// watermark.
	maxClockSkew = time.Minute
	// flushReserve is the part of the drain timeout that is reserved for writing the last results.
	flushReserve = time.Second
)

// partitionWorker delivers the tasks of one partition.
type partitionWorker struct {
	service   *Service
	partition *bus.Partition
	scheduler *delivery.Scheduler

	incoming       chan kafka.Message
	sends          chan delivery.Send
	workers        int // goroutines that make calls
	results        chan result
	changes        chan delivery.StateChange
	written        chan error
	writing        bool         // a state change is being written
	unwrittenSince time.Time    // lower bound of the age of unwritten changes
	waitingTask    *decodedTask // waits for free memory

	watermark   event.WebhookLowWatermark // as written, or being written, to the state topic
	newestTime  time.Time                 // newest timestamp of the received messages
	lastSkipped int64                     // offset of the last skipped message, -1 if none

	reportedPending, reportedRunning float64 // this worker's share of the gauges

	bodies struct {
		sync.Mutex
		messages map[int64]kafka.Message
	}
}

type result struct {
	send    delivery.Send
	outcome delivery.Outcome
}

// decodedTask is a decoded task with its message.
type decodedTask struct {
	task        *event.WebhookTask
	id, address string // of the endpoint
	message     *kafka.Message
}

// runPartition delivers the tasks of a partition until ctx ends.
func (s *Service) runPartition(ctx context.Context, p *bus.Partition) error {
	scheduler := s.newScheduler(p.Number)
	w := &partitionWorker{
		service: s, partition: p, scheduler: scheduler,
		// Sends and results have room for all running calls.
		incoming: make(chan kafka.Message, maxPerTurn), sends: make(chan delivery.Send, scheduler.MaxRunning()),
		results: make(chan result, scheduler.MaxRunning()), changes: make(chan delivery.StateChange),
		written: make(chan error, 1), lastSkipped: -1,
	}
	begin := s.now()
	states := 0
	err := p.Replay(ctx, event.TopicWebhookState, func(m kafka.Message) error {
		states++
		if err := w.restore(&m); err != nil {
			s.logger.LogAttrs(ctx, slog.LevelError, "webhook: unreadable state skipped",
				slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Any("error", err))
		}
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("restore deliveries: %w", err)
	}
	s.logger.LogAttrs(ctx, slog.LevelDebug, "webhook: deliveries restored", slog.Int("partition", p.Number),
		slog.Int("states", states),
		slog.Int("waiting", w.scheduler.Pending()), slog.Int64("duration_ms", s.now().Sub(begin).Milliseconds()))
	defer w.updateGauges(true)
	return w.run(ctx)
}

// run starts the receiver and writer goroutines, runs the loop and drains. Only this goroutine uses
// the scheduler.
func (w *partitionWorker) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Calls and writes outlive ctx, so that they can finish during the drain.
	detached := context.WithoutCancel(ctx)
	callCtx, endCalls := context.WithCancel(detached)
	defer endCalls()
	writeCtx, endWrites := context.WithCancel(detached)
	defer endWrites()

	var helpers, calls sync.WaitGroup
	helpers.Go(func() {
		w.partition.Receive(ctx, func(m kafka.Message) bool {
			select {
			case w.incoming <- m:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	helpers.Go(func() {
		for e := range w.changes {
			w.written <- w.write(writeCtx, &e)
		}
	})
	defer func() {
		stop()
		close(w.changes)
		helpers.Wait()
	}()

	err := w.loop(ctx, callCtx, &calls)
	return errors.Join(err, w.drain(ctx, &calls, endCalls, endWrites))
}

// loop handles tasks and results and dispatches calls until ctx ends or a write fails.
func (w *partitionWorker) loop(ctx, callCtx context.Context, calls *sync.WaitGroup) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	spillTimer := time.NewTimer(time.Hour)
	spillTimer.Stop()
	defer spillTimer.Stop()
	for {
		now := w.service.now()
		backlogged := w.scheduler.PendingWrites() > maxPendingWrites
		if !backlogged {
			w.dispatch(callCtx, calls, w.scheduler.NextSends(now))
		}
		wait := time.Hour
		if at, ok := w.scheduler.NextWake(); ok && !backlogged {
			wait = max(at.Sub(now), 0)
		}
		if write, later := w.shouldWrite(); write {
			w.changes <- w.nextChange()
			w.writing, w.unwrittenSince = true, time.Time{}
		} else if later > 0 {
			wait = min(wait, later)
		}
		w.updateGauges(false)
		timer.Reset(wait)
		incoming := w.incoming
		if w.waitingTask != nil || backlogged {
			incoming = nil
		}
		select {
		case m := <-incoming:
			w.handleMessage(m, now, spillTimer)
		case r := <-w.results:
			w.handleResult(r)
		case err := <-w.written:
			w.writing = false
			if err != nil {
				return err
			}
		case <-timer.C:
		case <-spillTimer.C:
			w.scheduler.SpillWaiting(w.service.now())
		case <-ctx.Done():
			return nil
		}
		w.handleAvailable(spillTimer)
	}
}

// dispatch hands sends to worker goroutines. Workers are reused, because their stacks have already
// grown; there are as many as calls ever ran concurrently.
func (w *partitionWorker) dispatch(ctx context.Context, calls *sync.WaitGroup, sends []delivery.Send) {
	for ; w.workers < w.scheduler.Running(); w.workers++ {
		calls.Go(func() {
			for send := range w.sends {
				w.results <- result{send, w.call(ctx, send)}
			}
		})
	}
	for _, send := range sends {
		w.sends <- send
	}
}

// shouldWrite reports whether pending changes should be written now. If not, wait is the time
// until then, or 0 if another event decides.
func (w *partitionWorker) shouldWrite() (write bool, wait time.Duration) {
	n := w.scheduler.PendingWrites()
	switch {
	case w.writing:
		return false, 0
	case n == 0:
		_, moved := w.watermarkChange()
		return moved && w.scheduler.Running() == 0, 0
	case n >= maxBatchMessages || w.scheduler.Running() == 0:
		return true, 0
	case w.unwrittenSince.IsZero():
		// The schedule's clock may be a test's.
		w.unwrittenSince = time.Now()
		return false, batchWait
	}
	wait = batchWait - time.Since(w.unwrittenSince)
	return wait <= 0, wait
}

// handleAvailable handles further messages and results without waiting.
func (w *partitionWorker) handleAvailable(spillTimer *time.Timer) {
	now := w.service.now()
	for range maxPerTurn {
		if w.waitingTask != nil && !w.scheduler.OverMemoryLimit(w.waitingTask.id) {
			w.scheduler.Enqueue(w.waitingTask.task, w.waitingTask.id, w.waitingTask.address, w.waitingTask.message, now)
			w.waitingTask = nil
			spillTimer.Stop()
		}
		incoming := w.incoming
		if w.waitingTask != nil {
			incoming = nil
		}
		select {
		case m := <-incoming:
			w.handleMessage(m, now, spillTimer)
		case r := <-w.results:
			w.handleResult(r)
		default:
			return
		}
	}
}

// drain waits for running calls, cancels them when the drain time is over, and writes their
// results.
func (w *partitionWorker) drain(ctx context.Context, calls *sync.WaitGroup,
	endCalls, endWrites context.CancelFunc) error {
	callTimer := time.AfterFunc(max(w.service.cfg.Timing.Drain-flushReserve, 0), endCalls)
	defer callTimer.Stop()
	writeTimer := time.AfterFunc(w.service.cfg.Timing.Drain, endWrites)
	defer writeTimer.Stop()
	// After a failed write, running calls are not worth waiting for.
	if ctx.Err() == nil {
		endCalls()
	}
	close(w.sends)
	ended := make(chan struct{})
	go func() { calls.Wait(); close(ended) }()
	for running := true; running || w.writing; {
		finished := ended
		if !running {
			finished = nil
		}
		select {
		case r := <-w.results:
			w.handleResult(r)
		case err := <-w.written:
			w.writing = false
			if err != nil {
				endCalls()
				<-ended
				return err
			}
		case <-finished:
			running = false
		}
	}
	for more := true; more; {
		select {
		case r := <-w.results:
			w.handleResult(r)
		default:
			more = false
		}
	}
	if ctx.Err() == nil {
		return nil
	}
	// What one change finishes may advance the watermark, which is another change.
	for effect := w.nextChange(); !effect.IsEmpty(); effect = w.nextChange() {
		w.changes <- effect
		if err := <-w.written; err != nil {
			return err
		}
	}
	return nil
}

// handleMessage decodes a message and passes it to the scheduler, or keeps it as waitingTask until
// there is free memory.
func (w *partitionWorker) handleMessage(m kafka.Message, now time.Time, spillTimer *time.Timer) {
	if w.watermark.Includes(m.Offset, m.Time) {
		if w.lastSkipped < 0 {
			w.service.logger.Warn("webhook: skipping already processed tasks",
				slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset),
				slog.Int64("processed_offset", w.watermark.Offset))
		}
		w.lastSkipped = m.Offset
		w.scheduler.Skip(m.Offset)
		return
	}
	if m.Time.After(w.newestTime) && m.Time.Before(now.Add(maxClockSkew)) {
		w.newestTime = m.Time
	}
	if isResume(&m) {
		var resume event.WebhookResume
		if err := json.Unmarshal(m.Value, &resume); err == nil && resume.EndpointID == string(m.Key) {
			w.scheduler.Resume(resume.EndpointID, m.Offset, now)
			return
		}
		w.scheduler.Reject(&m, codeInvalid, "invalid resume request", now)
		return
	}
	t, reason := decodeTask(&m)
	if t == nil {
		w.service.logger.Warn("webhook: invalid task", slog.Int("partition", m.Partition),
			slog.Int64("offset", m.Offset), slog.String("reason", reason))
		w.scheduler.Reject(&m, codeInvalid, reason, now)
		return
	}
	if w.scheduler.OverMemoryLimit(t.id) {
		w.waitingTask = t
		spillTimer.Reset(memoryWait)
		return
	}
	w.scheduler.Enqueue(t.task, t.id, t.address, t.message, now)
}

// isResume reports whether a message is a request to resume an endpoint.
func isResume(m *kafka.Message) bool {
	hasType := slices.ContainsFunc(m.Headers, func(h kafka.Header) bool {
		return h.Key == bus.HeaderType && string(h.Value) == event.TypeWebhookResume
	})
	// This is the case for almost every message.
	if !hasType {
		return false
	}
	e, err := bus.GetEvent(m.Headers)
	return err == nil && e.Type == event.TypeWebhookResume
}

// codeInvalid is the code of messages that are not valid tasks. codeLost is that of tasks that the
// log no longer holds.
const (
	codeInvalid = "invalid_task"
	codeLost    = "task_lost"
	// codeErased is the code of deliveries about an erased person. codeInactive is that of
	// deliveries to a deactivated organization. Their dead letters have no body.
	codeErased   = "subject_erased"
	codeInactive = "organization_inactive"
)

// decodeTask decodes a task. For an invalid message it returns nil and a reason without personal
// data.
func decodeTask(m *kafka.Message) (*decodedTask, string) {
	var task event.WebhookTask
	if err := json.Unmarshal(m.Value, &task); err != nil {
		return nil, "the message is not a JSON webhook task"
	}
	to, err := task.Receiver()
	if err != nil {
		return nil, err.Error()
	}
	id := to.ID()
	if string(m.Key) != id {
		return nil, "the message key is not the endpoint ID"
	}
	// Sending does not decode it again.
	m.WriterData = &task
	return &decodedTask{&task, id, to.Address, m}, ""
}

// cachedTask returns the task that decodeTask cached in the message, or nil.
func cachedTask(m *kafka.Message) *event.WebhookTask {
	task, _ := m.WriterData.(*event.WebhookTask)
	return task
}

func (w *partitionWorker) handleResult(r result) {
	w.scheduler.Complete(r.send, r.outcome, w.service.now())
	w.service.metrics.observe(r.outcome)
}

// updateGauges updates the gauges. If ended is true, it removes this partition's share.
func (w *partitionWorker) updateGauges(ended bool) {
	waiting, running := float64(w.scheduler.Pending()), float64(w.scheduler.Running())
	if ended {
		waiting, running = 0, 0
	}
	if waiting != w.reportedPending {
		w.service.metrics.pending.Add(waiting - w.reportedPending)
	}
	if running != w.reportedRunning {
		w.service.metrics.running.Add(running - w.reportedRunning)
	}
	w.reportedPending, w.reportedRunning = waiting, running
}

// taskMessage returns the task message of a delivery at offset: bodies of spilled deliveries stay
// in the log. It returns [bus.ErrNoMessage] if the offset holds another task, as after a log lost
// its end.
func (w *partitionWorker) taskMessage(ctx context.Context, endpointID, deliveryID string,
	offset int64) (*kafka.Message, error) {
	m, err := w.readAt(ctx, offset)
	if err != nil {
		return nil, err
	}
	if t, _ := decodeTask(m); t == nil || string(m.Key) != endpointID || t.task.DeliveryID != deliveryID {
		return nil, fmt.Errorf("offset %d holds another message: %w", offset, bus.ErrNoMessage)
	}
	return m, nil
}

// readAt reads one message from the log and caches the following ones from the same fetch.
func (w *partitionWorker) readAt(ctx context.Context, offset int64) (*kafka.Message, error) {
	w.bodies.Lock()
	defer w.bodies.Unlock()
	if m, ok := w.bodies.messages[offset]; ok {
		delete(w.bodies.messages, offset)
		return &m, nil
	}
	messages, err := w.partition.From(ctx, offset)
	if err != nil {
		return nil, err
	}
	w.bodies.messages = make(map[int64]kafka.Message, len(messages))
	for _, m := range messages[1:] {
		w.bodies.messages[m.Offset] = m
	}
	return &messages[0], nil
}
