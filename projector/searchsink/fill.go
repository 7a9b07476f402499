package searchsink

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/searchindex"
	"muster/schemas/suppress"
)

// Progress shows how far a long task is.
type Progress interface {
	Begin(label string, total int64)
	Set(done int64)
	End()
}

type noProgress struct{}

func (noProgress) Begin(string, int64) {}
func (noProgress) Set(int64)           {}
func (noProgress) End()                {}

// scannedVersion is the version of documents of a scan: any touch is newer.
const scannedVersion = 1

// noPartition is the partition of documents of a scan.
const noPartition = -1

// filler fills an index from the table.
type filler struct {
	writer     *writer
	key        []byte
	conn       driver.Conn
	suppressed *suppress.Set
}

// run writes the documents of all people who have none that was written for a touch, and returns their number. A
// repeated run writes them again, from the rows of that time.
func (f filler) run(ctx context.Context, index string, progress Progress) (n int64, err error) {
	if progress == nil {
		progress = noProgress{}
	}
	var total uint64
	if err := f.conn.QueryRow(ctx, "SELECT uniq(profile_hash) FROM search_people").Scan(&total); err != nil {
		return 0, fmt.Errorf("count people: %w", err)
	}
	progress.Begin("Filling "+index, int64(total))
	defer progress.End()
	var after uint64
	done := int64(0)
	for first := true; ; first = false {
		rows, err := searchindex.Page(ctx, f.conn, after, first, rowsAtOnce)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		operations := make([]operation, 0, len(rows))
		for _, row := range rows {
			if row.Deleted || row.IsErased(f.suppressed) {
				continue
			}
			o := operation{id: searchindex.DocumentID(f.key, row.ProfileID), version: scannedVersion, equal: true}
			if o.document, err = row.AppendDocument(nil, scannedVersion, noPartition); err != nil {
				return n, err
			}
			operations = append(operations, o)
		}
		refused, err := f.writer.write(ctx, index, operations)
		if err != nil {
			return n, err
		}
		if len(refused) > 0 {
			return n, fmt.Errorf("OpenSearch refuses %d documents, the first with %s", len(refused), refused[0].kind)
		}
		n += int64(len(operations))
		done += int64(len(rows))
		progress.Set(done)
		after = rows[len(rows)-1].Hash
	}
}
