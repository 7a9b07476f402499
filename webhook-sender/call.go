package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/breaker"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
	"muster/webhook-sender/internal/post"
	"muster/webhook-sender/internal/signature"
)

// Errors of attempts beside the classes of package post.
const (
	errorNoSecret = "no_secret"
	errorSecret   = "secret_unreadable"
)

// errFailed tells the breaker that a call failed; the outcome says how.
var errFailed = errors.New("the call failed")

// call makes one attempt.
func (o *owner) call(ctx context.Context, send delivery.Send) delivery.Outcome {
	out := delivery.Outcome{Task: send.Task}
	if out.Task == nil {
		m, err := o.message(ctx, send.EndpointID, send.DeliveryID, send.Offset)
		switch {
		case errors.Is(err, bus.ErrNoMessage):
			o.s.logger.LogAttrs(ctx, slog.LevelWarn, "webhook task is no longer in the log", slog.Int("partition", o.p.Number),
				slog.String("delivery", send.DeliveryID), slog.Any("error", err))
			out.Unsent, out.Permanent, out.Error, out.At = true, true, codeLost, o.s.now()
			return out
		case err != nil:
			if ctx.Err() == nil {
				o.s.logger.LogAttrs(ctx, slog.LevelWarn, "webhook task not read, trying again", slog.Int("partition", o.p.Number), slog.Any("error", err))
			}
			out.Abandoned = true
			return out
		}
		out.Task = m
	}
	task := taskOf(out.Task)
	if code := o.s.withheld(task); code != "" {
		out.Unsent, out.Permanent, out.Error, out.At = true, true, code, o.s.now()
		return out
	}
	err := o.s.breakers.Do(ctx, send.EndpointID, func(ctx context.Context) error { return o.s.attempt(ctx, task, &out) })
	var open *breaker.OpenError
	switch {
	case errors.As(err, &open):
		out.Refused, out.RetryAfter = true, open.RetryAfter
	case !out.OK && out.HTTPStatus == 0 && ctx.Err() != nil:
		out.Abandoned = true
	}
	return out
}

// withheld says why nobody may be sent a task's body, now; empty: it may be sent.
func (s *Service) withheld(task *event.WebhookTask) (code string) {
	if s.secrets.isInactive(task.OrganizationID) {
		return codeInactive
	}
	if _, erased := s.erased.Document(s.platforms, task.Body); erased || s.erased.Named(task.Identities) {
		return codeErased
	}
	return ""
}

// attempt signs and posts. Its error is for the breaker: only what speaks against
// the receiver is one.
func (s *Service) attempt(ctx context.Context, task *event.WebhookTask, out *delivery.Outcome) error {
	out.At = s.now()
	secrets, err := s.secrets.of(task.OrganizationID, out.At)
	if err != nil {
		out.Unsent, out.Error = true, errorSecret
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook secret cannot be used", slog.String("organization", task.OrganizationID), slog.Any("error", err))
		return breaker.ErrNotTried
	}
	headers, err := signature.Headers(secrets, task.DeliveryID, out.At, task.Body)
	switch {
	case errors.Is(err, signature.ErrNoSecret):
		out.Unsent, out.Error = true, errorNoSecret
		return breaker.ErrNotTried
	case err != nil:
		out.Unsent, out.Error = true, errorSecret
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook cannot be signed", slog.String("organization", task.OrganizationID), slog.Any("error", err))
		return breaker.ErrNotTried
	}
	if len(task.Degraded) > 0 {
		headers.Set("X-Degraded", strings.Join(task.Degraded, ","))
	}
	r := s.client.Post(ctx, task.URL, headers, task.Body)
	out.OK, out.HTTPStatus, out.Error, out.Response = r.OK(), r.Status, string(r.Class), r.Excerpt
	out.Duration, out.RetryAfter = r.Duration, r.RetryAfter
	out.Gone, out.Permanent = r.Class == post.ClassGone, r.Permanent()
	switch {
	case out.OK || out.Gone:
		return nil
	case out.Permanent: // nobody was asked
		out.Unsent = true
		return breaker.ErrNotTried
	}
	return errFailed
}

// write makes an effect durable: what was done, then the states that say so, then
// the offsets. The states of endpoints come before all: one that is stopped may have more
// letters than there is time for.
func (o *owner) write(ctx context.Context, e *delivery.Effect) error {
	endpoints, others := e.SplitStates()
	if err := writeEach(ctx, o.s, o.s.states, endpoints, o.stateMessage); err != nil {
		return fmt.Errorf("write states of endpoints: %w", err)
	}
	if err := writeEach(ctx, o.s, o.s.events, e.Attempts, func(a *event.WebhookAttempt) (kafka.Message, error) { return o.s.attemptMessage(ctx, a) }); err != nil {
		return fmt.Errorf("write attempts: %w", err)
	}
	if err := writeEach(ctx, o.s, o.s.events, e.Dead, func(d *delivery.DeadLetter) (kafka.Message, error) { return o.deadMessage(ctx, d) }); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	var taken []delivery.State // how far tasks are finished: not before the states of those that are not
	if last := len(others) - 1; last >= 0 && others[last].Taken != nil {
		others, taken = others[:last], others[last:]
	}
	for _, states := range [][]delivery.State{others, taken} {
		if err := writeEach(ctx, o.s, o.s.states, states, o.stateMessage); err != nil {
			return fmt.Errorf("write states: %w", err)
		}
	}
	for _, offset := range e.Finished {
		o.p.Finish(offset)
	}
	for i := range e.Dead {
		o.s.metrics.dead.WithLabelValues(e.Dead[i].Code()).Inc()
	}
	return nil
}

// writeMost and writeBytes bound what is written at once: an endpoint that is stopped may
// have the letters, with bodies, of all that waited for it.
const (
	writeMost  = 1000
	writeBytes = 8 << 20
)

// writeEach writes the message of each of what there is, in order.
func writeEach[T any](ctx context.Context, s *Service, w *bus.Writer, all []T, message func(*T) (kafka.Message, error)) error {
	pending := make([]kafka.Message, 0, min(len(all), writeMost))
	bytes := 0
	for i := range all {
		m, err := message(&all[i])
		if err != nil {
			return err
		}
		pending = append(pending, m)
		if bytes += len(m.Value); len(pending) >= writeMost || bytes >= writeBytes {
			if err := s.writeAll(ctx, w, pending); err != nil {
				return err
			}
			pending, bytes = pending[:0], 0
		}
	}
	return s.writeAll(ctx, w, pending)
}

// writeAll writes messages, and tries until ctx ends: an owner that fails has all that was
// delivered meanwhile delivered again. What the brokers refuse for its own sake is told and
// left.
func (s *Service) writeAll(ctx context.Context, w *bus.Writer, messages []kafka.Message) error {
	for pause := 100 * time.Millisecond; len(messages) > 0; pause = min(2*pause, 10*time.Second) {
		err := bus.WriteAll(ctx, w, messages)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if refused, ok := errors.AsType[*bus.RefusedError](err); ok {
			if messages = s.unwritten(ctx, messages, refused); len(messages) == 0 {
				return nil
			}
		}
		s.logger.LogAttrs(ctx, slog.LevelError, "what the webhook-sender did is not written, trying again", slog.Any("error", err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// unwritten returns what is to be written again: what was refused for a reason that may
// pass, and what came later under the same key, so that the last one stays the last.
func (s *Service) unwritten(ctx context.Context, messages []kafka.Message, refused *bus.RefusedError) []kafka.Message {
	reasons := make(map[int]error, len(refused.Messages))
	for _, r := range refused.Messages {
		reasons[r.Index] = r.Err
	}
	var out []kafka.Message
	again := make(map[string]bool) // keys
	for i, m := range messages {
		key := m.Topic + "\x00" + string(m.Key)
		switch err := reasons[i]; {
		case err != nil && bus.IsMessageError(err):
			s.logger.LogAttrs(ctx, slog.LevelError, "the brokers refuse a message of the webhook-sender", slog.String("topic", m.Topic),
				slog.String("key", string(m.Key)), slog.Any("error", err))
		case err != nil || again[key]:
			again[key] = true
			out = append(out, m)
		}
	}
	return out
}

func (s *Service) attemptMessage(ctx context.Context, a *event.WebhookAttempt) (kafka.Message, error) {
	value, err := json.Marshal(a)
	if err != nil {
		return kafka.Message{}, fmt.Errorf("encode attempt: %w", err)
	}
	// A repeated report has the same id.
	id := sha256.Sum256([]byte(a.DeliveryID + "\x00" + a.Round + "\x00" + strconv.Itoa(a.Attempt)))
	return kafka.Message{
		Topic: event.TopicWebhook, Key: []byte(a.EndpointID), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: hex.EncodeToString(id[:16]), Type: event.TypeWebhookAttempt, Source: "/muster/webhook-sender",
			Subject: a.DeliveryID, Time: a.At, ContentType: "application/json",
		})),
	}, nil
}

func (o *owner) stateMessage(s *delivery.State) (kafka.Message, error) {
	m := kafka.Message{Topic: event.TopicWebhookState, Key: []byte(s.Key), WriterData: o.p.Number}
	var state any
	kind := event.TypeWebhookDelivery
	switch {
	case s.Delivery != nil:
		state = s.Delivery
	case s.Endpoint != nil:
		state, kind = s.Endpoint, event.TypeWebhookEndpoint
	case s.Taken != nil:
		state, kind = s.Taken, event.TypeWebhookTaken
	default:
		return m, nil
	}
	var err error
	if m.Value, err = json.Marshal(state); err != nil {
		return m, fmt.Errorf("encode webhook state: %w", err)
	}
	m.Headers = bus.SetEvent(nil, bus.Event{ID: s.Key, Type: kind, Source: "/muster/webhook-sender", ContentType: "application/json"})
	return m, nil
}

// awaitMessage returns the task of a delivery, and tries until ctx ends: an effect that
// is lost for want of one body has others delivered twice.
func (o *owner) awaitMessage(ctx context.Context, s *event.DeliveryState) (*kafka.Message, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		m, err := o.message(ctx, s.EndpointID, s.DeliveryID, s.Offset)
		if err == nil || errors.Is(err, bus.ErrNoMessage) {
			return m, err
		}
		o.s.logger.LogAttrs(ctx, slog.LevelWarn, "webhook task that is given up not read, trying again", slog.Int("partition", o.p.Number), slog.Any("error", err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// deadMessage is the task as it came, with why it was given up. What nobody may be sent
// any more is not kept for another 30 days, whatever it was given up for.
func (o *owner) deadMessage(ctx context.Context, d *delivery.DeadLetter) (kafka.Message, error) {
	bare := &kafka.Message{Key: []byte(d.State.EndpointID)} // the letter still says what it was about
	task := d.Task
	switch {
	case d.Code() == codeErased || d.Code() == codeInactive:
		task = bare
	case task == nil:
		var err error
		if task, err = o.awaitMessage(ctx, &d.State); errors.Is(err, bus.ErrNoMessage) {
			task = bare
		} else if err != nil {
			return kafka.Message{}, fmt.Errorf("read a task that is given up: %w", err)
		}
	}
	if t := taskOf(task); t != nil && o.s.withheld(t) != "" {
		task = bare
	}
	out := kafka.Message{Topic: DeadTopic().Name, Key: task.Key, Value: task.Value, Headers: task.Headers}
	letter := event.Dead{
		Service: serviceName, Handler: handlerName, Topic: event.TopicWebhookTask, Partition: o.p.Number, Offset: d.State.Offset,
		Code: d.Code(), Reason: d.Reason(), Attempts: d.State.Attempts, FirstFailure: d.State.FirstFailure, LastFailure: d.State.UpdatedAt,
	}
	letter.Set(func(name, value string) {
		out.Headers = append(out.Headers[:len(out.Headers):len(out.Headers)], kafka.Header{Key: name, Value: []byte(value)})
	})
	return out, nil
}
