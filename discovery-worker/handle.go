package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// source is the CloudEvents source of results.
const source = "/muster/discovery-worker"

// handleDiscovery handles one discovery task. It acknowledges the message when the result is
// published.
func (s *Service) handleDiscovery(msg *message.Message) ([]*message.Message, error) {
	var task event.DiscoveryTask
	if err := decodeTask(msg.Payload, &task); err != nil {
		s.metrics.tasks.WithLabelValues("malformed").Inc()
		return nil, err
	}
	now := s.deps.Now()
	if now.Sub(task.Deadline) > event.DiscoveryTaskAge {
		s.metrics.tasks.WithLabelValues("expired").Inc()
		return nil, nil
	}
	budget := task.Deadline.Sub(now) - s.cfg.Margin
	if task.Query != nil {
		return s.handleIdentify(msg, task, budget)
	}
	// The caller has gone; the next one will find a result.
	if budget <= 0 {
		// Tasks are redelivered after a restart if an earlier one was unfinished.
		if at, err := s.reader.LastDiscovered(msg.Context(), task.Input); err == nil && !at.Before(task.RequestedAt) {
			s.metrics.tasks.WithLabelValues("duplicate").Inc()
			return nil, nil
		}
		budget = event.DiscoveryBudget
	}
	s.metrics.inFlight.Inc()
	d, err := s.discover(msg.Context(), task, budget)
	s.metrics.inFlight.Dec()
	if err != nil {
		return nil, err
	}
	outcome := "no_match"
	switch {
	case !d.Complete():
		outcome = "degraded"
	case d.Found():
		outcome = "found"
	}
	s.metrics.tasks.WithLabelValues(outcome).Inc()
	s.metrics.seconds.Observe(s.deps.Now().Sub(now).Seconds())
	return result(msg, task.RequestID, event.TypeDiscovery, d.At, d)
}

// result returns the message with the result of a task.
func result(msg *message.Message, requestID, eventType string, at time.Time, r any) ([]*message.Message, error) {
	value, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write result: %w", err)
	}
	out := message.NewMessage(requestID, value)
	out.SetContext(msg.Context())
	bus.SetMessageEvent(out, bus.Event{
		ID: requestID, Type: eventType, Source: source, Subject: requestID, Time: at, ContentType: "application/json",
	})
	if key := msg.Metadata[bus.MetadataKey]; key != "" {
		out.Metadata[bus.MetadataKey] = key
	}
	return []*message.Message{out}, nil
}

// handleIdentify handles a task with a query. Its result is for its callers only, so it is not computed after they have
// gone.
func (s *Service) handleIdentify(
	msg *message.Message, task event.DiscoveryTask, budget time.Duration,
) ([]*message.Message, error) {
	if budget <= 0 {
		s.metrics.tasks.WithLabelValues("expired").Inc()
		return nil, nil
	}
	began := s.deps.Now()
	s.metrics.inFlight.Inc()
	d, err := s.identify(msg.Context(), task, budget)
	s.metrics.inFlight.Dec()
	if err != nil {
		return nil, err
	}
	outcome := "no_match"
	switch {
	case !d.Complete():
		outcome = "degraded"
	case len(d.Matches) > 0:
		outcome = "found"
	}
	s.metrics.tasks.WithLabelValues(outcome).Inc()
	s.metrics.seconds.Observe(s.deps.Now().Sub(began).Seconds())
	return result(msg, task.RequestID, event.TypeIdentification, d.At, d)
}

// identify runs an identification, shared by concurrent tasks with the same query. It returns an error only if ctx
// ends.
func (s *Service) identify(
	ctx context.Context, task event.DiscoveryTask, budget time.Duration,
) (*event.Identification, error) {
	key, err := task.Query.Key()
	if err != nil {
		return nil, err
	}
	// An erased person is not found, and providers are not called.
	if h, erased := s.deps.Suppressed.Subject(suppress.Subject{
		Platform: identity.Network, Emails: given(task.Query.Email), Phones: given(task.Query.Phone),
	}); erased && s.deps.Suppressed.InAllScopes(h) {
		return &event.Identification{RequestID: task.RequestID, At: s.deps.Now().UTC()}, nil
	}
	found, err := shared(ctx, s, task.RequestID, key, budget, func(ctx context.Context) *event.Identification {
		return s.finder.Identify(ctx, *task.Query)
	}, func() *event.Identification {
		return &event.Identification{At: s.deps.Now().UTC(), Degraded: missingStages()}
	})
	if err != nil {
		return nil, err
	}
	d := *found
	d.RequestID = task.RequestID
	return &d, nil
}

// given returns a list of a value, without an empty one.
func given(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// missingStages are the stages of a result without any.
func missingStages() []string {
	return []string{event.StageInput, event.StageKnownLinks, event.StageWebSearch}
}

// shared runs work, shared by concurrent calls with the same key. It continues if the first task is returned, until Run
// ends. If work panics, the result is failed(). It returns an error only if ctx ends.
func shared[T any](
	ctx context.Context, s *Service, requestID, key string, budget time.Duration,
	work func(context.Context) *T, failed func() *T,
) (*T, error) {
	results := s.inFlight.DoChan(key, func() (result any, err error) {
		// singleflight runs this in its own goroutine, where no caller can recover.
		defer func() {
			if p := recover(); p != nil {
				s.deps.Logger.ErrorContext(ctx, "discovery: panic", slog.String("request_id", requestID),
					slog.String("stack", string(debug.Stack())))
				result = failed()
			}
		}()
		backgroundCtx, done := s.background.Start(ctx)
		defer done()
		workCtx, cancel := context.WithTimeout(backgroundCtx, budget)
		defer cancel()
		s.metrics.executed.Inc()
		return work(workCtx), nil
	})
	select {
	case r := <-results:
		return r.Val.(*T), r.Err // set above
	case <-ctx.Done():
		return nil, fmt.Errorf("discovery: %w", context.Cause(ctx))
	}
}

// discover runs a discovery, shared by concurrent tasks with the same account. It continues if the
// first task is returned, until Run ends. It returns an error only if ctx ends.
func (s *Service) discover(ctx context.Context, task event.DiscoveryTask,
	budget time.Duration) (*event.Discovery, error) {
	input := event.Discovery{
		Input: task.Input, Socials: []event.Social{{Account: task.Input, Confidence: 1}}, At: s.deps.Now().UTC(),
	}
	key := identity.NormalizeUsername(task.Input.Username)
	// An erased person has no other profiles, and providers are not called.
	if _, erased := s.deps.Suppressed.Account(task.Input.Platform, key); erased {
		input.RequestID = task.RequestID
		return &input, nil
	}
	find := func(ctx context.Context) *event.Discovery { return s.finder.Find(ctx, task.Input) }
	found, err := shared(ctx, s, task.RequestID, task.Input.Platform+":"+key, budget, find, func() *event.Discovery {
		input.Degraded = missingStages()
		return &input
	})
	if err != nil {
		return nil, err
	}
	d := *found
	d.RequestID = task.RequestID
	return &d, nil
}

// Find runs one discovery without a task, until ctx ends. It needs no Run and does not count in the
// task metrics.
func (s *Service) Find(ctx context.Context, input event.Account) *event.Discovery {
	return s.finder.Find(ctx, input)
}

type metrics struct {
	tasks    *prometheus.CounterVec
	seconds  prometheus.Histogram
	executed prometheus.Counter
	inFlight prometheus.Gauge
	contextMetrics
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_discovery_tasks_total",
			Help: "Discovery tasks by outcome (found, no_match, degraded, expired, duplicate, malformed).",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_discovery_duration_seconds", Help: "Processing time of a discovery task, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		executed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muster_discovery_executions_total",
			Help: "Discoveries that ran; concurrent tasks for the same account share one.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muster_discovery_tasks_in_flight",
			Help: "Discovery tasks in progress, including those that wait for a shared discovery.",
		}),
		contextMetrics: newContextMetrics(),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.tasks, m.seconds, m.executed, m.inFlight, m.contexts, m.contextSeconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
