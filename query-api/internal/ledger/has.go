package ledger

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Charged returns which calls of an organization and period the ledger has, in the read model or the unprojected tail
// of the topic. Unpublished events of an outbox are not considered.
func (r Reader) Charged(
	ctx context.Context, organization, period string, requestIDs []string,
) (map[string]bool, error) {
	// Read before the rows, so that events projected meanwhile are seen twice rather than never.
	from, err := r.projected(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up calls in ledger: %w", err)
	}
	wanted, charged := make(map[string]bool, len(requestIDs)), make(map[string]bool)
	for _, id := range requestIDs {
		wanted[id] = true
	}
	read := clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		readmodel.ParameterOrganization: organization, readmodel.ParameterPeriod: period,
		readmodel.ParameterRequests: readmodel.FormatStrings(requestIDs),
	}))
	err = ch.ReadRows(read, r.Conn, readmodel.UsageRequestsQuery(), func(rows driver.Rows) error {
		var id string
		err := rows.Scan(&id)
		charged[id] = true
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up calls in ledger: %w", err)
	}
	_, err = bus.Read(ctx, r.Bus, event.TopicUsage, from, func(m kafka.Message) error {
		var u event.Usage
		if json.Unmarshal(m.Value, &u) == nil && wanted[u.RequestID] && countsAsCall(&u) {
			charged[u.RequestID] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up calls in ledger: %w", err)
	}
	return charged, nil
}
