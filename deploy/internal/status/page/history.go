package page

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sys/unix"

	"muster/platform/service"
	"muster/projector"
)

// sampleInterval and maxPoints make the history an hour long.
const (
	sampleInterval = 15 * time.Second
	maxPoints      = 240
)

// Point describes an interval that ends at At: rates per second, and values at its end. Fields that this process does
// not measure are absent, as are quantiles of intervals without requests.
type Point struct {
	At time.Time `json:"at"`
	// In is the rate of records that arrived: at the projector's topics, or, in a process without projector, published
	// by ingest.
	In        *float64 `json:"records_in,omitzero"`
	Projected *float64 `json:"projected,omitzero"`
	// Lag is the number of messages that the batch consumers of the process have not processed.
	Lag      *float64 `json:"lag,omitzero"`
	Requests *float64 `json:"requests,omitzero"`
	Errors   *float64 `json:"errors,omitzero"` // requests with a 5xx response
	P50      *float64 `json:"p50_seconds,omitzero"`
	P99      *float64 `json:"p99_seconds,omitzero"`
	// DiskFree is the free space of the file system of the data directory, in bytes.
	DiskFree *float64 `json:"disk_free_bytes,omitzero"`
}

// History is the last hour of the process, oldest point first.
type History struct {
	IntervalSeconds float64 `json:"interval_seconds"`
	Points          []Point `json:"points"`
}

// counters are values of metrics at one time. Nil means that the process does not have the metric.
type counters struct {
	at                                    time.Time
	published, handled, lag, projectorLag *float64
	requests, errors, diskFree            *float64
	latency                               map[float64]float64 // cumulative count by upper bound, in seconds
}

func add(to **float64, v float64) {
	if *to == nil {
		*to = new(float64)
	}
	**to += v
}

// take adds a metric.
func (c *counters) take(name string, labels map[string]string, m *dto.Metric) {
	ours := labels["group"] == projector.Group
	switch name {
	case "muster_ingest_records_total":
		if labels["outcome"] == "published" {
			add(&c.published, m.GetCounter().GetValue())
		}
	case "muster_consumer_records_total":
		if ours {
			add(&c.handled, m.GetCounter().GetValue())
		}
	case "muster_consumer_lag_records":
		add(&c.lag, m.GetGauge().GetValue())
		if ours {
			add(&c.projectorLag, m.GetGauge().GetValue())
		}
	case "muster_http_requests_total":
		add(&c.requests, m.GetCounter().GetValue())
		add(&c.errors, 0)
		if strings.HasPrefix(labels["status"], "5") {
			add(&c.errors, m.GetCounter().GetValue())
		}
	case "muster_http_request_duration_seconds":
		if c.latency == nil {
			c.latency = make(map[float64]float64)
		}
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			c.latency[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
		c.latency[math.Inf(1)] += float64(h.GetSampleCount())
	}
}

// since returns the point of the interval between two samples. A counter that appears during the interval was 0 before.
func (c counters) since(before counters) Point {
	seconds := c.at.Sub(before.at).Seconds()
	rate := func(now, then *float64) *float64 {
		if now == nil || seconds <= 0 {
			return nil
		}
		r := *now
		if then != nil {
			r -= *then
		}
		r = max(0, r/seconds)
		return &r
	}
	p := Point{
		At: c.at, Projected: rate(c.handled, before.handled), Lag: c.lag, Requests: rate(c.requests, before.requests),
		Errors: rate(c.errors, before.errors), DiskFree: c.diskFree,
	}
	if arrived, then := c.arrived(), before.arrived(); arrived != nil {
		p.In = rate(arrived, then)
	} else {
		p.In = rate(c.published, before.published)
	}
	during := make(map[float64]float64, len(c.latency))
	for bound, n := range c.latency {
		during[bound] = n - before.latency[bound]
	}
	p.P50, p.P99 = quantile(during, 0.5), quantile(during, 0.99)
	return p
}

// arrived returns the number of records that the projector has processed or that wait for it.
func (c counters) arrived() *float64 {
	if c.handled == nil && c.projectorLag == nil {
		return nil
	}
	var sum float64
	for _, v := range []*float64{c.handled, c.projectorLag} {
		if v != nil {
			sum += *v
		}
	}
	return &sum
}

// quantile returns a quantile of a histogram of cumulative counts by upper bound, interpolated within the bucket as
// PromQL's histogram_quantile does. It returns nil without observations.
func quantile(buckets map[float64]float64, q float64) *float64 {
	total := buckets[math.Inf(1)]
	if total <= 0 {
		return nil
	}
	bounds := make([]float64, 0, len(buckets))
	for bound := range buckets {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	var lower, below float64
	for _, bound := range bounds {
		n := buckets[bound]
		if n >= q*total {
			if math.IsInf(bound, 1) {
				return &lower
			}
			v := lower + (bound-lower)*(q*total-below)/(n-below)
			return &v
		}
		lower, below = bound, n
	}
	return nil
}

// history samples the metrics of the process and keeps the points of the last hour. It is safe for concurrent use.
type history struct {
	mu     sync.Mutex
	last   counters
	points [maxPoints]Point // a ring: point i is at i modulo its length
	count  int
}

// add stores the point since the previous sample. The first sample has none.
func (h *history) add(c counters) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.at.IsZero() {
		h.points[h.count%maxPoints] = c.since(h.last)
		h.count++
	}
	h.last = c
}

func (h *history) read() History {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := History{IntervalSeconds: sampleInterval.Seconds(), Points: []Point{}}
	for i := max(0, h.count-maxPoints); i < h.count; i++ {
		out.Points = append(out.Points, h.points[i%maxPoints])
	}
	return out
}

// sample reads the metrics of this process now.
func (p *Page) sample() counters {
	c := counters{at: p.src.Now()}
	// A broken collector does not hide the metrics of the others; the status names the error.
	families, _ := p.src.Gatherer.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			c.take(family.GetName(), labelsOf(m), m)
		}
	}
	var fs unix.Statfs_t
	if p.src.DataDir != "" && unix.Statfs(p.src.DataDir, &fs) == nil {
		add(&c.diskFree, float64(fs.Bavail)*float64(fs.Bsize))
	}
	return c
}

// Run samples the metrics and the readiness until ctx ends.
func (p *Page) Run(ctx context.Context) error {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		p.history.add(p.sample())
		p.states.observe(p.src.Readiness(ctx).Checks, p.src.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Service is the readiness of a service, and since when it is in that state. The time is that of the first observation,
// every 15 s at least.
type Service struct {
	service.CheckResult
	Since time.Time `json:"since"`
}

// states records since when services are ready or not. It is safe for concurrent use.
type states struct {
	mu    sync.Mutex
	known map[string]Service
}

// observe returns the services by name with the start of their present state.
func (s *states) observe(checks []service.CheckResult, now time.Time) []Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[string]Service)
	}
	var out []Service
	for _, c := range checks {
		one := Service{CheckResult: c, Since: now}
		if before, ok := s.known[c.Name]; ok && before.Ready == c.Ready {
			one.Since = before.Since
		}
		s.known[c.Name] = one
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}
