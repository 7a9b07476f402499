package page

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/service"
	"muster/projector"
	"muster/projector/erasure"
	"muster/schemas/event"
)

// process has the metrics of a process with all services.
type process struct {
	registry          *prometheus.Registry
	handled, requests *prometheus.CounterVec
	lag               *prometheus.GaugeVec
	seconds           *prometheus.HistogramVec
}

func newProcess() process {
	p := process{
		registry: prometheus.NewRegistry(),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_consumer_records_total"},
			[]string{"group", "topic"}),
		lag: prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: "muster_consumer_lag_records"}, []string{"group", "topic"},
		),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_http_requests_total"},
			[]string{"status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_http_request_duration_seconds", Buckets: []float64{0.01, 0.1, 1},
		}, []string{"route"}),
	}
	p.registry.MustRegister(p.handled, p.lag, p.requests, p.seconds)
	return p
}

func TestHistory_PointsAreRatesOfTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newProcess()
		m.handled.WithLabelValues(projector.Group, "a").Add(1000)
		m.requests.WithLabelValues("200").Add(1000)
		m.seconds.WithLabelValues("/a").Observe(0.5)
		p := New(Source{
			Gatherer: m.registry, Now: time.Now, DataDir: t.TempDir(),
			Readiness: func(context.Context) service.Readiness { return service.Readiness{} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		require.Empty(t, p.history.read().Points, "a single sample has no interval")

		m.handled.WithLabelValues(projector.Group, "a").Add(200)
		m.handled.WithLabelValues(projector.Group, "b").Add(100) // appears during the interval
		m.handled.WithLabelValues("other", "c").Add(77)
		m.lag.WithLabelValues(projector.Group, "a").Set(150)
		m.lag.WithLabelValues("other", "c").Set(7)
		m.requests.WithLabelValues("200").Add(30)
		m.requests.WithLabelValues("503").Add(15)
		for range 98 {
			m.seconds.WithLabelValues("/a").Observe(0.05)
		}
		m.seconds.WithLabelValues("/b").Observe(0.5)
		m.seconds.WithLabelValues("/b").Observe(30)
		// The clock is synctest's: no real time passes.
		time.Sleep(sampleInterval)
		synctest.Wait()
		got := p.history.read()
		require.InDelta(t, 15, got.IntervalSeconds, 0)
		require.Len(t, got.Points, 1)
		point := got.Points[0]
		require.Equal(t, time.Now(), point.At)
		require.InDelta(t, 20, *point.Projected, 1e-9)
		require.InDelta(t, 30, *point.In, 1e-9, "projected and waiting records")
		require.InDelta(t, 157, *point.Lag, 1e-9)
		require.InDelta(t, 3, *point.Requests, 1e-9)
		require.InDelta(t, 1, *point.Errors, 1e-9)
		require.InDelta(t, 0.01+0.09*50/98, *point.P50, 1e-9)
		require.InDelta(t, 1, *point.P99, 1e-9)
		require.Positive(t, *point.DiskFree)

		m.lag.Reset()
		// The clock is synctest's: no real time passes.
		time.Sleep(sampleInterval)
		synctest.Wait()
		point = p.history.read().Points[1]
		require.Zero(t, *point.In, "a counter that shrinks has no negative rate")
		require.Zero(t, *point.Requests)
		require.Nil(t, point.P50, "no request")

		// The clock is synctest's: no real time passes.
		time.Sleep(time.Hour)
		synctest.Wait()
		points := p.history.read().Points
		require.Len(t, points, maxPoints, "an hour")
		require.Equal(t, time.Now(), points[maxPoints-1].At)
		require.Equal(t, time.Now().Add(sampleInterval-time.Hour), points[0].At)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestHistory_OmitsWhatTheProcessDoesNotMeasure(t *testing.T) {
	registry := prometheus.NewRegistry()
	published := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "muster_ingest_records_total"},
		[]string{"kind", "outcome"})
	registry.MustRegister(published)
	now := time.Unix(1000, 0)
	p := New(Source{Gatherer: registry, Now: func() time.Time { return now }, DataDir: t.TempDir() + "/missing"})
	before := p.sample()
	now = now.Add(10 * time.Second)
	published.WithLabelValues("network-person", "published").Add(50)
	published.WithLabelValues("network-person", "read").Add(70)
	five := 5.0
	require.Equal(t, Point{At: now, In: &five}, p.sample().since(before))
}

func TestQuantile_InterpolatesWithinTheBucket(t *testing.T) {
	inf := math.Inf(1)
	buckets := map[float64]float64{0.1: 0, 0.2: 10, 0.4: 10, inf: 20}
	for q, want := range map[float64]float64{0.25: 0.15, 0.5: 0.2, 0.9: 0.4} {
		require.InDelta(t, want, *quantile(buckets, q), 1e-9, "%v", q)
	}
	require.Nil(t, quantile(map[float64]float64{0.1: 0, inf: 0}, 0.5))
	require.Nil(t, quantile(nil, 0.5))
}

func TestStates_SinceIsTheTimeOfTheLastChange(t *testing.T) {
	var s states
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	ready := service.CheckResult{Name: "b", Ready: true}
	s.observe([]service.CheckResult{ready, {Name: "a", Reason: "no brokers"}}, at(1))
	require.Equal(t, []Service{
		{CheckResult: service.CheckResult{Name: "a", Reason: "no leader"}, Since: at(1)},
		{CheckResult: ready, Since: at(1)},
	}, s.observe([]service.CheckResult{ready, {Name: "a", Reason: "no leader"}}, at(2)), "sorted; another reason")
	got := s.observe([]service.CheckResult{{Name: "a", Ready: true}, {Name: "b", Reason: "gone"}}, at(3))
	require.Equal(t, []time.Time{at(3), at(3)}, []time.Time{got[0].Since, got[1].Since})
}

func TestErasures_AreCountedByStateAndOverdueAfterTheDeadline(t *testing.T) {
	due := time.Unix(1000, 0)
	request := func(state erasure.State, age time.Duration) erasure.Status {
		return erasure.Status{Erasure: event.Erasure{At: due.Add(-age)}, State: state}
	}
	require.Equal(t, Erasures{Requested: 2, InForce: 2, Deleted: 1, Withdrawn: 1, Overdue: 2},
		countErasures([]erasure.Status{
			request(erasure.Requested, 1), request(erasure.Requested, -1),
			request(erasure.Suppressed, 1), request(erasure.Suppressed, 0),
			request(erasure.Deleted, 1), request(erasure.Withdrawn, 1),
		}, due))
}

func TestScanned_IsReadAgainWhenTheTopicsChangedButNotTooOften(t *testing.T) {
	var s scanned[int64]
	var reads atomic.Int64
	at := time.Unix(1000, 0)
	update := func(after time.Duration, end int64) int64 {
		require.NoError(t, s.update(at.Add(after), ends(end), func() (int64, error) { return reads.Add(1), nil }))
		return s.value
	}
	require.EqualValues(t, 1, update(0, 5))
	require.EqualValues(t, 1, update(time.Second, 6), "too soon")
	require.EqualValues(t, 2, update(heavy, 6))
	require.EqualValues(t, 2, update(time.Hour, 6), "unchanged")
	require.ErrorIs(t, s.update(at.Add(2*time.Hour), ends(7), func() (int64, error) { return 0, context.Canceled }),
		context.Canceled)
	require.EqualValues(t, 3, update(2*time.Hour, 7), "after a failure")
}

func ends(end int64) []bus.PartitionOffsets { return []bus.PartitionOffsets{{Topic: "t", End: end}} }
