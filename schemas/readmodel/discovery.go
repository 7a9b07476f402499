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
	eventRows[discoveryRow]
	links eventRows[discoveredRow]
}

type discoveryRow struct {
	InputHash   uint64    `ch:"input_hash"`
	Platform    string    `ch:"platform"`
	UsernameKey string    `ch:"username_key"`
	RequestID   string    `ch:"request_id"`
	At          time.Time `ch:"at"`
	Version     int64     `ch:"version"`
	Found       uint8     `ch:"found"`
	Result      string    `ch:"result"`
	Position
}

// Add adds the row of an event.
func (b *DiscoveryBatch) Add(d *event.Discovery, at Position) error {
	result, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode discovery: %w", err)
	}
	key := identity.NormalizeUsername(d.Input.Username)
	b.add(discoveryRow{
		InputHash: DiscoveryHash(d.Input.Platform, key), Platform: d.Input.Platform, UsernameKey: key,
		RequestID: d.RequestID, At: d.At.UTC(), Version: d.At.UnixMicro(), Found: uint8(min(len(d.Socials)-1, 255)),
		Result: string(result), Position: at,
	})
	for _, link := range discoveredLinks(d, at) {
		b.links.add(link)
	}
	return nil
}

// InsertDiscoveries writes a batch of results, their links first. Like Insert it is idempotent for the same
// token and rows.
func InsertDiscoveries(ctx context.Context, conn driver.Conn, token string, b *DiscoveryBatch) error {
	if err := b.links.insert(ctx, conn, DiscoveredTable, token); err != nil {
		return err
	}
	return b.insert(ctx, conn, DiscoveryTable, token)
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
