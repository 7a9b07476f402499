package queryapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// ReadUsage returns an organization's usage of a period from the read model, by endpoint and key.
func ReadUsage(ctx context.Context, conn driver.Conn, organization, period string) ([]readmodel.UsageSum, error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		readmodel.ParameterOrganization: organization, readmodel.ParameterPeriod: period,
	}))
	var out []readmodel.UsageSum
	if err := conn.Select(ctx, &out, readmodel.OrganizationUsageQuery()); err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	return out, nil
}

// LastUsed returns the time of last use of each key of an organization, from the read model.
func LastUsed(ctx context.Context, conn driver.Conn, organization string) (map[string]time.Time, error) {
	ctx = clickhouse.Context(ctx,
		clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterOrganization: organization}))
	out := make(map[string]time.Time)
	err := ch.ReadRows(ctx, conn, readmodel.LastUsedQuery(), func(rows driver.Rows) error {
		var key string
		var at time.Time
		err := rows.Scan(&key, &at)
		out[key] = at
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read when keys were used: %w", err)
	}
	return out, nil
}

// ObservedCalls is what a client observed of a response: its X-Request-Id and X-Credits-Charged headers.
type ObservedCalls struct {
	RequestID string `json:"request_id"`
	Credits   int64  `json:"credits"`
}

// Totals are the totals of one data source of a reconciliation.
type Totals struct {
	Calls    int64 `json:"calls"`
	Requests int64 `json:"requests"`
	Credits  int64 `json:"credits"`
}

// Reconciliation compares, for one period, the ledger topic, the read model, and what clients
// observed.
type Reconciliation struct {
	Period    string `json:"period"`
	Ledger    Totals `json:"ledger"`
	ReadModel Totals `json:"read_model"`
	// Observed is nil if no client observations were given.
	Observed *Totals `json:"observed,omitempty"`
	// Unanswered is the number of calls whose response may not have left; they are not charged.
	Unanswered int64 `json:"unanswered"`
	// Differences describes calls that differ; at most 100 are described, Different counts all.
	Differences []string `json:"differences"`
	Different   int64    `json:"different"`
	// Unseen is the number of charges in the ledger that no client reports; they count as
	// differences. A client whose connection broke reports none.
	Unseen int64 `json:"unseen"`
	// InCallersFavor is the number of responses that report a charge which is not in the ledger.
	InCallersFavor int64 `json:"in_callers_favor"`
}

// maxDifferences is the maximum number of described differences.
const maxDifferences = 100

func (r *Reconciliation) differ(format string, args ...any) {
	if r.Different++; r.Different <= maxDifferences {
		r.Differences = append(r.Differences, fmt.Sprintf(format, args...))
	}
}

// OK reports whether the sources agree, or differ only in the clients' favor.
func (r *Reconciliation) OK() bool { return r.Different == 0 }

// entry is a call in one data source.
type entry struct {
	organization      string
	outcome           event.Outcome
	requests, credits int64
}

// Reconcile replays the ledger from its beginning and compares it with the read model and, unless observed is nil, with
// what clients observed. The read model lags unless the projector has caught up. If organization is not empty, other
// organizations are ignored.
func Reconcile(
	ctx context.Context, cfg bus.Config, conn driver.Conn, period, organization string, seen []ObservedCalls,
) (*Reconciliation, error) {
	if _, _, err := event.PeriodBounds(period); err != nil {
		return nil, err
	}
	r := &Reconciliation{Period: period, Differences: []string{}}
	ledger := make(map[string]entry)
	_, err := bus.Read(ctx, cfg, event.TopicUsage, nil, func(m kafka.Message) error {
		var u event.Usage
		if json.Unmarshal(m.Value, &u) != nil || u.Validate() != nil || u.Period != period || organization != "" &&
			u.OrganizationID != organization {
			return nil //nolint:nilerr // an invalid usage event is no charge
		}
		now := entry{u.OrganizationID, u.Outcome, u.Requests, u.Credits}
		before, known := ledger[u.RequestID]
		switch {
		case !known, before.outcome == event.OutcomeUnanswered:
			ledger[u.RequestID] = now
		case now != before && now.outcome != event.OutcomeUnanswered:
			r.differ("%s is in the ledger twice with different content", u.RequestID)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	rows, err := readEntries(ctx, conn, period, organization)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	r.Ledger, r.ReadModel = sum(ledger), sum(rows)
	for id, l := range ledger {
		if l.outcome == event.OutcomeUnanswered {
			r.Unanswered++
		}
		if row, there := rows[id]; !there {
			r.differ("%s is not in the read model", id)
		} else if row != l {
			r.differ("%s differs: the ledger has %s, %d credits, the read model %s, %d credits", id, l.outcome,
				l.credits, row.outcome, row.credits)
		}
	}
	for id := range rows {
		if _, there := ledger[id]; !there {
			r.differ("%s is only in the read model", id)
		}
	}
	if seen != nil {
		r.compareSeen(ledger, seen)
	}
	slices.Sort(r.Differences)
	return r, nil
}

func sum(entries map[string]entry) (s Totals) {
	for _, e := range entries {
		s.Requests += e.requests
		s.Credits += e.credits
		switch e.outcome {
		case event.OutcomeCharged, event.OutcomeFree, event.OutcomeFailed:
			s.Calls++
		case event.OutcomeReplayed, event.OutcomeUnanswered, event.OutcomeRefusedForbidden,
			event.OutcomeRefusedRate, event.OutcomeRefusedRequests, event.OutcomeRefusedCredits:
		}
	}
	return s
}

// compareSeen compares the ledger with client observations. A charge that only the client observed
// is in its favor; one that only the ledger has is a difference.
func (r *Reconciliation) compareSeen(ledger map[string]entry, seen []ObservedCalls) {
	r.Observed = &Totals{}
	observed := make(map[string]int64, len(seen))
	for _, s := range seen {
		observed[s.RequestID] = s.Credits
	}
	for id, credits := range observed {
		r.Observed.Calls++
		r.Observed.Credits += credits
		switch charged := ledger[id].credits; {
		case charged > credits:
			r.differ("%s was charged %d, the client observed %d", id, charged, credits)
		case charged < credits:
			r.InCallersFavor++
		}
	}
	for id, l := range ledger {
		if _, there := observed[id]; !there && l.credits > 0 {
			r.Unseen++
			r.differ("%s was charged %d, the client observed no response", id, l.credits)
		}
	}
}

func readEntries(ctx context.Context, conn driver.Conn, period, organization string) (map[string]entry, error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterPeriod: period}))
	out := make(map[string]entry)
	err := ch.ReadRows(ctx, conn, readmodel.UsageRowsQuery(), func(rows driver.Rows) error {
		var id, outcome string
		var e entry
		err := rows.Scan(&id, &e.organization, &outcome, &e.requests, &e.credits)
		e.outcome = event.Outcome(outcome)
		if organization == "" || e.organization == organization {
			out[id] = e
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage read model: %w", err)
	}
	return out, nil
}
