package readmodel

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/event"
)

// ContextTable is the read model of context calls.
const ContextTable = "contexts"

// ContextHash returns contexts.request_hash of a request id.
func ContextHash(requestID string) uint64 { return KeyHash("context.request", requestID) }

// ContextBatch holds states of calls for an insert. The zero value is empty.
type ContextBatch struct {
	hash                  column[uint64]
	request, organization column[string]
	at                    column[time.Time]
	version               column[int64]
	status, result, topic column[string]
	partition             column[int32]
	offset                column[int64]
}

// Add adds the row of an event.
func (b *ContextBatch) Add(c *event.Context, at Position) error {
	result, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode context: %w", err)
	}
	// The first outcome in the log wins, as for consumers of the topic: a task may run twice. Acceptance has
	// the lowest version.
	version := int64(0)
	if c.Status != event.ContextProcessing {
		version = math.MaxInt64 - at.Offset
	}
	b.hash.add(ContextHash(c.Call.RequestID))
	b.request.add(c.Call.RequestID)
	b.organization.add(c.Call.OrganizationID)
	b.at.add(c.At.UTC())
	b.version.add(version)
	b.status.add(string(c.Status))
	b.result.add(string(result))
	b.topic.add(at.Topic)
	b.partition.add(at.Partition)
	b.offset.add(at.Offset)
	return nil
}

// Len returns the number of rows.
func (b *ContextBatch) Len() int { return len(b.hash.list) }

func (b *ContextBatch) columns() []field {
	return []field{
		{"request_hash", "UInt64", &b.hash},
		{"request_id", "String", &b.request},
		{"organization_id", "String", &b.organization},
		{"at", "DateTime64(6, 'UTC')", &b.at},
		{"version", "Int64", &b.version},
		{"status", "String", &b.status},
		{"result", "String", &b.result},
		{"topic", "String", &b.topic},
		{"partition", "Int32", &b.partition},
		{"offset", "Int64", &b.offset},
	}
}

// InsertContexts writes a batch of states. Like Insert it is idempotent for the same token and rows.
func InsertContexts(ctx context.Context, conn driver.Conn, token string, b *ContextBatch) error {
	return insertEvents(ctx, conn, ContextTable, token, b)
}

// ContextRow is the state of a call.
type ContextRow struct {
	RequestHash    uint64
	RequestID      string
	OrganizationID string
	At             time.Time
	Status         string
	Result         string // event.Context as JSON
}

// ScanDest returns the scan destinations in the order of ContextsQuery's columns.
func (r *ContextRow) ScanDest() []any {
	return []any{&r.RequestHash, &r.RequestID, &r.OrganizationID, &r.At, &r.Status, &r.Result}
}

// ContextsQuery returns the query for states of calls by ContextHash. Compare the request id, as hashes may
// collide, and the organization, as other organizations must not see the call.
func ContextsQuery() string {
	return `SELECT request_hash, request_id, organization_id, at, toString(status), result
FROM ` + ContextTable + `
WHERE request_hash IN {keys:Array(UInt64)}
ORDER BY version DESC LIMIT 1 BY request_hash, request_id`
}
