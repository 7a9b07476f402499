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
)

// source is the CloudEvents source of results.
const source = "/muster/discovery-worker"

// handle works on one task. The message is acknowledged when its result is
// published: a worker that dies before leaves the task to the next one.
func (s *Service) handle(msg *message.Message) ([]*message.Message, error) {
	var task event.DiscoveryTask
	if err := readTask(msg.Payload, &task); err != nil {
		s.metrics.tasks.WithLabelValues("malformed").Inc()
		return nil, err
	}
	now := s.deps.Now()
	if now.Sub(task.Deadline) > event.DiscoveryTaskAge {
		s.metrics.tasks.WithLabelValues("expired").Inc()
		return nil, nil
	}
	budget := task.Deadline.Sub(now) - s.cfg.Margin
	if budget <= 0 { // the caller has left; the next one shall find a result
		// After a restart tasks come again that were finished before an earlier one.
		if at, err := s.reader.Discovered(msg.Context(), task.Input); err == nil && !at.Before(task.RequestedAt) {
			s.metrics.tasks.WithLabelValues("repeated").Inc()
			return nil, nil
		}
		budget = event.DiscoveryBudget
	}
	s.metrics.inHand.Inc()
	d, err := s.find(msg.Context(), task, budget)
	s.metrics.inHand.Dec()
	if err != nil {
		return nil, err
	}
	outcome := "nothing"
	switch {
	case !d.Complete():
		outcome = "degraded"
	case d.Found():
		outcome = "found"
	}
	s.metrics.tasks.WithLabelValues(outcome).Inc()
	s.metrics.seconds.Observe(s.deps.Now().Sub(now).Seconds())
	value, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write result: %w", err)
	}
	out := message.NewMessage(task.RequestID, value)
	out.SetContext(msg.Context())
	bus.SetMessageEvent(out, bus.Event{
		ID: task.RequestID, Type: event.TypeDiscovery, Source: source, Subject: task.RequestID, Time: d.At, ContentType: "application/json",
	})
	if key := msg.Metadata[bus.MetadataKey]; key != "" {
		out.Metadata[bus.MetadataKey] = key
	}
	return []*message.Message{out}, nil
}

// find works on an account once, however many tasks ask for it at the same time.
// The work goes on when the task that began it is given back, until Run ends. The
// error is the end of ctx.
func (s *Service) find(ctx context.Context, task event.DiscoveryTask, budget time.Duration) (*event.Discovery, error) {
	key := task.Input.Platform + ":" + identity.UsernameKey(task.Input.Username)
	result := s.working.DoChan(key, func() (done any, err error) {
		// singleflight runs this in a goroutine of its own: nobody else could recover.
		defer func() {
			if p := recover(); p != nil {
				s.deps.Logger.ErrorContext(ctx, "discovery panicked", slog.String("request_id", task.RequestID), slog.String("stack", string(debug.Stack())))
				done = &event.Discovery{
					Input: task.Input, Socials: []event.Social{{Account: task.Input, Confidence: 1}}, At: s.deps.Now().UTC(),
					Degraded: []string{event.StageInput, event.StageKnownLinks, event.StageWebSearch},
				}
			}
		}()
		going, ended := s.detached.Begin(ctx)
		defer ended()
		working, cancel := context.WithTimeout(going, budget)
		defer cancel()
		if _, erased := s.deps.Suppressed.Account(task.Input.Platform, identity.UsernameKey(task.Input.Username)); erased {
			// Nothing is known of them, and who names them is not asked.
			return &event.Discovery{
				Input: task.Input, Socials: []event.Social{{Account: task.Input, Confidence: 1}}, At: s.deps.Now().UTC(),
			}, nil
		}
		s.metrics.worked.Inc()
		return s.finder.Find(working, task.Input), nil
	})
	select {
	case r := <-result:
		d := *r.Val.(*event.Discovery) // made above
		d.RequestID = task.RequestID
		return &d, r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("discovery: %w", context.Cause(ctx))
	}
}

// Find makes one discovery without a task, within the time that ctx leaves. It
// needs no Run, and notes nothing in the metrics of tasks.
func (s *Service) Find(ctx context.Context, input event.Account) *event.Discovery {
	return s.finder.Find(ctx, input)
}

type metrics struct {
	tasks   *prometheus.CounterVec
	seconds prometheus.Histogram
	worked  prometheus.Counter
	inHand  prometheus.Gauge
	contextMetrics
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_discovery_tasks_total",
			Help: "Discovery tasks by what came of them (found, nothing, degraded, expired, repeated, malformed).",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_discovery_seconds", Help: "Time of the work on one discovery task.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		worked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "muster_discovery_worked_total", Help: "Discoveries that were worked on: equal tasks at the same time share one.",
		}),
		inHand: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "muster_discovery_tasks_in_hand", Help: "Discovery tasks that are worked on, or wait for an equal one.",
		}),
		contextMetrics: newContextMetrics(),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.tasks, m.seconds, m.worked, m.inHand, m.contexts, m.contextSeconds} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
