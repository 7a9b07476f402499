package alerts_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
)

// rules returns the parsed rules of alerts.yaml, with templates.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile("../alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	out := map[string]rulefmt.Rule{}
	for _, r := range groups.Groups[0].Rules {
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		out[r.Alert] = r
	}
	return out
}

// step is the evaluation interval of rules: the default, which compose/prometheus.yaml does not change.
const step = time.Minute

// firing returns the alerts of a rule that fire at a time: their condition has held at every evaluation since For.
func firing(t *testing.T, engine *promql.Engine, series string, rule rulefmt.Rule, at time.Duration) []string {
	t.Helper()
	storage := promqltest.LoadedStorage(t, series)
	defer func() { require.NoError(t, storage.Close()) }()
	held := map[string]int{}
	evaluations := 0
	for ago := time.Duration(0); ago <= time.Duration(rule.For); ago += step {
		evaluations++
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, time.Unix(0, 0).Add(at-ago))
		require.NoError(t, err)
		vector, err := query.Exec(t.Context()).Vector()
		require.NoError(t, err)
		for _, sample := range vector {
			var shown []string
			sample.Metric.Range(func(l labels.Label) {
				if l.Name != model.MetricNameLabel {
					shown = append(shown, l.Value)
				}
			})
			held[strings.Join(shown, " ")]++
		}
		query.Close()
	}
	out := []string{}
	for alert, times := range held {
		if times == evaluations {
			out = append(out, alert)
		}
	}
	slices.Sort(out)
	return out
}

// healthy are the series without which a service counts as absent, for two hours.
const healthy = `
	muster_consumer_lag_seconds{group="muster.projector.records", topic="t", partition="0", instance="p"} 0x480
	muster_http_requests_in_flight{instance="q"} 0x480
	muster_ingest_blank_lines_total{instance="i"} 0x480
	muster_discovery_tasks_in_flight{instance="d"} 0x480
	muster_webhook_attempts_in_flight{instance="w"} 0x480
`

// Samples are 15 s apart, like the scrapes: 40 are ten minutes.
func TestAlerts_FireForTheirConditionOnly(t *testing.T) {
	known := rules(t)
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		Parser: parser.NewParser(parser.Options{}),
	})
	tried := map[string]bool{}
	for _, c := range []struct {
		name, alert, series string
		at                  time.Duration
		want                []string
	}{
		{"a target is down", "MusterServiceDown", `up{job="muster", instance="q"} 1x20 0x20`, 8 * time.Minute,
			[]string{"q muster"}},
		{"down for a minute", "MusterServiceDown", `up{job="muster", instance="q"} 1x20 0x4 1x20`,
			6 * time.Minute, nil},

		{"all are up", "MusterServiceAbsent", healthy, time.Hour, nil},
		{"nothing is scraped", "MusterServiceAbsent", `up{job="other"} 1x480`, time.Hour,
			[]string{"discovery-worker", "ingest", "muster.projector.records projector", "query-api",
				"webhook-sender"}},
		{"the projector has no partitions", "MusterServiceAbsent",
			strings.Replace(healthy, `instance="p"} 0x480`, `instance="p"} 0x40 stale`, 1), 30 * time.Minute,
			[]string{"muster.projector.records projector"}},
		{"other groups have partitions", "MusterServiceAbsent",
			`muster_consumer_lag_seconds{group="muster.projector.usage"} 0x480` +
				strings.Replace(healthy, `instance="p"} 0x480`, `instance="p"} 0x40 stale`, 1), 30 * time.Minute,
			[]string{"muster.projector.records projector"}},

		// A series starts with its first loss, as in the consumers.
		{"the first loss", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} _x80 5x400`,
			25 * time.Minute, []string{"g t"}},
		{"the projector exited after it", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} _x80 5 stale`,
			25 * time.Minute, []string{"g t"}},
		{"Prometheus started later", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} 5x400`, 10 * time.Minute,
			[]string{"g t"}},
		{"a second loss", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} 5x400 6x60`,
			110 * time.Minute, []string{"g t"}},
		{"a loss of two hours ago", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} 5x480`,
			2 * time.Hour, nil},
		{"Prometheus was down for 15 minutes", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} 5x720 _x60 5x720` +
				started("p", "1x720 _x60 1x720"), 4*time.Hour + 10*time.Minute, nil},
		{"the same number after a restart", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} 5x80 stale _x639 5x400` +
				started("p", "1x80 2x1000"), 190 * time.Minute, []string{"g t"}},
		{"no loss", "MusterRecordsLost",
			`muster_consumer_records_lost_total{group="g", topic="t", partition="3", instance="p"} 0x480`, time.Hour, nil},

		{"far behind", "MusterProjectionBehind",
			`muster_consumer_lag_seconds{group="g", topic="t", partition="3", instance="p"} 0+15x480`, time.Hour,
			[]string{"g t"}},
		{"behind for a while", "MusterProjectionBehind",
			`muster_consumer_lag_seconds{group="g", topic="t", partition="3", instance="p"} 0x100 400x20 0x100`,
			29 * time.Minute, nil},

		{"cannot join", "MusterCannotConsume", `muster_consumer_join_errors_total{group="g", instance="p"} _x80 1+20x400`,
			35 * time.Minute, []string{"g"}},
		{"commits are rejected", "MusterCannotConsume",
			`muster_consumer_commit_errors_total{group="g", instance="p"} 0+3x400`, 35 * time.Minute, []string{"g"}},
		{"a broker was restarted", "MusterCannotConsume",
			`muster_consumer_join_errors_total{group="g", instance="p"} 0x80 1x2 2x2 3x400`, 25 * time.Minute, nil},

		// ^Open for 30 s at a time; a scrape then sees it half-open.
		{"stays open", "MusterBreakerOpen", breaker("2 2 1 ", 40, "0 0 1+0.5x120"), 15 * time.Minute, []string{"k s"}},
		{"was open for a minute", "MusterBreakerOpen", breaker("2 2 1 2 ", 1, "0 0 1x120"), 4 * time.Minute, nil},
		{"closes in between", "MusterBreakerOpen", breaker("2 2 1 0 0 0 ", 20, "0 0 1+0.2x120"), 15 * time.Minute, nil},
		{"not called since", "MusterBreakerOpen", breaker("2 2 1 1 ", 1, "0 1x120"), 20 * time.Minute, nil},

		{"errors", "MusterErrors", requests("200", 10) + requests("500", 1), 20 * time.Minute, []string{""}},
		{"timeouts of callers do not count", "MusterErrors", requests("200", 10) + requests("504", 9),
			20 * time.Minute, nil},

		{"slow", "MusterSlow", durations("/v1/person/enrich"), 30 * time.Minute, []string{"/v1/person/enrich"}},
		{"as slow as the caller allows", "MusterSlow", durations("/v1/context") + durations("/v1/person/discover"),
			30 * time.Minute, nil},

		{"many at once", "MusterWebhooksDeadLettered", `muster_webhook_deliveries_dead_lettered_total{code="410", instance="w"} _x80 11x400`,
			25 * time.Minute, []string{""}},
		{"a few on each replica", "MusterWebhooksDeadLettered", dead(4, 2, 2), 25 * time.Minute, []string{""}},
		{"a few", "MusterWebhooksDeadLettered", dead(2, 2, 2), 25 * time.Minute, nil},
		{"long ago", "MusterWebhooksDeadLettered", `muster_webhook_deliveries_dead_lettered_total{code="410", instance="w"} 50x480`,
			2 * time.Hour, nil},
		{"Prometheus was down for 15 minutes", "MusterWebhooksDeadLettered",
			`muster_webhook_deliveries_dead_lettered_total{code="410", instance="w"} 50x720 _x60 50x720` + started("w", "1x720 _x60 1x720"),
			4*time.Hour + 10*time.Minute, nil},

		{"more than half of the memory is used", "MusterWebhooksWaiting", waiting("0+5000x80 300000x400", "0x480"),
			40 * time.Minute, []string{"w1"}},
		{"the same number on two replicas", "MusterWebhooksWaiting", waiting("200000x480", "200000x480"),
			40 * time.Minute, nil},
		{"a burst", "MusterWebhooksWaiting", waiting("0x80 300000x30 0x400", "0x480"), 26 * time.Minute, nil},

		{"batches fail", "MusterHandlingFails", `muster_consumer_batch_retries_total{group="g", instance="p"} _x80 1+2x400`,
			time.Hour, []string{"g p"}},
		{"one failed", "MusterHandlingFails", `muster_consumer_batch_retries_total{group="g", instance="p"} 0x80 1x400`,
			24 * time.Minute, nil},
	} {
		t.Run(c.alert+"/"+c.name, func(t *testing.T) {
			rule, ok := known[c.alert]
			require.True(t, ok)
			if c.want == nil {
				c.want = []string{}
			}
			require.Equal(t, c.want, firing(t, engine, "load 15s\n\t"+strings.TrimSpace(c.series), rule, c.at))
		})
		tried[c.alert] = true
	}
	for alert := range known {
		require.True(t, tried[alert], "%s has no test", alert)
	}
}

// waiting returns the series of pending deliveries on two replicas.
func waiting(first, second string) string {
	return fmt.Sprintf(
		"muster_webhook_deliveries_pending{instance=\"w1\"} %s\n\tmuster_webhook_deliveries_pending{instance=\"w2\"} %s\n",
		first,
		second,
	)
}

// breaker returns the series of a breaker: its states, a pattern repeated several times before the last state, and the
// number of times it opened.
func breaker(states string, times int, opened string) string {
	states = strings.TrimSpace(strings.Repeat(states, times))
	return fmt.Sprintf(
		"muster_breaker_state{set=\"s\", key=\"k\", instance=\"d\"} %s "+
			"%sx120\n\tmuster_breaker_transitions_total{set=\"s\", to=\"open\", instance=\"d\"} %s\n",
		states, states[len(states)-1:], opened)
}

func requests(status string, each int) string {
	return fmt.Sprintf(
		"\tmuster_http_requests_total{route=\"/v1/person/enrich\", status=%q, instance=\"q\"} 0+%dx480\n", status, each)
}

// durations returns the series of calls, half of which take more than five seconds.
func durations(route string) string {
	var out strings.Builder
	for bucket, each := range map[string]int{"1": 5, "5": 5, "10": 10, "+Inf": 10} {
		fmt.Fprintf(
			&out,
			"\tmuster_http_request_duration_seconds_bucket{route=%q, le=%q, instance=\"q\"} 0+%dx480\n",
			route,
			bucket,
			each,
		)
	}
	return out.String()
}

// started returns the start times of a process, at each scrape.
func started(instance, times string) string {
	return fmt.Sprintf("\n\tprocess_start_time_seconds{instance=%q} %s\n", instance, times)
}

// dead returns the series of recently dead-lettered deliveries: some with each code on each replica.
func dead(replicas, codes, each int) string {
	var out strings.Builder
	for replica := range replicas {
		for code := range codes {
			fmt.Fprintf(
				&out,
				"\tmuster_webhook_deliveries_dead_lettered_total{code=\"50%d\", instance=\"w%d\"} _x60 1x10 %dx400\n",
				code,
				replica,
				each,
			)
		}
	}
	return out.String()
}
