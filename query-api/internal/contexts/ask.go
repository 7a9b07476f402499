package contexts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Ask publishes a task and waits for its result until the call ends. It returns nil if the result
// has not arrived; the call is then answered without it. The task's call needs all fields but
// Process. Ask calls published when the task is on its topic. The error may be [ErrUnavailable] or
// [ErrUncertain].
func (d *CallTracker) Ask(ctx context.Context, task *event.ContextTask, published func()) (*event.Context, error) {
	task.Call.Process = d.process
	accepted := &event.Context{Call: task.Call, Status: event.ContextProcessing, At: task.Call.RequestedAt}
	c, done, wasKnown, err := d.enter(accepted)
	if err != nil {
		return nil, err
	}
	if err := d.publish(ctx, task, accepted); err != nil {
		if errors.Is(err, ErrUncertain) {
			d.endUncertain(ctx, c, task)
		} else {
			d.endUnpublished(c, wasKnown)
		}
		return nil, err
	}
	published()
	d.wait(ctx, done, task)
	shared := d.share(ctx, c, task, done)
	return d.answer(ctx, c, task, shared)
}

// enter registers a call as waiting in this process. done is closed with its result; wasKnown reports whether the call
// was already tracked.
func (d *CallTracker) enter(accepted *event.Context) (c *call, done chan struct{}, wasKnown bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, false, fmt.Errorf("%w: the service is stopping", ErrUnavailable)
	}
	c, wasKnown = d.lookUp(accepted.Call.RequestID)
	if c.state == nil {
		c.state = accepted
	}
	c.ours = true
	done = make(chan struct{})
	if c.state.Status == event.ContextProcessing {
		c.done = done
	} else {
		close(done)
	}
	d.place(c)
	return c, done, wasKnown, nil
}

// publish writes the accepted event and the task.
func (d *CallTracker) publish(ctx context.Context, task *event.ContextTask, accepted *event.Context) error {
	state, err := json.Marshal(accepted, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode context event: %w", err)
	}
	value, err := json.Marshal(task, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode context task: %w", err)
	}
	id, at := task.Call.RequestID, task.Call.RequestedAt
	message := func(topic, kind string, value []byte) kafka.Message {
		return kafka.Message{Topic: topic, Key: []byte(id), Value: value,
			Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
				ID: id, Type: kind, Source: source, Subject: id, Time: at, ContentType: "application/json",
			}))}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := bus.WriteAll(ctx, d.writer,
		[]kafka.Message{message(event.TopicContext, event.TypeContext, state)}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := bus.WriteAll(ctx, d.writer,
		[]kafka.Message{message(event.TopicContextTask, event.TypeContextTask, value)}); err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return nil
}

// endUncertain ends a call whose task may have been published. If it was, the call is charged and its result delivered,
// like that of an abandoned call.
func (d *CallTracker) endUncertain(ctx context.Context, c *call, task *event.ContextTask) {
	if d.isShared(task) {
		d.markAbandoned(ctx, c.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.respondWithoutResult(c)
}

// endUnpublished ends a call without a task, unless the task of an earlier attempt is in progress.
func (d *CallTracker) endUnpublished(c *call, wasKnown bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.done = nil
	if !wasKnown && d.known[c.id] == c {
		d.drop(c)
	}
}

// wait waits for a result until the call ends.
func (d *CallTracker) wait(ctx context.Context, done <-chan struct{}, task *event.ContextTask) {
	remaining := task.Call.RespondBy.Sub(d.cfg.Now())
	if task.Call.RespondBy.After(task.Call.RequestedAt) {
		remaining += grace
	}
	timer := time.NewTimer(remaining)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	case <-d.stopping.Done():
	}
}

// share lets the other replicas deliver the result of a call, if it has not arrived. It reports whether it did. If the
// result was already settled, none of them delivers it, and the call is answered with it after all.
func (d *CallTracker) share(ctx context.Context, c *call, task *event.ContextTask, done <-chan struct{}) bool {
	d.mu.Lock()
	ready := c.ready()
	d.mu.Unlock()
	if ready || !d.isShared(task) {
		return false
	}
	if settled := d.markAbandoned(ctx, c.id); !settled {
		return true
	}
	select {
	case <-done:
	case <-time.After(settledTimeout):
	}
	return false
}

// isShared reports whether other replicas may deliver the result of a call.
func (d *CallTracker) isShared(task *event.ContextTask) bool {
	return d.cfg.Abandoned != nil && task.Call.WebhookURL != ""
}

// markAbandoned tells other replicas that a call will be answered without its result. It reports whether the result was
// already settled.
func (d *CallTracker) markAbandoned(ctx context.Context, id string) (settled bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	settled, err := d.cfg.Abandoned.MarkAbandoned(ctx, id)
	if err != nil {
		d.cfg.Logger.WarnContext(ctx, "contexts: sharing failed, only this replica can deliver the profile",
			slog.String("request_id", id), slog.Any("error", err))
	}
	return settled
}

// answer ends a published call. shared reports whether other replicas deliver its result, too.
func (d *CallTracker) answer(
	ctx context.Context, c *call, task *event.ContextTask, shared bool,
) (*event.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.ready() && !shared {
		d.calls.WithLabelValues(string(c.state.Status)).Inc()
		return c.state, nil
	}
	d.respondWithoutResult(c)
	switch {
	case ctx.Err() != nil:
		d.calls.WithLabelValues("client_gone").Inc()
		return nil, fmt.Errorf("context: %w", context.Cause(ctx))
	case task.Call.WebhookURL != "":
		d.calls.WithLabelValues("accepted").Inc()
	default:
		d.calls.WithLabelValues("timeout").Inc()
	}
	return nil, nil
}

// ready reports whether a waiting call can be answered with its result. A result that the worker
// has handed to the webhook-sender, because the call had ended by its clock, is not returned as
// well. d.mu must be held.
func (c *call) ready() bool { return c.state.Status != event.ContextProcessing && !c.state.Delivered }

// respondWithoutResult marks a call as answered without its result, which is delivered now or when it arrives. d.mu
// must be held.
func (d *CallTracker) respondWithoutResult(c *call) {
	c.done, c.answered = nil, true
	if c.ready() {
		d.deliverLate(c.state)
	}
}
