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

// Ask has a task worked on, and waits for its outcome until the call ends. nil says
// that it has not come: the call is answered without it. The task's call needs
// all but its process. asked is called when the task is published. The error may be
// [ErrUnavailable] or [ErrUnsure].
func (d *Desk) Ask(ctx context.Context, task *event.ContextTask, asked func()) (*event.Context, error) {
	task.Call.Process = d.process
	accepted := &event.Context{Call: task.Call, Status: event.ContextProcessing, At: task.Call.RequestedAt}
	c, done, again, err := d.enter(accepted)
	if err != nil {
		return nil, err
	}
	if err := d.publish(ctx, task, accepted); err != nil {
		if errors.Is(err, ErrUnsure) {
			d.unsure(ctx, c, task)
		} else {
			d.unpublished(c, again)
		}
		return nil, err
	}
	asked()
	d.wait(ctx, done, task)
	shared := d.share(ctx, c, task, done)
	return d.answer(ctx, c, task, shared)
}

// enter makes a call known as one that is waited for here. done closes with its outcome;
// again says that it was known before.
func (d *Desk) enter(accepted *event.Context) (c *call, done chan struct{}, again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, false, fmt.Errorf("%w: the service is stopping", ErrUnavailable)
	}
	c, again = d.of(accepted.Call.RequestID)
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
	return c, done, again, nil
}

// publish writes that a call is accepted, and its task.
func (d *Desk) publish(ctx context.Context, task *event.ContextTask, accepted *event.Context) error {
	state, err := json.Marshal(accepted, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write context event: %w", err)
	}
	value, err := json.Marshal(task, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write context task: %w", err)
	}
	id, at := task.Call.RequestID, task.Call.RequestedAt
	message := func(topic, kind string, value []byte) kafka.Message {
		return kafka.Message{Topic: topic, Key: []byte(id), Value: value, Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: id, Type: kind, Source: source, Subject: id, Time: at, ContentType: "application/json",
		}))}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := bus.WriteAll(ctx, d.writer, []kafka.Message{message(event.TopicContext, event.TypeContext, state)}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := bus.WriteAll(ctx, d.writer, []kafka.Message{message(event.TopicContextTask, event.TypeContextTask, value)}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return nil
}

// unsure ends a call whose task may be worked on. If it is, it is charged: and its outcome
// handed over, as that of a call that was left.
func (d *Desk) unsure(ctx context.Context, c *call, task *event.ContextTask) {
	if d.sharing(task) {
		d.note(ctx, c.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.giveUp(c)
}

// unpublished ends a call that has no task, unless one of an earlier attempt is worked on.
func (d *Desk) unpublished(c *call, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.done = nil
	if !again && d.known[c.id] == c {
		d.drop(c)
	}
}

// wait waits for an outcome until the call ends.
func (d *Desk) wait(ctx context.Context, done <-chan struct{}, task *event.ContextTask) {
	left := task.Call.RespondBy.Sub(d.cfg.Now())
	if task.Call.RespondBy.After(task.Call.RequestedAt) {
		left += grace
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	case <-d.leaving.Done():
	}
}

// share leaves the outcome of a call, if it has not come, to the other replicas as well. It
// reports whether it did: if they have settled it before, none of them hands it over, and the
// call is answered with it after all.
func (d *Desk) share(ctx context.Context, c *call, task *event.ContextTask, done <-chan struct{}) bool {
	d.mu.Lock()
	ready := c.ready()
	d.mu.Unlock()
	if ready || !d.sharing(task) {
		return false
	}
	if settled := d.note(ctx, c.id); !settled {
		return true
	}
	select {
	case <-done:
	case <-time.After(settledPatience):
	}
	return false
}

// sharing says that other replicas may hand over the outcome of a call.
func (d *Desk) sharing(task *event.ContextTask) bool {
	return d.cfg.Left != nil && task.Call.WebhookURL != ""
}

// note tells other replicas that a call is answered without its outcome, before it is, and
// reports whether that was settled before.
func (d *Desk) note(ctx context.Context, id string) (settled bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	settled, err := d.cfg.Left.Note(ctx, id)
	if err != nil {
		d.cfg.Logger.WarnContext(ctx, "a context profile is handed over only by the replica that took the call", slog.String("request_id", id), slog.Any("error", err))
	}
	return settled
}

// answer ends a call that was published. shared says that other replicas hand its outcome
// over, too.
func (d *Desk) answer(ctx context.Context, c *call, task *event.ContextTask, shared bool) (*event.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.ready() && !shared {
		d.calls.WithLabelValues(string(c.state.Status)).Inc()
		return c.state, nil
	}
	d.giveUp(c)
	switch {
	case ctx.Err() != nil:
		d.calls.WithLabelValues("left").Inc()
		return nil, fmt.Errorf("context: %w", context.Cause(ctx))
	case task.Call.WebhookURL != "":
		d.calls.WithLabelValues("accepted").Inc()
	default:
		d.calls.WithLabelValues("late").Inc()
	}
	return nil, nil
}

// ready says that a call is answered with its outcome, if it still waits; d.mu is held. What
// the worker has handed to the webhook-sender, since by its clock the call had ended, is not
// answered as well.
func (c *call) ready() bool { return c.state.Status != event.ContextProcessing && !c.state.Delivered }

// giveUp has a call answered without its outcome, which is handed over: now, or when it
// comes. d.mu is held.
func (d *Desk) giveUp(c *call) {
	c.done, c.answered = nil, true
	if c.ready() {
		d.handOver(c.state)
	}
}
