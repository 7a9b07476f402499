package status

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metricLost is what the batch consumer (platform/bus) counts of messages that retention took.
const metricLost = "muster_bus_lost_records_total"

// consumed is a topic of a consumer group.
type consumed struct{ group, topic string }

// observeLost reads how many messages were lost, as the consumers of the process at an admin
// address counted since it was started.
func observeLost(ctx context.Context, adminURL string) (map[consumed]int64, error) {
	lost := map[consumed]int64{}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask the admin address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the admin address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s/metrics: status %s", adminURL, resp.Status)
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
