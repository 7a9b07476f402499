package projector

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// discoveredHash is the SQL expression that identifies a row of discovered_links in a statement.
const discoveredHash = "cityHash64(found_hash, input_hash)"

// scanDiscoveredLinks finds discovered links from or to erased people.
func (f *erasureScan) scanDiscoveredLinks(ctx context.Context) error {
	const query = "SELECT " + discoveredHash +
		", toString(found_platform), found_key, found_identity, toString(input_platform), input_key, " +
		"input_identity FROM " + readmodel.DiscoveredTable
	err := ch.ReadRows(ctx, f.deps.Conn, query, func(rows driver.Rows) error {
		var hash uint64
		var found, input event.Social
		if err := rows.Scan(&hash, &found.Platform, &found.Username, &found.Identity, &input.Platform, &input.Username,
			&input.Identity); err != nil {
			return err
		}
		d := event.Discovery{Input: input.Account, Socials: []event.Social{input, found}}
		if erasedDiscovery(f.deps.Suppressed, &d) {
			f.found.discovered[hash] = true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("discovered links: %w", err)
	}
	return nil
}
