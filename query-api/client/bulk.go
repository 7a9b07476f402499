package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// BulkOptions describes a job of [Client.SubmitBulk].
type BulkOptions struct {
	// Operation is what to do with each row. Required.
	Operation BulkOperation
	// CSV declares that the rows are CSV with a header; the default is NDJSON ([BulkRows]).
	CSV bool
	// Fields are the columns of the results, which are then CSV: read them with [Client.GetBulkResults].
	Fields []string
	// WebhookURL is the address to deliver the finished job to.
	WebhookURL string
	// MaxCredits is the maximum cost of the job; 0 is no limit.
	MaxCredits int64
	// DryRun validates the upload and returns its maximum cost.
	DryRun bool
}

// BulkRows returns rows as NDJSON, such as values of PersonEnrichItem.
func BulkRows[T any](rows ...T) ([]byte, error) {
	var out bytes.Buffer
	for i := range rows {
		line, err := json.Marshal(&rows[i], json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("encode row %d: %w", i+1, err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// SubmitBulk submits a job of up to 100,000 rows and 64 MiB (POST /v1/bulk). [Client.WaitBulk] waits for it.
func (c *Client) SubmitBulk(
	ctx context.Context, rows []byte, o BulkOptions, options ...CallOption,
) (*Response[BulkAccepted], error) {
	r, err := newPost("/v1/bulk", nil, options)
	if err != nil {
		return nil, err
	}
	r.body, r.contentType = rows, "application/x-ndjson"
	if o.CSV {
		r.contentType = "text/csv"
	}
	r.query = url.Values{"operation": {string(o.Operation)}}
	if len(o.Fields) > 0 {
		r.query.Set("fields", strings.Join(o.Fields, ","))
	}
	if o.WebhookURL != "" {
		r.query.Set("webhook_url", o.WebhookURL)
	}
	if o.MaxCredits != 0 {
		r.query.Set("max_credits", strconv.FormatInt(o.MaxCredits, 10))
	}
	if o.DryRun {
		r.query.Set("dry_run", "true")
	}
	return call[BulkAccepted](ctx, c, r, o.DryRun)
}

// GetBulk returns the status of a job (GET /v1/bulk/{job_id}).
func (c *Client) GetBulk(ctx context.Context, jobID string) (*Response[BulkJob], error) {
	return call[BulkJob](ctx, c, newGet("/v1/bulk/"+url.PathEscape(jobID), nil), false)
}

// Pauses between the calls of [Client.WaitBulk].
const (
	minBulkPause = 200 * time.Millisecond
	maxBulkPause = 5 * time.Second
)

// WaitBulk waits until a job is done or has failed, and returns it. If progress is not nil, it is called with each
// status before.
func (c *Client) WaitBulk(
	ctx context.Context, jobID string, progress func(*BulkJob),
) (*Response[BulkJob], error) {
	for pause := minBulkPause; ; pause = min(maxBulkPause, 2*pause) {
		job, err := c.GetBulk(ctx, jobID)
		if err != nil {
			return job, err
		}
		if job.Value.Status == BulkJobStatusDone || job.Value.Status == BulkJobStatusFailed {
			return job, nil
		}
		if progress != nil {
			progress(&job.Value)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return job, fmt.Errorf("wait for bulk job %s: %w", jobID, context.Cause(ctx))
		}
	}
}

// GetBulkResults copies the results of a finished job to w, as NDJSON, or as CSV if the job has Fields
// (GET /v1/bulk/{job_id}/results). It returns an error, after less than all results may have been written, if the
// connection breaks.
func (c *Client) GetBulkResults(ctx context.Context, jobID string, w io.Writer) error {
	body, err := c.openBulk(ctx, jobID)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("read results of bulk job %s: %w", jobID, err)
	}
	return nil
}

// openBulk opens the results of a finished job.
func (c *Client) openBulk(ctx context.Context, jobID string) (io.ReadCloser, error) {
	r := newGet("/v1/bulk/"+url.PathEscape(jobID)+"/results", nil)
	r.stream = true
	metadata, _, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if metadata.Status != http.StatusOK {
		_ = r.opened.Close() // it was not read
		return nil, fmt.Errorf("bulk job %s is not done: call WaitBulk", jobID)
	}
	return r.opened, nil
}

// BulkResult is the result of a row. The members that do not belong to the operation of the job are empty.
type BulkResult struct {
	// Reference is that of the row, or its number.
	Reference string `json:"reference"`
	// Detail is why the row is invalid, MissReason why nothing matches.
	Detail     string `json:"detail,omitempty"`
	MissReason string `json:"miss_reason,omitempty"`
	// WebsetsMatched and Person are the result of person_enrich.
	WebsetsMatched []WebsetName    `json:"websets_matched,omitempty"`
	Person         *EnrichedPerson `json:"person,omitempty"`
	// Matched and Company are the result of company_enrich.
	Matched bool     `json:"matched,omitempty"`
	Company *Company `json:"company,omitempty"`
	// Socials and Degraded are the result of discover.
	Socials  []Social `json:"socials,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
}

// maxBulkResult is the maximum size of a result in bytes.
const maxBulkResult = 64 << 20

// BulkResults iterates over the results of a finished job without Fields, in the order of the rows. An error ends the
// iteration.
func (c *Client) BulkResults(ctx context.Context, jobID string) iter.Seq2[BulkResult, error] {
	return func(yield func(BulkResult, error) bool) {
		body, err := c.openBulk(ctx, jobID)
		if err != nil {
			yield(BulkResult{}, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 64<<10), maxBulkResult)
		for lines.Scan() {
			var result BulkResult
			err := json.Unmarshal(lines.Bytes(), &result)
			if err != nil {
				err = fmt.Errorf("decode result of bulk job %s: %w", jobID, err)
			}
			if !yield(result, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(BulkResult{}, fmt.Errorf("read results of bulk job %s: %w", jobID, err))
		}
	}
}
