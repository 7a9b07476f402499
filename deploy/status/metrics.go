package status

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics of the batch consumer (platform/bus) that a status shows.
const (
	metricBehind = "muster_bus_lag_seconds"
	metricLost   = "muster_bus_lost_records_total"
)

// observed is what the projector of an instance says of itself.
type observed struct {
	behind map[string]float64 // by topic, in seconds; of its worst partition
	lost   map[string]int64   // by topic, since it was started
}

// observe reads the metrics at an admin address. One of another service has none
// of the projector's, and then nothing is known.
func observe(ctx context.Context, adminURL, group string) (observed, error) {
	o := observed{behind: map[string]float64{}, lost: map[string]int64{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/metrics", nil)
	if err != nil {
		return o, fmt.Errorf("ask the admin address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return o, fmt.Errorf("ask the admin address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return o, fmt.Errorf("ask %s/metrics: status %s", adminURL, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, resp.Body, 64<<20))
	if err != nil {
		return o, fmt.Errorf("read %s/metrics: %w", adminURL, err)
	}
	each := func(name string, visit func(topic string, m *dto.Metric)) {
		for _, m := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["group"] == group {
				visit(labels["topic"], m)
			}
		}
	}
	each(metricBehind, func(topic string, m *dto.Metric) {
		o.behind[topic] = max(o.behind[topic], m.GetGauge().GetValue())
	})
	each(metricLost, func(topic string, m *dto.Metric) { o.lost[topic] += int64(m.GetCounter().GetValue()) })
	return o, nil
}
