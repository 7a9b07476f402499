package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"muster/projector"
)

// batches are the projector's totals, from its metrics.
type batches struct {
	records, batches         float64
	renderSeconds, inSeconds float64 // all batches together
}

// batches reads the totals of the platform.
func (b *bench) batches(ctx context.Context) (out batches, err error) {
	//nolint:gosec // the platform's own URL
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.in.AdminURL+"/metrics", nil)
	if err != nil {
		return out, fmt.Errorf("read the metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // the platform's own URL
	if err != nil {
		return out, fmt.Errorf("read the metrics: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("read the metrics: status %s", resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return out, fmt.Errorf("read the metrics: %w", err)
	}
	ours := func(m *dto.Metric) bool {
		for _, l := range m.GetLabel() {
			if l.GetName() == "group" && l.GetValue() != projector.Group {
				return false
			}
		}
		return true
	}
	for name, target := range map[string]*float64{
		"muster_consumer_records_total": &out.records, "muster_consumer_batches_total": &out.batches,
		"muster_projector_render_duration_seconds": &out.renderSeconds, "muster_projector_insert_duration_seconds": &out.inSeconds,
	} {
		for _, m := range families[name].GetMetric() {
			if ours(m) {
				*target += m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
	}
	return out, nil
}

// since describes the work after an earlier reading.
func (b batches) since(before batches) string {
	n := b.batches - before.batches
	if n == 0 {
		return "no batch was projected"
	}
	return fmt.Sprintf("%.0f batches of %.0f records; of each, decoded and rendered in %.0f ms, inserted in %.0f ms", n,
		(b.records-before.records)/n,
		1000*(b.renderSeconds-before.renderSeconds)/n, 1000*(b.inSeconds-before.inSeconds)/n)
}
