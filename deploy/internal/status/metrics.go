package status

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metricLost is the counter of messages that retention removed before the batch consumer (platform/bus) read them.
const metricLost = "muster_consumer_records_lost_total"

// consumed is a topic of a consumer group.
type consumed struct{ group, topic string }

// observeLost returns the lost messages that the consumers of the process at an admin address have counted since its
// start.
func observeLost(ctx context.Context, adminURL string) (map[consumed]int64, error) {
	lost := map[consumed]int64{}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the admin address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("connect to the admin address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: status %s", adminURL, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, resp.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read %s/metrics: %w", adminURL, err)
	}
	for _, m := range families[metricLost].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		lost[consumed{labels["group"], labels["topic"]}] += int64(m.GetCounter().GetValue())
	}
	return lost, nil
}
