package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Reader adds up the ledger.
type Reader struct {
	Conn driver.Conn
	Bus  bus.Config
}

// tailTable is the name of the external table of the request ids that the topic
// has and the read model perhaps not.
const tailTable = "tail"

// Sums is what a period has been charged and has counted, by organization: the
// rows of the read model, and the events of the topic that are not in it yet.
// It is exact at the ends that the topic had when it was called.
func (r Reader) Sums(ctx context.Context, period string) (credits.Sums, error) {
	from, err := r.projected(ctx)
	if err != nil {
		return nil, fmt.Errorf("add up the ledger: %w", err)
	}
	tail := make(map[string]event.Usage)
	_, err = bus.Read(ctx, r.Bus, event.TopicUsage, from, func(m kafka.Message) error {
		var u event.Usage
		// What cannot be read is rejected by the projector, and counts as little here.
		if json.Unmarshal(m.Value, &u) == nil && u.Validate() == nil && u.Period == period && countsAsCall(&u) {
			if _, there := tail[u.RequestID]; !there || u.Outcome != event.OutcomeUnanswered { // as the rows' versions are
				tail[u.RequestID] = u
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("add up the ledger: %w", err)
	}
	sums, err := r.rows(ctx, period, tail)
	if err != nil {
		return nil, fmt.Errorf("add up the ledger: %w", err)
	}
	type place struct{ organization, key, endpoint string }
	added := make(map[place]credits.Line)
	for _, u := range tail {
		at := place{u.OrganizationID, u.KeyID, u.Endpoint}
		l := added[at]
		l.Calls++
		l.Requests += u.Requests
		l.Credits += u.Credits
		added[at] = l
	}
	for at, l := range added {
		l.Key, l.Endpoint = at.key, at.endpoint
		sums[at.organization] = merge(sums[at.organization], l)
	}
	return sums, nil
}

// countsAsCall: these are the rows that UsageBalancesQuery has.
func countsAsCall(u *event.Usage) bool {
	return u.Outcome == event.OutcomeCharged || u.Outcome == event.OutcomeFree || u.Outcome == event.OutcomeFailed || u.Requests > 0
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

// projected is, by partition, up to where the read model is complete: before the last offset that it has a row of,
// and before what its projector has committed. After a power cut the log may end below offsets that have rows, and
// give them to other events, of which the rows say nothing.
func (r Reader) projected(ctx context.Context) (from map[int]int64, err error) {
	rows, err := r.rowOffsets(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger's offsets: %w", err)
	}
	lags, err := bus.Lag(ctx, r.Bus, readmodel.UsageGroup, []string{event.TopicUsage})
	if errors.Is(err, kafka.GroupAuthorizationFailed) {
		return rows, nil // a user with rights to topics alone: nothing else says where the log was cut
	}
	if err == nil && len(lags) == 0 { // a broker may not know a topic for a moment, and would be asked for all of it in the next
		err = fmt.Errorf("lag of %s: %w", event.TopicUsage, kafka.UnknownTopicOrPartition)
	}
	if err != nil {
		return nil, err
	}
	ends, err := r.endsAfter(ctx, lags)
	if err != nil {
		return nil, err
	}
	from = make(map[int]int64)
	for _, l := range lags {
		if l.Committed <= ends[l.Partition] { // else it was committed of a longer log
			from[l.Partition] = min(rows[l.Partition], max(l.Committed, 0))
		}
	}
	return from, nil
}

// endsAfter are the ends of the partitions, by partition. A lag's end was read before what is committed, which may be
// beyond it because the log has grown in between; one that is read afterwards is below it only if the log was cut.
func (r Reader) endsAfter(ctx context.Context, lags []bus.PartitionLag) (map[int]int64, error) {
	ends := make(map[int]int64)
	for _, l := range lags {
		ends[l.Partition] = l.End
	}
	if slices.ContainsFunc(lags, func(l bus.PartitionLag) bool { return l.Committed > l.End }) {
		later, err := bus.EndOffsets(ctx, r.Bus, []string{event.TopicUsage})
		if err != nil {
			return nil, err
		}
		for _, o := range later {
			ends[o.Partition] = o.End
		}
	}
	return ends, nil
}

// rowOffsets is, by partition, the offset after the last one that the read model has a row of.
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

// rows sums what the read model has, without what is in tail.
func (r Reader) rows(ctx context.Context, period string, tail map[string]event.Usage) (credits.Sums, error) {
	options := []clickhouse.QueryOption{clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterPeriod: period})}
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
	rows, err := r.Conn.Query(clickhouse.Context(ctx, options...), readmodel.UsageBalancesQuery(without))
	if err != nil {
		return nil, fmt.Errorf("read the ledger's rows: %w", err)
	}
	sums := make(credits.Sums)
	for rows.Next() {
		var organization string
		var l credits.Line
		var calls uint64
		if err := rows.Scan(&organization, &l.Key, &l.Endpoint, &calls, &l.Requests, &l.Credits); err != nil {
			return nil, fmt.Errorf("read the ledger's rows: %w", err)
		}
		l.Calls = int64(calls)
		sums[organization] = append(sums[organization], l)
	}
	if err := rows.Close(); err != nil {
		return nil, fmt.Errorf("read the ledger's rows: %w", err)
	}
	return sums, rows.Err()
}
