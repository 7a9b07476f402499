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
)

// Error classes of attempts, in addition to those of package post.
const (
	errorNoSecret = "no_secret"
	errorSecret   = "secret_unreadable"
)

// errCallFailed reports a failed call to the breaker. The outcome has the details.
var errCallFailed = errors.New("call failed")

// call makes one delivery attempt and returns its outcome.
func (w *partitionWorker) call(ctx context.Context, send delivery.Send) delivery.Outcome {
	out := delivery.Outcome{Task: send.Task}
	if out.Task == nil {
		m, err := w.taskMessage(ctx, send.EndpointID, send.DeliveryID, send.Offset)
		switch {
		case errors.Is(err, bus.ErrNoMessage):
			w.service.logger.LogAttrs(ctx, slog.LevelWarn, "webhook: task no longer in log",
				slog.Int("partition", w.partition.Number),
				slog.String("delivery_id", send.DeliveryID), slog.Any("error", err))
			out.Unsent, out.Permanent, out.Error, out.At = true, true, codeLost, w.service.now()
			return out
		case err != nil:
			if ctx.Err() == nil {
				w.service.logger.LogAttrs(ctx, slog.LevelWarn, "webhook: task read failed, will retry",
					slog.Int("partition", w.partition.Number), slog.Any("error", err))
			}
			out.Abandoned = true
			return out
		}
		out.Task = m
	}
	task := cachedTask(out.Task)
	if code := w.service.blockReason(task); code != "" {
		out.Unsent, out.Permanent, out.Error, out.At = true, true, code, w.service.now()
		return out
	}
	err := w.service.breakers.Do(ctx, send.EndpointID, func(ctx context.Context) error {
		return w.service.attempt(ctx, task, &out)
	})
	var open *breaker.OpenError
	switch {
	case errors.As(err, &open):
		out.BreakerOpen, out.RetryAfter = true, open.RetryAfter
	case !out.OK && out.HTTPStatus == 0 && ctx.Err() != nil:
		out.Abandoned = true
	}
	return out
}

// blockReason returns the code that forbids sending the task's body now, or "" if it may be sent.
func (s *Service) blockReason(task *event.WebhookTask) (code string) {
	if s.secrets.isInactive(task.OrganizationID) {
		return codeInactive
	}
	if _, erased := s.erased.FindInDocument(s.platforms, task.Body); erased || s.erased.IsAnyNamed(task.Identities) {
		return codeErased
	}
	return ""
}

// attempt signs and posts the task. It returns an error only for failures of the receiver, which
// count against the circuit breaker.
func (s *Service) attempt(ctx context.Context, task *event.WebhookTask, out *delivery.Outcome) error {
	out.At = s.now()
	secrets, err := s.secrets.validAt(task.OrganizationID, out.At)
	if err != nil {
		out.Unsent, out.Error = true, errorSecret
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook: secret unusable",
			slog.String("organization_id", task.OrganizationID), slog.Any("error", err))
		return breaker.ErrNotTried
	}
	headers, err := signatureHeaders(secrets, task.DeliveryID, out.At, task.Body)
	switch {
	case errors.Is(err, errNoSecret):
		out.Unsent, out.Error = true, errorNoSecret
		return breaker.ErrNotTried
	case err != nil:
		out.Unsent, out.Error = true, errorSecret
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook: signing failed",
			slog.String("organization_id", task.OrganizationID), slog.Any("error", err))
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
	// No request was made.
	case out.Permanent:
		out.Unsent = true
		return breaker.ErrNotTried
	}
	return errCallFailed
}

// write makes a state change durable and then marks its offsets as finished. It writes endpoint
// states first: a stopped endpoint may have more dead letters than fit into the drain time.
// Attempts and dead letters follow, then delivery states, then the low watermark.
func (w *partitionWorker) write(ctx context.Context, e *delivery.StateChange) error {
	endpoints, others := e.SplitStates()
	if err := writeEach(ctx, w.service, w.service.states, endpoints, w.stateMessage); err != nil {
		return fmt.Errorf("write endpoint states: %w", err)
	}
	if err := writeEach(ctx, w.service, w.service.events, e.Attempts,
		func(a *event.WebhookAttempt) (kafka.Message, error) {
			return w.service.attemptMessage(ctx, a)
		}); err != nil {
		return fmt.Errorf("write attempts: %w", err)
	}
	if err := writeEach(ctx, w.service, w.service.events, e.Dead, func(d *delivery.DeadLetter) (kafka.Message, error) {
		return w.deadLetterMessage(ctx, d)
	}); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	// The low watermark must follow the states of deliveries that are still pending.
	var watermark []delivery.State
	if last := len(others) - 1; last >= 0 && others[last].LowWatermark != nil {
		others, watermark = others[:last], others[last:]
	}
	for _, states := range [][]delivery.State{others, watermark} {
		if err := writeEach(ctx, w.service, w.service.states, states, w.stateMessage); err != nil {
			return fmt.Errorf("write states: %w", err)
		}
	}
	for _, offset := range e.Finished {
		w.partition.Finish(offset)
	}
	for i := range e.Dead {
		w.service.metrics.deadLettered.WithLabelValues(e.Dead[i].Code()).Inc()
	}
	return nil
}

// maxWriteMessages and maxWriteBytes limit one write: a stopped endpoint may have the dead letters,
// with bodies, of all its waiting deliveries.
const (
	maxWriteMessages = 1000
	maxWriteBytes    = 8 << 20
)

// writeEach encodes and writes each element of all, in order, in batches of limited size.
func writeEach[T any](ctx context.Context, s *Service, w *bus.Writer, all []T,
	message func(*T) (kafka.Message, error)) error {
	pending := make([]kafka.Message, 0, min(len(all), maxWriteMessages))
	bytes := 0
	for i := range all {
		m, err := message(&all[i])
		if err != nil {
			return err
		}
		pending = append(pending, m)
		if bytes += len(m.Value); len(pending) >= maxWriteMessages || bytes >= maxWriteBytes {
			if err := s.writeAll(ctx, w, pending); err != nil {
				return err
			}
			pending, bytes = pending[:0], 0
		}
	}
	return s.writeAll(ctx, w, pending)
}

// writeAll writes messages and retries with backoff until ctx ends: a worker that fails would
// repeat all concurrent deliveries. It logs and drops messages that the brokers reject for good.
func (s *Service) writeAll(ctx context.Context, w *bus.Writer, messages []kafka.Message) error {
	for backoff := 100 * time.Millisecond; len(messages) > 0; backoff = min(2*backoff, 10*time.Second) {
		err := bus.WriteAll(ctx, w, messages)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if rejected, ok := errors.AsType[*bus.RejectedError](err); ok {
			if messages = s.retriable(ctx, messages, rejected); len(messages) == 0 {
				return nil
			}
		}
		s.logger.LogAttrs(ctx, slog.LevelError, "webhook: write failed, will retry", slog.Any("error", err))
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// retriable returns the messages to write again: those rejected for a transient reason, and later
// ones with the same key, which keeps their order.
func (s *Service) retriable(
	ctx context.Context,
	messages []kafka.Message,
	rejected *bus.RejectedError,
) []kafka.Message {
	reasons := make(map[int]error, len(rejected.Messages))
	for _, r := range rejected.Messages {
		reasons[r.Index] = r.Err
	}
	var out []kafka.Message
	retryKeys := make(map[string]bool) // by topic and key
	for i, m := range messages {
		key := m.Topic + "\x00" + string(m.Key)
		switch err := reasons[i]; {
		case err != nil && bus.IsMessageError(err):
			s.logger.LogAttrs(ctx, slog.LevelError, "webhook: message rejected by brokers",
				slog.String("topic", m.Topic),
				slog.String("key", string(m.Key)), slog.Any("error", err))
		case err != nil || retryKeys[key]:
			retryKeys[key] = true
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
	// A repeated report has the same ID.
	id := sha256.Sum256([]byte(a.DeliveryID + "\x00" + a.Round + "\x00" + strconv.Itoa(a.Attempt)))
	return kafka.Message{
		Topic: event.TopicWebhook, Key: []byte(a.EndpointID), Value: value,
		Headers: bus.SetTrace(ctx, bus.SetEvent(nil, bus.Event{
			ID: hex.EncodeToString(id[:16]), Type: event.TypeWebhookAttempt, Source: "/muster/webhook-sender",
			Subject: a.DeliveryID, Time: a.At, ContentType: "application/json",
		})),
	}, nil
}

func (w *partitionWorker) stateMessage(s *delivery.State) (kafka.Message, error) {
	m := kafka.Message{Topic: event.TopicWebhookState, Key: []byte(s.Key), WriterData: w.partition.Number}
	var state any
	kind := event.TypeWebhookDelivery
	switch {
	case s.Delivery != nil:
		state = s.Delivery
	case s.Endpoint != nil:
		state, kind = s.Endpoint, event.TypeWebhookEndpoint
	case s.LowWatermark != nil:
		state, kind = s.LowWatermark, event.TypeWebhookTaken
	default:
		return m, nil
	}
	var err error
	if m.Value, err = json.Marshal(state); err != nil {
		return m, fmt.Errorf("encode webhook state: %w", err)
	}
	m.Headers = bus.SetEvent(nil,
		bus.Event{ID: s.Key, Type: kind, Source: "/muster/webhook-sender", ContentType: "application/json"})
	return m, nil
}

// waitForTaskMessage returns the task of a delivery. It retries until ctx ends: failing the whole
// state change for one unreadable body would repeat other deliveries. It returns [bus.ErrNoMessage]
// if the task is no longer in the log.
func (w *partitionWorker) waitForTaskMessage(ctx context.Context, s *event.DeliveryState) (*kafka.Message, error) {
	for backoff := 100 * time.Millisecond; ; backoff = min(2*backoff, 5*time.Second) {
		m, err := w.taskMessage(ctx, s.EndpointID, s.DeliveryID, s.Offset)
		if err == nil || errors.Is(err, bus.ErrNoMessage) {
			return m, err
		}
		w.service.logger.LogAttrs(ctx, slog.LevelWarn, "webhook: dead-letter task read failed, will retry",
			slog.Int("partition", w.partition.Number), slog.Any("error", err))
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// deadLetterMessage returns the original task message with dead-letter headers. The body is omitted
// if it may no longer be sent (see blockReason): it must not be retained for another 30 days.
func (w *partitionWorker) deadLetterMessage(ctx context.Context, d *delivery.DeadLetter) (kafka.Message, error) {
	withoutBody := &kafka.Message{Key: []byte(d.State.EndpointID)} // still identifies the endpoint
	task := d.Task
	switch {
	case d.Code() == codeErased || d.Code() == codeInactive:
		task = withoutBody
	case task == nil:
		var err error
		if task, err = w.waitForTaskMessage(ctx, &d.State); errors.Is(err, bus.ErrNoMessage) {
			task = withoutBody
		} else if err != nil {
			return kafka.Message{}, fmt.Errorf("read dead-letter task: %w", err)
		}
	}
	if t := cachedTask(task); t != nil && w.service.blockReason(t) != "" {
		task = withoutBody
	}
	out := kafka.Message{Topic: DeadLetterTopic().Name, Key: task.Key, Value: task.Value, Headers: task.Headers}
	header := event.DeadLetter{
		Service: serviceName, Handler: handlerName, Topic: event.TopicWebhookTask, Partition: w.partition.Number,
		Offset: d.State.Offset, Code: d.Code(), Reason: d.Reason(), Attempts: d.State.Attempts,
		FirstFailure: d.State.FirstFailure, LastFailure: d.State.UpdatedAt,
	}
	header.Set(func(name, value string) {
		out.Headers = append(out.Headers[:len(out.Headers):len(out.Headers)],
			kafka.Header{Key: name, Value: []byte(value)})
	})
	return out, nil
}
