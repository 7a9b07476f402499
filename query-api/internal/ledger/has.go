package ledger

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Has reports whether the ledger counts a call already: its read model, or what the
// topic has beyond it. What an outbox has not published yet it does not know.
func (r Reader) Has(ctx context.Context, organization, period, requestID string) (bool, error) {
	from, err := r.projected(ctx) // before the rows are read: what is projected meanwhile is seen twice, not never
	if err != nil {
		return false, fmt.Errorf("look up a call in the ledger: %w", err)
	}
	var n uint64
	row := r.Conn.QueryRow(clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		readmodel.ParameterOrganization: organization, readmodel.ParameterPeriod: period, readmodel.ParameterRequest: requestID,
	})), readmodel.UsageRequestQuery())
	if err := row.Scan(&n); err != nil {
		return false, fmt.Errorf("look up a call in the ledger: %w", err)
	}
	if n > 0 {
		return true, nil
	}
	found := false
	_, err = bus.Read(ctx, r.Bus, event.TopicUsage, from, func(m kafka.Message) error {
		var u event.Usage
		if json.Unmarshal(m.Value, &u) == nil && u.RequestID == requestID && countsAsCall(&u) {
			found = true
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look up a call in the ledger: %w", err)
	}
	return found, nil
}
