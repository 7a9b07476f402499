package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/query-api/internal/credits"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Reader reads the ledger: the read model and the unprojected tail of the topic.
type Reader struct {
	Conn driver.Conn
	Bus  bus.Config
}

// tailTable is the name of the external table with the request IDs of the unprojected tail of the topic.
const tailTable = "tail"

// Balances returns the charges and requests of a period by organization: the rows of the read model, and the events of
// the topic that are not in it yet. It is exact up to the end offsets of the topic at the time of the call.
func (r Reader) Balances(ctx context.Context, period string) (credits.Balances, error) {
	from, err := r.projected(ctx)
	if err != nil {
		return nil, fmt.Errorf("sum up ledger: %w", err)
	}
	tail := make(map[string]event.Usage)
	_, err = bus.Read(ctx, r.Bus, event.TopicUsage, from, func(m kafka.Message) error {
		var u event.Usage
		// The projector rejects invalid events, so they are skipped here, too.
		if json.Unmarshal(m.Value, &u) == nil && u.Validate() == nil && u.Period == period && countsAsCall(&u) {
			// The same precedence as the versions of rows.
			if _, known := tail[u.RequestID]; !known || u.Outcome != event.OutcomeUnanswered {
				tail[u.RequestID] = u
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum up ledger: %w", err)
	}
	balances, err := r.rows(ctx, period, tail)
	if err != nil {
		return nil, fmt.Errorf("sum up ledger: %w", err)
	}
	type group struct{ organization, key, endpoint string }
	added := make(map[group]credits.Line)
	for _, u := range tail {
		g := group{u.OrganizationID, u.KeyID, u.Endpoint}
		l := added[g]
		l.Calls++
		l.Requests += u.Requests
		l.Credits += u.Credits
		added[g] = l
	}
	for g, l := range added {
		l.Key, l.Endpoint = g.key, g.endpoint
		balances[g.organization] = merge(balances[g.organization], l)
	}
	return balances, nil
}

// countsAsCall reports whether an event counts as a call, with the condition of UsageBalancesQuery.
func countsAsCall(u *event.Usage) bool {
	return u.Outcome == event.OutcomeCharged || u.Outcome == event.OutcomeFree || u.Outcome == event.OutcomeFailed ||
		u.Requests > 0
}

func merge(lines []credits.Line, l credits.Line) []credits.Line {
	for i := range lines {
		if lines[i].Key == l.Key && lines[i].Endpoint == l.Endpoint {
			lines[i].Calls += l.Calls
			lines[i].Requests += l.Requests
			lines[i].Credits += l.Credits
			return lines
		}
	}
	return append(lines, l)
}

// projected returns, by partition, the offset up to which the read model is complete: the minimum of the offset after
// its last row and the offset committed by the projector. After a power cut the log may end below offsets that have
// rows, and assign them to other events.
func (r Reader) projected(ctx context.Context) (from map[int]int64, err error) {
	rows, err := r.rowOffsets(ctx)
	if err != nil {
		return nil, fmt.Errorf("read ledger offsets: %w", err)
	}
	lags, err := bus.Lag(ctx, r.Bus, readmodel.UsageGroup, []string{event.TopicUsage})
	if errors.Is(err, kafka.GroupAuthorizationFailed) {
		return rows, nil // without group permissions a truncated log cannot be detected
	}
	// A broker may briefly not know the topic; without this check, all of it would be read next.
	if err == nil && len(lags) == 0 {
		err = fmt.Errorf("lag of %s: %w", event.TopicUsage, kafka.UnknownTopicOrPartition)
	}
	if err != nil {
		return nil, err
	}
	from = make(map[int]int64)
	for _, l := range lags {
		from[l.Partition] = min(rows[l.Partition], l.Next)
	}
	return from, nil
}

// rowOffsets returns, by partition, the offset after the last row of the read model.
func (r Reader) rowOffsets(ctx context.Context) (map[int]int64, error) {
	next := make(map[int]int64)
	err := ch.ReadRows(ctx, r.Conn, readmodel.UsageOffsetsQuery(), func(rows driver.Rows) error {
		var partition int32
		var offset int64
		err := rows.Scan(&partition, &offset)
		next[int(partition)] = offset
		return err
	})
	return next, err
}

// rows sums up the rows of the read model, without the calls in tail.
func (r Reader) rows(ctx context.Context, period string, tail map[string]event.Usage) (credits.Balances, error) {
	options := []clickhouse.QueryOption{clickhouse.WithParameters(
		clickhouse.Parameters{readmodel.ParameterPeriod: period})}
	without := ""
	if len(tail) > 0 {
		table, err := ext.NewTable(tailTable, ext.Column("request_id", "String"))
		if err != nil {
			return nil, err
		}
		for id := range tail {
			if err := table.Append(id); err != nil {
				return nil, err
			}
		}
		options = append(options, clickhouse.WithExternalTable(table))
		without = tailTable
	}
	balances := make(credits.Balances)
	ctx = clickhouse.Context(ctx, options...)
	err := ch.ReadRows(ctx, r.Conn, readmodel.UsageBalancesQuery(without), func(rows driver.Rows) error {
		var organization string
		var l credits.Line
		var calls uint64
		err := rows.Scan(&organization, &l.Key, &l.Endpoint, &calls, &l.Requests, &l.Credits)
		l.Calls = int64(calls)
		balances[organization] = append(balances[organization], l)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger rows: %w", err)
	}
	return balances, nil
}
