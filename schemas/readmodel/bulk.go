package readmodel

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// BulkTable has the bulk jobs of query-api, its only writer. Rows are immutable: a later state of a job or chunk is
// another row with a greater version.
const BulkTable = "bulk_rows"

// Kinds of rows of BulkTable.
const (
	BulkKindJob    = "job"
	BulkKindChunk  = "chunk"
	BulkKindAnswer = "answer"
)

// BulkHash is an SQL expression that identifies rows of BulkTable in statements.
const BulkHash = "cityHash64(job_id, kind, number)"

// BulkRow is a row of BulkTable.
type BulkRow struct {
	// JobHash is set by InsertBulk.
	JobHash        uint64 `ch:"job_hash"`
	JobID          string `ch:"job_id"`
	OrganizationID string `ch:"organization_id"`
	Kind           string `ch:"kind"`
	Number         int32  `ch:"number"`
	// At is when the job was accepted.
	At time.Time `ch:"at"`
	// Version is 0 for what was accepted; the greatest one counts.
	Version int64 `ch:"version"`
	Rows    int32 `ch:"rows"`
	Credits int64 `ch:"credits"`
	// AsOf is the time as of which the data of a chunk's answers has every published record; the epoch if it is
	// unknown.
	AsOf time.Time `ch:"as_of"`
	// Subjects are hashes of the people in an answer (suppress.Stored).
	Subjects []byte `ch:"subjects"`
	Sealed   []byte `ch:"sealed"`
}

// InsertBulk writes rows. Like Insert it is idempotent for the same token and rows.
func InsertBulk(ctx context.Context, conn driver.Conn, token string, rows []BulkRow) error {
	b := eventRows[BulkRow]{rows: rows}
	for i := range rows {
		rows[i].JobHash, rows[i].At = bulkJobHash(rows[i].JobID), rows[i].At.UTC()
		if rows[i].AsOf.IsZero() {
			rows[i].AsOf = time.Unix(0, 0).UTC()
		}
	}
	return b.insert(ctx, conn, BulkTable, token)
}

func bulkJobHash(jobID string) uint64 { return KeyHash("bulk.job", jobID) }

// bulkColumns are the columns that ReadBulk and ReadBulkChunks scan; content is the column sealed or an empty string.
func bulkColumns(content string) string {
	return "SELECT organization_id, number, at, version, rows, credits, as_of, " + content + " FROM " + BulkTable +
		" WHERE job_hash = {hash:UInt64} AND job_id = {job:String} AND kind = {kind:String}"
}

// ReadBulk returns the newest version of the rows of a job, of a kind and with numbers from first to before end, by
// number.
func ReadBulk(ctx context.Context, conn driver.Conn, jobID, kind string, first, end int) ([]BulkRow, error) {
	return readBulk(ctx, conn, jobID, kind, bulkColumns("sealed")+
		" AND number >= "+strconv.Itoa(first)+" AND number < "+strconv.Itoa(end))
}

// ReadBulkChunks returns the newest version of all chunks of a job without their content, by number.
func ReadBulkChunks(ctx context.Context, conn driver.Conn, jobID string) ([]BulkRow, error) {
	return readBulk(ctx, conn, jobID, BulkKindChunk, bulkColumns("''"))
}

func readBulk(ctx context.Context, conn driver.Conn, jobID, kind, query string) ([]BulkRow, error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		"hash": strconv.FormatUint(bulkJobHash(jobID), 10), "job": jobID, "kind": kind,
	}), clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1}))
	var out []BulkRow
	err := readRows(ctx, conn, query+" ORDER BY number, version DESC LIMIT 1 BY number",
		func(rows driver.Rows) error {
			r := BulkRow{JobID: jobID, Kind: kind}
			var sealed string
			err := rows.Scan(&r.OrganizationID, &r.Number, &r.At, &r.Version, &r.Rows, &r.Credits, &r.AsOf, &sealed)
			r.Sealed = []byte(sealed)
			out = append(out, r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read %s of bulk job: %w", kind, err)
	}
	return out, nil
}
