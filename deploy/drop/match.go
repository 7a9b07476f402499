package drop

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// Status is the status of a row in a response.
type Status int

// The statuses of the platform.
const (
	Exempted Status = event.ErasureExempted
	Deleted  Status = 3
	OptedOut Status = 4
	NotFound Status = 5
)

// found counts the people that a hash matches, by table.
type found map[suppress.DropValue]*[3]int

// match finds the people that the rows match. Accounts of two platforms with one identifier are one person; two
// accounts of one platform are two people.
func match(ctx context.Context, conn driver.Conn, lists []List) (found, error) {
	out := make(found)
	byEmail, byOthers := false, false
	for _, l := range lists {
		if l.Kind == Removed {
			continue
		}
		for _, r := range l.Rows {
			v := suppress.DropValue{Type: r.Type, Sum: r.Sum}
			if out[v] == nil {
				out[v] = new([3]int)
			}
			byEmail, byOthers = byEmail || r.Type == suppress.Email, byOthers || r.Type != suppress.Email
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	for i, t := range readmodel.PeopleTables() {
		query := "SELECT " + t.Emails + ", " + t.Body(byEmail, byOthers) + " FROM " + t.Name +
			" FINAL WHERE NOT deleted"
		err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
			var emails []string
			var body string
			if err := rows.Scan(&emails, &body); err != nil {
				return err
			}
			s := suppress.Subject{Emails: emails}
			if body != "" {
				s.AddUnknownFields([]byte(body))
			}
			values := make(map[suppress.DropValue]bool)
			for _, e := range s.Emails {
				for _, form := range append(identity.EmailForms(e), e) {
					values[suppress.DropValue{Type: suppress.Email, Sum: suppress.Sum(form)}] = true
				}
			}
			for _, v := range s.Drop {
				values[v] = true
			}
			for v := range values {
				if n := out[v]; n != nil {
					n[i]++
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("match deletion lists in %s: %w", t.Name, err)
		}
	}
	return out, nil
}

// status returns the status of a row.
func (f found) status(r Row) Status {
	n, most := f[suppress.DropValue{Type: r.Type, Sum: r.Sum}], 0
	if n != nil {
		most = max(n[0], n[1], n[2])
	}
	switch {
	case most > 1:
		return OptedOut
	case most == 1:
		return Deleted
	}
	return NotFound
}
