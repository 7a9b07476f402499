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

// IsCharged reports whether the ledger has a call, in the read model or the unprojected tail of the topic. Unpublished
// events of an outbox are not considered.
func (r Reader) IsCharged(ctx context.Context, organization, period, requestID string) (bool, error) {
	// Read before the rows, so that events projected meanwhile are seen twice rather than never.
	from, err := r.projected(ctx)
	if err != nil {
		return false, fmt.Errorf("look up call in ledger: %w", err)
	}
	var n uint64
	row := r.Conn.QueryRow(clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		readmodel.ParameterOrganization: organization, readmodel.ParameterPeriod: period,
		readmodel.ParameterRequest: requestID,
	})), readmodel.UsageRequestQuery())
	if err := row.Scan(&n); err != nil {
		return false, fmt.Errorf("look up call in ledger: %w", err)
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
		return false, fmt.Errorf("look up call in ledger: %w", err)
	}
	return found, nil
}
