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
type ContextBatch struct{ eventRows[contextRow] }

type contextRow struct {
	RequestHash    uint64    `ch:"request_hash"`
	RequestID      string    `ch:"request_id"`
	OrganizationID string    `ch:"organization_id"`
	At             time.Time `ch:"at"`
	Version        int64     `ch:"version"`
	Status         string    `ch:"status"`
	Result         string    `ch:"result"`
	Position
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
	b.add(contextRow{
		RequestHash: ContextHash(c.Call.RequestID), RequestID: c.Call.RequestID, OrganizationID: c.Call.OrganizationID,
		At: c.At.UTC(), Version: version, Status: string(c.Status), Result: string(result), Position: at,
	})
	return nil
}

// InsertContexts writes a batch of states. Like Insert it is idempotent for the same token and rows.
func InsertContexts(ctx context.Context, conn driver.Conn, token string, b *ContextBatch) error {
	return b.insert(ctx, conn, ContextTable, token)
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
