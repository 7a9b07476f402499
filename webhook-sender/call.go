package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
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
			o.s.logger.LogAttrs(ctx, slog.LevelError, "webhook task is no longer in the log", slog.Int("partition", o.p.Number),
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
// the offsets.
func (o *owner) write(ctx context.Context, e *delivery.Effect) error {
	messages := make([]kafka.Message, 0, len(e.Attempts)+len(e.Dead))
	for i := range e.Attempts {
		m, err := o.s.attemptMessage(ctx, &e.Attempts[i])
		if err != nil {
			return err
		}
		messages = append(messages, m)
	}
	for i := range e.Dead {
		m, err := o.deadMessage(ctx, &e.Dead[i])
		if err != nil {
			return err
		}
		messages = append(messages, m)
	}
	if err := o.s.writeAll(ctx, o.s.events, messages); err != nil {
		return fmt.Errorf("write attempts: %w", err)
	}
	messages = messages[:0]
	for i := range e.States {
		m, err := o.stateMessage(&e.States[i])
		if err != nil {
			return err
		}
		messages = append(messages, m)
	}
	if err := o.s.writeAll(ctx, o.s.states, messages); err != nil {
		return fmt.Errorf("write states: %w", err)
	}
	for _, offset := range e.Finished {
		o.p.Finish(offset)
	}
	for i := range e.Dead {
		o.s.metrics.dead.WithLabelValues(e.Dead[i].Code()).Inc()
	}
	return nil
}

// writeAll writes messages. What the brokers never take is told and left.
func (s *Service) writeAll(ctx context.Context, w *kafka.Writer, messages []kafka.Message) error {
	if len(messages) == 0 {
		return nil
	}
	err := bus.WriteAll(ctx, w, messages)
	var refused *bus.RefusedError
	if errors.As(err, &refused) {
		for _, m := range refused.Messages {
			s.logger.LogAttrs(ctx, slog.LevelError, "the brokers refuse a message of the webhook-sender", slog.String("topic", m.Topic),
				slog.String("key", string(messages[m.Index].Key)), slog.Any("error", m.Err))
		}
		return nil
	}
	return err
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
