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
	// patience is how long tasks wait for room in memory before those of the
	// endpoints that do not keep up are put off.
	patience = 20 * time.Millisecond
	// backlog is how many messages may wait to be written before nothing new begins.
	backlog = 12_288
	// While calls are made, what they did is gathered for a moment, or up to some number
	// of messages: writing them costs much less together. A process that is killed
	// meanwhile sends those again.
	gatherTime = 20 * time.Millisecond
	gatherMost = 384
	// atOnce bounds how many messages and results are taken before sending again.
	atOnce = 256
	// clockSkew is how far the clocks of those who write tasks may be ahead: a task that is
	// dated later must not have others count as finished.
	clockSkew = time.Minute
	// flushTime is what is kept of the drain to write the last results.
	flushTime = time.Second
)

// owner runs one partition.
type owner struct {
	s       *Service
	p       *bus.Partition
	machine *delivery.Machine

	incoming chan kafka.Message
	sends    chan delivery.Send
	workers  int // that make calls
	results  chan result
	effects  chan delivery.Effect
	written  chan error
	busy     bool      // an effect is being written
	since    time.Time // what is unwritten is no older
	held     *taken    // a task that waits for room

	taken   event.WebhookTaken // as the topic of states has it, or will
	newest  time.Time          // of the messages received
	skipped int64              // the last offset that was passed over, -1 before

	waiting, running float64 // as the gauges have them

	bodies struct {
		sync.Mutex
		messages map[int64]kafka.Message
	}
}

type result struct {
	send    delivery.Send
	outcome delivery.Outcome
}

// taken is a decoded task.
type taken struct {
	task        *event.WebhookTask
	id, address string // of its endpoint
	message     *kafka.Message
}

// own delivers the tasks of a partition until ctx ends.
func (s *Service) own(ctx context.Context, p *bus.Partition) error {
	machine := s.newMachine(p.Number)
	o := &owner{
		s: s, p: p, machine: machine,
		// Both have room for all calls that run.
		incoming: make(chan kafka.Message, atOnce), sends: make(chan delivery.Send, machine.Bound()), results: make(chan result, machine.Bound()),
		effects: make(chan delivery.Effect), written: make(chan error, 1), skipped: -1,
	}
	begin := s.now()
	states := 0
	err := p.Replay(ctx, event.TopicWebhookState, func(m kafka.Message) error {
		states++
		if err := o.restore(&m); err != nil {
			s.logger.LogAttrs(ctx, slog.LevelError, "webhook state skipped", slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Any("error", err))
		}
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("restore the deliveries: %w", err)
	}
	s.logger.LogAttrs(ctx, slog.LevelDebug, "deliveries restored", slog.Int("partition", p.Number), slog.Int("states", states),
		slog.Int("waiting", o.machine.Waiting()), slog.Duration("took", s.now().Sub(begin)))
	defer o.gauge(true)
	return o.run(ctx)
}

// run is the loop that alone touches the machine.
func (o *owner) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Calls and writes outlive ctx, to end what they have begun.
	lasting := context.WithoutCancel(ctx)
	calling, endCalls := context.WithCancel(lasting)
	defer endCalls()
	writing, endWrites := context.WithCancel(lasting)
	defer endWrites()

	var helpers, calls sync.WaitGroup
	helpers.Go(func() {
		o.p.Receive(ctx, func(m kafka.Message) bool {
			select {
			case o.incoming <- m:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	helpers.Go(func() {
		for e := range o.effects {
			o.written <- o.write(writing, &e)
		}
	})
	defer func() {
		stop()
		close(o.effects)
		helpers.Wait()
	}()

	err := o.loop(ctx, calling, &calls)
	return errors.Join(err, o.drain(ctx, &calls, endCalls, endWrites))
}

// loop takes tasks and results, and sends, until ctx ends or a write fails.
func (o *owner) loop(ctx, calling context.Context, calls *sync.WaitGroup) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	relief := time.NewTimer(time.Hour)
	relief.Stop()
	defer relief.Stop()
	for {
		now := o.s.now()
		behind := o.machine.Unwritten() > backlog
		if !behind {
			o.send(calling, calls, o.machine.Due(now))
		}
		wait := time.Hour
		if at, ok := o.machine.Next(); ok && !behind {
			wait = max(at.Sub(now), 0)
		}
		if write, later := o.gathered(); write {
			o.effects <- o.effect()
			o.busy, o.since = true, time.Time{}
		} else if later > 0 {
			wait = min(wait, later)
		}
		o.gauge(false)
		timer.Reset(wait)
		incoming := o.incoming
		if o.held != nil || behind {
			incoming = nil
		}
		select {
		case m := <-incoming:
			o.take(m, now, relief)
		case r := <-o.results:
			o.done(r)
		case err := <-o.written:
			o.busy = false
			if err != nil {
				return err
			}
		case <-timer.C:
		case <-relief.C:
			o.machine.Relieve(o.s.now())
		case <-ctx.Done():
			return nil
		}
		o.takeMore(relief)
	}
}

// send has calls made. There are as many workers as calls ever ran at a time: the
// stack of each has grown for the next.
func (o *owner) send(ctx context.Context, calls *sync.WaitGroup, sends []delivery.Send) {
	for ; o.workers < o.machine.Running(); o.workers++ {
		calls.Go(func() {
			for send := range o.sends {
				o.results <- result{send, o.call(ctx, send)}
			}
		})
	}
	for _, send := range sends {
		o.sends <- send
	}
}

// gathered reports whether what is unwritten is to be written now, or else in how long;
// 0: that depends on something else.
func (o *owner) gathered() (write bool, later time.Duration) {
	n := o.machine.Unwritten()
	switch {
	case o.busy:
		return false, 0
	case n == 0:
		_, moved := o.moved()
		return moved && o.machine.Running() == 0, 0
	case n >= gatherMost || o.machine.Running() == 0:
		return true, 0
	case o.since.IsZero():
		o.since = time.Now() // not the schedule's clock
		return false, gatherTime
	}
	later = gatherTime - time.Since(o.since)
	return later <= 0, later
}

// takeMore takes what else has come, without waiting.
func (o *owner) takeMore(relief *time.Timer) {
	now := o.s.now()
	for range atOnce {
		if o.held != nil && !o.machine.Full(o.held.id) {
			o.machine.Take(o.held.task, o.held.id, o.held.address, o.held.message, now)
			o.held = nil
			relief.Stop()
		}
		incoming := o.incoming
		if o.held != nil {
			incoming = nil
		}
		select {
		case m := <-incoming:
			o.take(m, now, relief)
		case r := <-o.results:
			o.done(r)
		default:
			return
		}
	}
}

// drain waits for the calls that run, breaks them off when their time is over, and
// writes what came of them.
func (o *owner) drain(ctx context.Context, calls *sync.WaitGroup, endCalls, endWrites context.CancelFunc) error {
	cut := time.AfterFunc(max(o.s.cfg.Timing.Drain-flushTime, 0), endCalls)
	defer cut.Stop()
	last := time.AfterFunc(o.s.cfg.Timing.Drain, endWrites)
	defer last.Stop()
	if ctx.Err() == nil { // a write failed: what runs is not worth waiting for
		endCalls()
	}
	close(o.sends)
	ended := make(chan struct{})
	go func() { calls.Wait(); close(ended) }()
	for running := true; running || o.busy; {
		finished := ended
		if !running {
			finished = nil
		}
		select {
		case r := <-o.results:
			o.done(r)
		case err := <-o.written:
			o.busy = false
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
		case r := <-o.results:
			o.done(r)
		default:
			more = false
		}
	}
	if ctx.Err() == nil {
		return nil
	}
	for effect := o.effect(); !effect.Empty(); effect = o.effect() { // what it finishes is taken
		o.effects <- effect
		if err := <-o.written; err != nil {
			return err
		}
	}
	return nil
}

// take decodes a message and gives it to the machine, or keeps it until there is
// room.
func (o *owner) take(m kafka.Message, now time.Time, relief *time.Timer) {
	if o.taken.Covers(m.Offset, m.Time) {
		if o.skipped < 0 {
			o.s.logger.Warn("webhook tasks that were finished are handed over again and passed over",
				slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.Int64("finished", o.taken.Offset))
		}
		o.skipped = m.Offset
		o.machine.Skip(m.Offset)
		return
	}
	if m.Time.After(o.newest) && m.Time.Before(now.Add(clockSkew)) {
		o.newest = m.Time
	}
	if isResume(&m) {
		var resume event.WebhookResume
		if err := json.Unmarshal(m.Value, &resume); err == nil && resume.EndpointID == string(m.Key) {
			o.machine.Resume(resume.EndpointID, m.Offset, now)
			return
		}
		o.machine.Reject(&m, codeInvalid, "a resume order that cannot be read", now)
		return
	}
	t, reason := decodeTask(&m)
	if t == nil {
		o.s.logger.Warn("webhook task cannot be read", slog.Int("partition", m.Partition), slog.Int64("offset", m.Offset), slog.String("reason", reason))
		o.machine.Reject(&m, codeInvalid, reason, now)
		return
	}
	if o.machine.Full(t.id) {
		o.held = t
		relief.Reset(patience)
		return
	}
	o.machine.Take(t.task, t.id, t.address, t.message, now)
}

// isResume reports whether a message is an order to resume an endpoint.
func isResume(m *kafka.Message) bool {
	named := slices.ContainsFunc(m.Headers, func(h kafka.Header) bool {
		return h.Key == bus.HeaderType && string(h.Value) == event.TypeWebhookResume
	})
	if !named { // almost every message
		return false
	}
	e, err := bus.GetEvent(m.Headers)
	return err == nil && e.Type == event.TypeWebhookResume
}

// codeInvalid is of messages that are no tasks, codeLost of tasks whose message the
// log no longer holds.
const (
	codeInvalid = "invalid_task"
	codeLost    = "task_lost"
	// codeErased is of deliveries that tell of somebody who was erased, codeInactive of
	// those to an organization that was deactivated: they are given up, and the letter
	// has no body.
	codeErased   = "subject_erased"
	codeInactive = "organization_inactive"
)

// decodeTask returns nil and a reason, without data, for what is no task.
func decodeTask(m *kafka.Message) (*taken, string) {
	var task event.WebhookTask
	if err := json.Unmarshal(m.Value, &task); err != nil {
		return nil, "is not a JSON task"
	}
	to, err := task.Receiver()
	if err != nil {
		return nil, err.Error()
	}
	id := to.ID()
	if string(m.Key) != id {
		return nil, "the message's key is not the endpoint's id"
	}
	m.WriterData = &task // what sends it need not read it again
	return &taken{&task, id, to.Address, m}, ""
}

// taskOf is the task of a message that was decoded, nil of one that is no task.
func taskOf(m *kafka.Message) *event.WebhookTask {
	task, _ := m.WriterData.(*event.WebhookTask)
	return task
}

func (o *owner) done(r result) {
	o.machine.Done(r.send, r.outcome, o.s.now())
	o.s.metrics.outcome(r.outcome)
}

// gauge brings the gauges up to date; ended takes this partition's share back.
func (o *owner) gauge(ended bool) {
	waiting, running := float64(o.machine.Waiting()), float64(o.machine.Running())
	if ended {
		waiting, running = 0, 0
	}
	if waiting != o.waiting {
		o.s.metrics.waiting.Add(waiting - o.waiting)
	}
	if running != o.running {
		o.s.metrics.running.Add(running - o.running)
	}
	o.waiting, o.running = waiting, running
}

// message returns the task of a delivery that stands at an offset. Deliveries that wait
// leave their bodies in the log. When the log has lost its end another task may stand there
// by now, of another organization: that is [bus.ErrNoMessage], too.
func (o *owner) message(ctx context.Context, endpointID, deliveryID string, offset int64) (*kafka.Message, error) {
	m, err := o.messageAt(ctx, offset)
	if err != nil {
		return nil, err
	}
	if t, _ := decodeTask(m); t == nil || string(m.Key) != endpointID || t.task.DeliveryID != deliveryID {
		return nil, fmt.Errorf("another message is at %d: %w", offset, bus.ErrNoMessage)
	}
	return m, nil
}

// messageAt reads from the log; neighbours come with one fetch.
func (o *owner) messageAt(ctx context.Context, offset int64) (*kafka.Message, error) {
	o.bodies.Lock()
	defer o.bodies.Unlock()
	if m, ok := o.bodies.messages[offset]; ok {
		delete(o.bodies.messages, offset)
		return &m, nil
	}
	messages, err := o.p.From(ctx, offset)
	if err != nil {
		return nil, err
	}
	o.bodies.messages = make(map[int64]kafka.Message, len(messages))
	for _, m := range messages[1:] {
		o.bodies.messages[m.Offset] = m
	}
	return &messages[0], nil
}
