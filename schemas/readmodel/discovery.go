package readmodel

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/identity"
)

// DiscoveryTable is the read model of discovery results: the newest per input.
const DiscoveryTable = "discoveries"

// DiscoveryHash returns discoveries.input_hash of an account.
func DiscoveryHash(platform, usernameKey string) uint64 {
	return KeyHash("discovery.input", platform+":"+usernameKey)
}

// DiscoveryBatch holds discovery results for an insert. The zero value is empty.
type DiscoveryBatch struct {
	hash                        column[uint64]
	platform, username, request column[string]
	at                          column[time.Time]
	version                     column[int64]
	found                       column[uint8]
	result, topic               column[string]
	partition                   column[int32]
	offset                      column[int64]
	links                       discoveredBatch
}

// Add adds the row of an event.
func (b *DiscoveryBatch) Add(d *event.Discovery, at Position) error {
	result, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode discovery: %w", err)
	}
	key := identity.NormalizeUsername(d.Input.Username)
	b.hash.add(DiscoveryHash(d.Input.Platform, key))
	b.platform.add(d.Input.Platform)
	b.username.add(key)
	b.request.add(d.RequestID)
	b.at.add(d.At.UTC())
	b.version.add(d.At.UnixMicro())
	b.found.add(uint8(min(len(d.Socials)-1, 255)))
	b.result.add(string(result))
	b.topic.add(at.Topic)
	b.partition.add(at.Partition)
	b.offset.add(at.Offset)
	b.links.add(d, at)
	return nil
}

// Len returns the number of rows.
func (b *DiscoveryBatch) Len() int { return len(b.hash.list) }

func (b *DiscoveryBatch) columns() []field {
	return []field{
		{"input_hash", "UInt64", &b.hash},
		{"platform", "String", &b.platform},
		{"username_key", "String", &b.username},
		{"request_id", "String", &b.request},
		{"at", "DateTime64(6, 'UTC')", &b.at},
		{"version", "Int64", &b.version},
		{"found", "UInt8", &b.found},
		{"result", "String", &b.result},
		{"topic", "String", &b.topic},
		{"partition", "Int32", &b.partition},
		{"offset", "Int64", &b.offset},
	}
}

// InsertDiscoveries writes a batch of results, their links first. Like Insert it is idempotent for the same
// token and rows.
func InsertDiscoveries(ctx context.Context, conn driver.Conn, token string, b *DiscoveryBatch) error {
	if err := insertEvents(ctx, conn, DiscoveredTable, token, &b.links); err != nil {
		return err
	}
	return insertEvents(ctx, conn, DiscoveryTable, token, b)
}

// DiscoveryRow is the newest result for an input.
type DiscoveryRow struct {
	InputHash   uint64
	Platform    string
	UsernameKey string
	At          time.Time
	Found       uint8
	Result      string // event.Discovery as JSON
}

// ScanDest returns the scan destinations in the order of DiscoveriesQuery's columns.
func (r *DiscoveryRow) ScanDest() []any {
	return []any{&r.InputHash, &r.Platform, &r.UsernameKey, &r.At, &r.Found, &r.Result}
}

// DiscoveriesQuery returns the query for the newest results by DiscoveryHash. Compare platform and key:
// hashes may collide.
func DiscoveriesQuery() string {
	return `SELECT input_hash, toString(platform), username_key, at, found, result
FROM ` + DiscoveryTable + `
WHERE input_hash IN {keys:Array(UInt64)}
ORDER BY version DESC LIMIT 1 BY input_hash, platform, username_key`
}
