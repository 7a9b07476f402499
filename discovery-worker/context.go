package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"muster/discovery-worker/internal/extract"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/model"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/profile"
	"muster/platform/bus"
	"muster/schemas/event"
)

// ContextGroup is the consumer group of context tasks.
const ContextGroup = "muster.discovery-worker.contexts"

// contextHandler is the name of the context task handler, in Watermill and in dead letters.
const contextHandler = "context"

const (
	// contextTimeout limits one attempt at a context task.
	contextTimeout = 3 * time.Minute
	// contextRetryTimeout is the age at which a failing task gets a failure as its outcome.
	contextRetryTimeout = 15 * time.Minute
)

// handleContext handles one context task. It acknowledges the message when the outcome is
// published. If the call has ended, it publishes the webhook delivery first.
func (s *Service) handleContext(msg *message.Message, publisher message.Publisher) error {
	var task event.ContextTask
	if err := decodeTask(msg.Payload, &task); err != nil {
		s.metrics.contexts.WithLabelValues("malformed").Inc()
		return err
	}
	if handled, err := s.isHandled(msg.Context(), &task.Call); handled || err != nil {
		return err
	}
	start := s.deps.Now()
	out := &event.Context{Call: task.Call, Status: event.ContextComplete}
	built, err := s.build(msg.Context(), &task)
	switch {
	case err == nil:
		out.Profile, out.Empty, out.Degraded = built.JSON, built.Empty, built.Degraded
		out.Identities, out.Versions = built.Identities, built.Versions
	case msg.Context().Err() != nil:
		return fmt.Errorf("context task: %w", context.Cause(msg.Context()))
	default:
		failure := contextFailure(err, s.deps.Now().Sub(task.Call.RequestedAt))
		if failure == nil {
			s.metrics.contexts.WithLabelValues("retried").Inc()
			return fmt.Errorf("context task %s failed, will retry: %w", task.Call.RequestID, err)
		}
		s.deps.Logger.ErrorContext(msg.Context(), "context: task failed",
			slog.String("request_id", task.Call.RequestID), slog.Any("error", err))
		out.Status, out.Failure = event.ContextFailed, failure
	}
	out.At = s.deps.Now().UTC()
	if isLate(out) {
		// The previous owner of the task may have answered in time, just before it stopped.
		if handled, err := s.isHandled(msg.Context(), &task.Call); handled || err != nil {
			return err
		}
	}
	err = s.finish(msg.Context(), publisher, out)
	if bus.IsPermanentWriteError(err) && out.Status == event.ContextComplete {
		// A retry would be rejected again, at the full cost of the model.
		s.deps.Logger.ErrorContext(msg.Context(), "context: publishing the profile failed",
			slog.String("request_id", task.Call.RequestID), slog.Any("error", err))
		out = &event.Context{Call: task.Call, Status: event.ContextFailed, At: out.At, Failure: internalFailure(),
			Delivered: out.Delivered}
		err = s.finish(msg.Context(), publisher, out)
	}
	if err != nil {
		return fmt.Errorf("context task %s failed, will retry: %w", task.Call.RequestID, err)
	}
	s.metrics.contexts.WithLabelValues(contextOutcome(out)).Inc()
	s.metrics.contextSeconds.Observe(s.deps.Now().Sub(start).Seconds())
	return nil
}

// isHandled reports whether a task needs no work: it has an outcome, or is older than
// event.ContextRetention, when outcomes can no longer be fetched. Tasks are redelivered after a restart
// or a lost group offset; the first outcome counts. It returns an error if the store is
// unavailable, so that a call is not answered twice.
func (s *Service) isHandled(ctx context.Context, call *event.ContextCall) (bool, error) {
	outcome := "expired"
	if s.deps.Now().Sub(call.RequestedAt) <= event.ContextRetention {
		ended, err := s.reader.HasOutcome(ctx, call.RequestID)
		if err != nil {
			s.metrics.contexts.WithLabelValues("retried").Inc()
			return false, fmt.Errorf("context task %s failed, will retry: %w", call.RequestID, err)
		}
		if !ended {
			return false, nil
		}
		outcome = "duplicate"
	}
	s.metrics.contexts.WithLabelValues(outcome).Inc()
	return true, nil
}

func contextOutcome(c *event.Context) string {
	switch {
	case c.Status == event.ContextFailed:
		return "failed"
	case len(c.Degraded) > 0:
		return "degraded"
	case c.Empty:
		return "empty"
	}
	return "complete"
}

// panicError is a panic in building a profile. It must not be retried.
type panicError struct{ typeName, stack string }

func (e *panicError) Error() string { return "panic: " + e.typeName }

// build builds the profile. It returns a [*panicError] if that panics.
func (s *Service) build(ctx context.Context, task *event.ContextTask) (r *profile.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, contextTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, &panicError{fmt.Sprintf("%T", p), string(debug.Stack())}
			s.deps.Logger.ErrorContext(ctx, "context: panic while building the profile",
				slog.String("request_id", task.Call.RequestID), slog.String("stack", string(debug.Stack())))
		}
	}()
	return s.profiles.Build(ctx, task)
}

// contextFailure returns the failure to report to the caller, or nil if the task is to be retried.
func contextFailure(err error, age time.Duration) *event.ContextFailure {
	var p *panicError
	switch {
	case errors.As(err, &p), errors.Is(err, profile.ErrInput):
		return internalFailure()
	case age > contextRetryTimeout:
		return &event.ContextFailure{
			Status: http.StatusServiceUnavailable,
			Detail: "the data store timed out and nothing was charged; send the request again",
		}
	}
	return nil
}

func internalFailure() *event.ContextFailure {
	return &event.ContextFailure{
		Status: http.StatusInternalServerError,
		Detail: "building the profile failed and nothing was charged; report the request_id to the operator of " +
			"this service",
	}
}

// isLate reports whether an outcome must be delivered by webhook, because its call has ended.
func isLate(c *event.Context) bool {
	return c.Call.WebhookURL != "" && !c.At.Before(c.Call.RespondBy)
}

// finish delivers an outcome if it is late, and publishes it.
func (s *Service) finish(ctx context.Context, publisher message.Publisher, c *event.Context) error {
	if err := s.deliver(ctx, publisher, c); err != nil {
		return err
	}
	return s.publishOutcome(ctx, publisher, c)
}

// deliver publishes the webhook task of a late outcome.
func (s *Service) deliver(ctx context.Context, publisher message.Publisher, c *event.Context) error {
	if !isLate(c) || c.Delivered {
		return nil
	}
	task, err := c.Delivery(c.At)
	if err != nil {
		return err
	}
	key, id, value, err := task.Message()
	// query-api has validated the address.
	if err != nil {
		s.deps.Logger.ErrorContext(ctx, "context: webhook delivery failed",
			slog.String("request_id", c.Call.RequestID), slog.Any("error", err))
		return nil
	}
	if err := publish(ctx, publisher, event.TopicWebhookTask, key, value,
		bus.Event{ID: id, Type: event.TypeWebhookTask, Subject: task.DeliveryID, Time: task.CreatedAt}); err != nil {
		return fmt.Errorf("publish delivery: %w", err)
	}
	c.Delivered = true
	return nil
}

func (s *Service) publishOutcome(ctx context.Context, publisher message.Publisher, c *event.Context) error {
	value, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write outcome: %w", err)
	}
	id := c.Call.RequestID
	if err := publish(ctx, publisher, event.TopicContext, id, value,
		bus.Event{ID: id, Type: event.TypeContext, Subject: id, Time: c.At}); err != nil {
		return fmt.Errorf("publish outcome: %w", err)
	}
	return nil
}

func publish(ctx context.Context, publisher message.Publisher, topic, key string, value []byte, e bus.Event) error {
	m := message.NewMessage(uuid.NewString(), value)
	m.SetContext(ctx)
	e.Source, e.ContentType = source, "application/json"
	bus.SetMessageEvent(m, e)
	m.Metadata[bus.MetadataKey] = key
	return publisher.Publish(topic, m)
}

// addContextHandler adds the handler of context tasks to the router.
func (s *Service) addContextHandler(router *message.Router, publisher message.Publisher) error {
	subscriber, err := bus.NewSubscriber(bus.SubscriberConfig{
		Config: s.cfg.Bus, Group: ContextGroup, MaxInFlight: s.cfg.MaxInFlight, NackDelay: time.Second,
		Timing: s.cfg.Timing, Logger: s.deps.Logger,
	})
	if err != nil {
		return err
	}
	router.AddConsumerHandler(contextHandler, event.TopicContextTask, subscriber, func(msg *message.Message) error {
		return s.handleContext(msg, publisher)
	}).AddMiddleware(deadLetters(publisher, event.DeadLetterTopic(serviceName, contextHandler).Name, contextHandler,
		s.deps.Now), middleware.Recoverer)
	return nil
}

func newProfileBuilder(languageModel *model.Client, deps Deps, reader *people.Reader,
	found *finder.Finder) (*profile.Builder, error) {
	extractor, err := extract.New(extract.Options{Platforms: deps.Platforms})
	if err != nil {
		return nil, err
	}
	cfg := profile.Config{Extractor: extractor, Reader: reader, Finder: found, Logger: deps.Logger,
		Erased: func(raw []byte) bool {
			_, erased := deps.Suppressed.FindInDocument(deps.Platforms, raw)
			return erased
		}}
	if languageModel != nil {
		cfg.Model = languageModel
	}
	return profile.New(cfg), nil
}

// contextMetrics are the metrics of context tasks.
type contextMetrics struct {
	contexts       *prometheus.CounterVec
	contextSeconds prometheus.Histogram
}

func newContextMetrics() contextMetrics {
	return contextMetrics{
		contexts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_context_tasks_total",
			Help: "Context tasks by outcome (complete, empty, degraded, failed, retried, duplicate, " +
				"expired, malformed).",
		}, []string{"outcome"}),
		contextSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_context_duration_seconds", Help: "Processing time of a context task, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}),
	}
}
