package erasure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/atomicfile"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// ListStatus is the status of a row in a response.
type ListStatus int

// The statuses of the platform.
const (
	Exempted ListStatus = event.ErasureExempted
	Deleted  ListStatus = 3
	OptedOut ListStatus = 4
	NotFound ListStatus = 5
)

// listMatches counts the people that a hash matches, by table.
type listMatches map[suppress.DropValue]*[3]int

// matchLists finds the people that the rows match. Accounts of two platforms with one identifier are one person; two
// accounts of one platform are two people.
func matchLists(ctx context.Context, conn driver.Conn, lists []List) (listMatches, error) {
	out := make(listMatches)
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
func (f listMatches) status(r ListRow) ListStatus {
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

// Respond writes a response for each list with rows, under the name of the list, to a
// directory, and returns the paths. Existing files are replaced. The format is `Id,Status`
// for all kinds; withdrawn rows have no response.
func (o *ImportResult) Respond(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("write responses: %w", err)
	}
	var out []string
	for _, l := range o.Lists {
		if l.kind == Removed || len(l.response) == 0 {
			continue
		}
		path := filepath.Join(dir, l.Name)
		if err := atomicfile.Write(path, l.write); err != nil {
			return out, fmt.Errorf("write responses: %w", err)
		}
		out = append(out, path)
	}
	return out, nil
}

func (l *ListResult) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "Id,Status")
	for _, r := range l.response {
		fmt.Fprintf(out, "%s,%d\n", r.id, r.status)
	}
	return out.Flush()
}
