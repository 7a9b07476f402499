package bulk

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"

	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// Answer is the answer to a row.
type Answer struct {
	// Body is the row's result as a JSON object with its reference.
	Body []byte `json:"body"`
	// Credits and Requests are what the row is charged.
	Credits  int64 `json:"credits,omitempty"`
	Requests int64 `json:"requests,omitempty"`
	// Identities, Identifiers, Accounts and Groups are those of metering.Used.
	Identities  []string `json:"identities,omitempty"`
	Identifiers []string `json:"identifiers,omitempty"`
	Accounts    []string `json:"accounts,omitempty"`
	Groups      []string `json:"groups,omitempty"`
}

// chunk is the content of a chunk: its rows as uploaded, and only their references once they are answered.
type chunk struct {
	Rows []Row `json:"rows"`
}

// failure is the content of a failed job's row.
type failure struct {
	Detail string `json:"detail"`
}

// table reads and writes the rows of jobs.
type table struct {
	conn       driver.Conn
	sealer     *sealer
	suppressed *suppress.Set
	inserts    chan insertRequest
}

// row seals the content of a row of a job.
func (t *table) row(
	job *event.BulkJob, kind string, number int, version int64, content any,
) (readmodel.BulkRow, error) {
	sealed, err := t.sealer.seal(content, place(job.JobID, kind, number, version))
	if err != nil {
		return readmodel.BulkRow{}, fmt.Errorf("bulk job %s: %s %d: %w", job.JobID, kind, number, err)
	}
	return readmodel.BulkRow{
		JobID: job.JobID, OrganizationID: job.OrganizationID, Kind: kind, At: job.At, Version: version,
		Number: int32(number), Sealed: sealed, //nolint:gosec // at most event.MaxBulkRows
	}, nil
}

// open opens a row of a job.
func (t *table) open(r *readmodel.BulkRow, into any) error {
	err := t.sealer.open(r.Sealed, place(r.JobID, r.Kind, int(r.Number), r.Version), into)
	if err != nil {
		return fmt.Errorf("bulk job %s: %s %d: %w", r.JobID, r.Kind, r.Number, err)
	}
	return nil
}

// finished returns the version of a later state: the first one counts.
func finished(now time.Time) int64 { return math.MaxInt64 - now.UnixMicro() }

// job returns a job, nil if there is none, and why it has failed, empty if it has not.
func (t *table) job(ctx context.Context, id string) (job *event.BulkJob, failed string, err error) {
	rows, err := readmodel.ReadBulk(ctx, t.conn, id, readmodel.BulkKindJob, 0, 2)
	if err != nil {
		return nil, "", err
	}
	for i := range rows {
		switch rows[i].Number {
		case jobNumber:
			job = &event.BulkJob{}
			if err := t.open(&rows[i], job); err != nil {
				return nil, "", err
			}
		case failureNumber:
			var f failure
			if err := t.open(&rows[i], &f); err != nil {
				return nil, "", err
			}
			failed = f.Detail
		}
	}
	if job != nil {
		err = job.Validate()
	}
	return job, failed, err
}

// Numbers of the rows of kind job.
const (
	jobNumber     = 0
	failureNumber = 1
)

// chunk returns the newest state of a chunk; nil if it is not there, as on a replica of ClickHouse that lags.
func (t *table) chunk(ctx context.Context, jobID string, number int) (rows []Row, answered bool, err error) {
	found, err := readmodel.ReadBulk(ctx, t.conn, jobID, readmodel.BulkKindChunk, number, number+1)
	if err != nil || len(found) == 0 {
		return nil, false, err
	}
	var c chunk
	err = t.open(&found[0], &c)
	return c.Rows, found[0].Version > 0, err
}

// answers returns the stored answers to rows from first to before end. Those that were deleted are missing.
func (t *table) answers(ctx context.Context, jobID string, first, end int) (map[int]*Answer, error) {
	rows, err := readmodel.ReadBulk(ctx, t.conn, jobID, readmodel.BulkKindAnswer, first, end)
	if err != nil {
		return nil, err
	}
	out := make(map[int]*Answer, len(rows))
	for i := range rows {
		a := &Answer{}
		if err := t.open(&rows[i], a); err != nil {
			return nil, err
		}
		out[int(rows[i].Number)] = a
	}
	return out, nil
}

// answeredRows returns the rows that state the answers to a chunk.
func (t *table) answeredRows(
	job *event.BulkJob, number int, rows []Row, answers []Answer, asOf, now time.Time,
) ([]readmodel.BulkRow, error) {
	version := finished(now)
	first, _ := job.ChunkRows(number)
	out := make([]readmodel.BulkRow, 0, len(rows)+1)
	state := chunk{Rows: make([]Row, len(rows))}
	credits := int64(0)
	for i := range answers {
		a := &answers[i]
		r, err := t.row(job, readmodel.BulkKindAnswer, first+i, version, a)
		if err != nil {
			return nil, err
		}
		r.Subjects = t.suppressed.StoredHashes(suppress.Stored{
			Identities: a.Identities, Identifiers: a.Identifiers, Accounts: a.Accounts, Body: a.Body,
		})
		out = append(out, r)
		state.Rows[i].Reference = rows[i].Reference
		credits += a.Credits
	}
	// Last: a replica that has the chunk has its answers.
	r, err := t.row(job, readmodel.BulkKindChunk, number, version, state)
	r.Rows, r.Credits, r.AsOf = int32(len(rows)), credits, asOf //nolint:gosec // at most event.BulkChunkRows
	return append(out, r), err
}

// insertRequest is rows to insert together with others.
type insertRequest struct {
	rows []readmodel.BulkRow
	done chan error // buffered, for one result
}

// maxInsertRows bounds the rows of one insert, besides those of its first request.
const maxInsertRows = 2000

// insert inserts rows. Rows of concurrent calls share a statement, because every statement makes a part of the table.
func (t *table) insert(ctx context.Context, rows []readmodel.BulkRow) error {
	r := insertRequest{rows: rows, done: make(chan error, 1)}
	select {
	case t.inserts <- r:
	case <-ctx.Done():
		return fmt.Errorf("insert bulk rows: %w", context.Cause(ctx))
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("insert bulk rows: %w", context.Cause(ctx))
	}
}

// runInserts inserts requested rows until ctx ends.
func (t *table) runInserts(ctx context.Context) {
	for {
		var batch []insertRequest
		select {
		case r := <-t.inserts:
			batch = append(batch, r)
		case <-ctx.Done():
			return
		}
		rows := batch[0].rows
		for more := true; more && len(rows) < maxInsertRows; {
			select {
			case r := <-t.inserts:
				batch, rows = append(batch, r), append(rows, r.rows...)
			default:
				more = false
			}
		}
		err := t.insertNow(ctx, rows)
		for _, r := range batch {
			r.done <- err
		}
	}
}

// insertTimeout bounds one insert.
const insertTimeout = 30 * time.Second

func (t *table) insertNow(ctx context.Context, rows []readmodel.BulkRow) error {
	token, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("insert bulk rows: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	return readmodel.InsertBulk(ctx, t.conn, token.String(), rows)
}
