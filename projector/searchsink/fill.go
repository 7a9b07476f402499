package searchsink

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/readmodel"
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
	collection *readmodel.SearchCollection
	writer     *writer
	key        []byte
	conn       driver.Conn
	suppressed *suppress.Set
}

// run writes all documents that have none that was written for a touch, and returns their number. A
// repeated run writes them again, from the rows of that time.
func (f filler) run(ctx context.Context, index string, progress Progress) (n int64, err error) {
	if progress == nil {
		progress = noProgress{}
	}
	var total uint64
	if err := f.conn.QueryRow(ctx, "SELECT uniq("+f.collection.Hash+") FROM "+f.collection.Table).Scan(&total); err != nil {
		return 0, fmt.Errorf("count %s: %w", f.collection.Name, err)
	}
	progress.Begin("Filling "+index, int64(total))
	defer progress.End()
	var after uint64
	done := int64(0)
	for first := true; ; first = false {
		rows, err := searchindex.Page(ctx, f.conn, f.collection, after, first, rowsAtOnce)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		operations := make([]operation, 0, len(rows))
		for _, row := range rows {
			if row.Deleted || row.IsErased(f.suppressed) {
				continue
			}
			o := operation{id: searchindex.DocumentID(f.key, row.ID), version: scannedVersion, equal: true}
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
