package event

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// CloudEvents types of bulk jobs.
const (
	TypeBulkJobTask   = "io.muster.bulk.v1.job"
	TypeBulkChunkTask = "io.muster.bulk.v1.chunk"
)

// Limits of bulk jobs.
const (
	// MaxBulkBytes is the maximum size of an upload, MaxBulkRow that of a row, in bytes.
	MaxBulkBytes = 64 << 20
	MaxBulkRow   = 10 << 10
	// MaxBulkRows is the maximum number of rows of a job, BulkChunkRows the number of rows of a chunk.
	MaxBulkRows   = 100_000
	BulkChunkRows = 100
	// BulkRetention is how long a job and its answers are kept.
	BulkRetention = 7 * day
	// BulkDeadline is how long a job may take before it fails, and how long its credits are reserved.
	BulkDeadline = day
)

// BulkOperation is what a bulk job does with each row.
type BulkOperation string

// Operations of bulk jobs.
const (
	BulkPersonEnrich  BulkOperation = "person_enrich"
	BulkCompanyEnrich BulkOperation = "company_enrich"
	BulkDiscover      BulkOperation = "discover"
)

// BulkOperations returns all operations.
func BulkOperations() []string {
	return []string{string(BulkPersonEnrich), string(BulkCompanyEnrich), string(BulkDiscover)}
}

// Statuses of a bulk job.
const (
	BulkQueued  = "queued"
	BulkRunning = "running"
	BulkDone    = "done"
	BulkFailed  = "failed"
)

// BulkJob describes an accepted job. It never changes.
type BulkJob struct {
	JobID          string        `json:"job_id"`
	OrganizationID string        `json:"organization_id"`
	KeyID          string        `json:"key_id"`
	Plan           string        `json:"plan,omitempty"`
	Operation      BulkOperation `json:"operation"`
	At             time.Time     `json:"at"`
	Rows           int           `json:"rows"`
	// Price is the price of an answered row in credits; Counted rows count as monthly requests.
	Price   int64 `json:"price"`
	Counted bool  `json:"counted,omitempty"`
	// Fields are the columns of the answers as CSV. Without them, answers are NDJSON.
	Fields     []string `json:"fields,omitempty"`
	WebhookURL string   `json:"webhook_url,omitempty"`
}

// Validate returns an error if the job is invalid.
func (j *BulkJob) Validate() error {
	switch {
	case !ValidDeliveryID(j.JobID):
		return errors.New("bulk job without a valid job_id")
	case j.OrganizationID == "" || j.KeyID == "":
		return fmt.Errorf("bulk job %s without organization_id or key_id", j.JobID)
	case !slices.Contains(BulkOperations(), string(j.Operation)):
		return fmt.Errorf("bulk job %s with the unknown operation %q", j.JobID, j.Operation)
	case j.At.IsZero():
		return fmt.Errorf("bulk job %s without at", j.JobID)
	case j.Rows < 1 || j.Rows > MaxBulkRows:
		return fmt.Errorf("bulk job %s with %d rows", j.JobID, j.Rows)
	}
	return nil
}

// Chunks returns the number of chunks.
func (j *BulkJob) Chunks() int { return (j.Rows + BulkChunkRows - 1) / BulkChunkRows }

// ChunkRows returns the first row of a chunk and the row after its last. Rows and chunks count from 0.
func (j *BulkJob) ChunkRows(chunk int) (first, end int) {
	return chunk * BulkChunkRows, min(j.Rows, (chunk+1)*BulkChunkRows)
}

// UsageID returns the request id of a row in the ledger, so that a row is charged once.
func (j *BulkJob) UsageID(row int) string { return j.JobID + "-" + strconv.Itoa(row+1) }

// HoldID returns the id of a chunk's reservation: the usage id of its last row, whose event settles it.
func (j *BulkJob) HoldID(chunk int) string {
	_, end := j.ChunkRows(chunk)
	return j.UsageID(end - 1)
}

// BulkJobTask starts a job, on TopicBulkJobTask with its id as key.
type BulkJobTask struct {
	JobID string    `json:"job_id"`
	At    time.Time `json:"at"`
}

// Validate returns an error if the task is invalid.
func (t *BulkJobTask) Validate() error {
	if !ValidDeliveryID(t.JobID) || t.At.IsZero() {
		return errors.New("bulk job task without a valid job_id or at")
	}
	return nil
}

// BulkChunkTask requests the answers to a chunk, on TopicBulkChunkTask with job and chunk as key.
type BulkChunkTask struct {
	JobID string    `json:"job_id"`
	At    time.Time `json:"at"`
	Chunk int       `json:"chunk"`
}

// Key returns the Kafka key.
func (t *BulkChunkTask) Key() string { return t.JobID + "/" + strconv.Itoa(t.Chunk) }

// Validate returns an error if the task is invalid.
func (t *BulkChunkTask) Validate() error {
	if !ValidDeliveryID(t.JobID) || t.At.IsZero() || t.Chunk < 0 || t.Chunk*BulkChunkRows >= MaxBulkRows {
		return errors.New("bulk chunk task without a valid job_id, at or chunk")
	}
	return nil
}
