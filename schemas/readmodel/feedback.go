package readmodel

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/event"
)

// FeedbackTable is the read model of feedback, with the decisions of the operator.
const FeedbackTable = "feedback"

// FeedbackHash is the SQL expression that identifies feedback in statements that ClickHouse keeps on disk.
const FeedbackHash = "cityHash64(feedback_id)"

// FeedbackBatch holds feedback for an insert. The zero value is empty.
type FeedbackBatch struct{ eventRows[feedbackRow] }

type feedbackRow struct {
	FeedbackID     string    `ch:"feedback_id"`
	OrganizationID string    `ch:"organization_id"`
	At             time.Time `ch:"at"`
	Status         string    `ch:"status"`
	Version        int64     `ch:"version"`
	Content        string    `ch:"content"`
	Position
}

// Add adds the row of an event.
func (b *FeedbackBatch) Add(f *event.Feedback, at Position) error {
	content, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode feedback: %w", err)
	}
	version := int64(0) // a decision wins, also if it arrives first
	if f.Status != event.FeedbackPending {
		version = f.DecidedAt.UnixMicro()
	}
	b.add(feedbackRow{
		FeedbackID: f.ID, OrganizationID: f.OrganizationID, At: f.At.UTC(), Status: string(f.Status), Version: version,
		Content: string(content), Position: at,
	})
	return nil
}

// InsertFeedback writes a batch of feedback. Like Insert it is idempotent for the same token and rows.
func InsertFeedback(ctx context.Context, conn driver.Conn, token string, b *FeedbackBatch) error {
	return b.insert(ctx, conn, FeedbackTable, token)
}

// FeedbackFilter selects feedback. Empty fields match all.
type FeedbackFilter struct {
	ID, Organization string
	Status           event.FeedbackStatus
	// Limit is the maximum number of results.
	Limit int
}

// ReadFeedback returns matching feedback, newest first.
func ReadFeedback(ctx context.Context, conn driver.Conn, f FeedbackFilter) ([]event.Feedback, error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		"id": f.ID, "organization": f.Organization, "status": string(f.Status),
	}))
	out := []event.Feedback{}
	err := readRows(ctx, conn, "SELECT content FROM "+FeedbackTable+" FINAL WHERE ({id:String} = '' OR feedback_id = "+
		"{id:String}) AND ({organization:String} = '' OR organization_id = {organization:String}) AND "+
		"({status:String} = '' OR status = {status:String}) ORDER BY at DESC, feedback_id LIMIT "+strconv.Itoa(f.Limit),
		func(rows driver.Rows) error {
			var content string
			var one event.Feedback
			if err := rows.Scan(&content); err != nil {
				return err
			}
			err := json.Unmarshal([]byte(content), &one)
			out = append(out, one)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read feedback: %w", err)
	}
	return out, nil
}
