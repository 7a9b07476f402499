package readmodel

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/event"
)

// DisclosuresTable has which call returned which person's record, for erasures and subject access requests.
const DisclosuresTable = "disclosures"

// DisclosureHash is an SQL expression that identifies rows of DisclosuresTable in statements.
const DisclosureHash = "cityHash64(identity, platform, organization_id, request_id)"

// DisclosureBatch holds rows of disclosures for an insert. The zero value is empty.
type DisclosureBatch struct{ eventRows[disclosureRow] }

type disclosureRow struct {
	Identity       string    `ch:"identity"`
	Platform       string    `ch:"platform"`
	OrganizationID string    `ch:"organization_id"`
	RequestID      string    `ch:"request_id"`
	At             time.Time `ch:"at"`
}

// Add adds the row of a person whose record a call returned.
func (b *DisclosureBatch) Add(u *event.Usage, d event.Disclosure) {
	b.add(disclosureRow{
		Identity: string(d.Hash[:]), Platform: d.Platform, OrganizationID: u.OrganizationID, RequestID: u.RequestID,
		At: u.At.UTC(),
	})
}

// InsertDisclosures writes a batch of disclosures. Like Insert it is idempotent for the same token and rows.
func InsertDisclosures(ctx context.Context, conn driver.Conn, token string, b *DisclosureBatch) error {
	return b.insert(ctx, conn, DisclosuresTable, token)
}

// ReadDisclosedPeople calls each with every person of whom a record was returned.
func ReadDisclosedPeople(ctx context.Context, conn driver.Conn, each func(event.Disclosure) error) error {
	const query = "SELECT identity, toString(platform) FROM " + DisclosuresTable + " GROUP BY identity, platform"
	err := readRows(ctx, conn, query, func(rows driver.Rows) error {
		var identity string
		var d event.Disclosure
		if err := rows.Scan(&identity, &d.Platform); err != nil {
			return err
		}
		copy(d.Hash[:], identity)
		return each(d)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", DisclosuresTable, err)
	}
	return nil
}

// DisclosedTo is a call that returned the record of a person.
type DisclosedTo struct {
	event.Disclosure
	OrganizationID, RequestID string
	At                        time.Time
	// Row is the value of DisclosureHash.
	Row uint64
}

// ReadDisclosures calls each with the calls that returned records of any of the people, newest first, at most limit of
// them; 0: all. At most MaxDisclosedPeople may be given.
func ReadDisclosures(
	ctx context.Context, conn driver.Conn, people []event.Disclosure, limit int, each func(DisclosedTo) error,
) error {
	if len(people) == 0 {
		return nil
	}
	var list strings.Builder
	for i, d := range people {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString("unhex('" + hex.EncodeToString(d.Hash[:]) + "')")
	}
	query := "SELECT identity, toString(platform), organization_id, request_id, at, " + DisclosureHash + " FROM " +
		DisclosuresTable + " WHERE identity IN (" + list.String() + ") ORDER BY at DESC, request_id, identity"
	if limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", limit)
	}
	// The hashes are not in a log of queries.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"log_queries": 0}))
	err := readRows(ctx, conn, query, func(rows driver.Rows) error {
		var d DisclosedTo
		var identity string
		if err := rows.Scan(&identity, &d.Platform, &d.OrganizationID, &d.RequestID, &d.At, &d.Row); err != nil {
			return err
		}
		copy(d.Hash[:], identity)
		return each(d)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", DisclosuresTable, err)
	}
	return nil
}

// MaxDisclosedPeople is the maximum number of people of one ReadDisclosures: each takes 43 bytes of a statement, which
// has at most 256 KiB.
const MaxDisclosedPeople = 4000
