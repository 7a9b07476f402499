package readmodel

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/event"
)

// WebhookAttemptsTable is the read model of webhook delivery attempts.
const WebhookAttemptsTable = "webhook_attempts"

// WebhookBatch holds rows of attempts for an insert. The zero value is empty.
type WebhookBatch struct{ eventRows[webhookRow] }

type webhookRow struct {
	OrganizationID string    `ch:"organization_id"`
	DeliveryID     string    `ch:"delivery_id"`
	Round          string    `ch:"round"`
	Attempt        uint16    `ch:"attempt"`
	EndpointID     string    `ch:"endpoint_id"`
	Address        string    `ch:"address"`
	RequestID      string    `ch:"request_id"`
	At             time.Time `ch:"at"`
	DurationMicros int64     `ch:"duration_us"`
	HTTPStatus     uint16    `ch:"http_status"`
	Status         string    `ch:"status"`
	Error          string    `ch:"error"`
	Response       string    `ch:"response"`
	NextAt         time.Time `ch:"next_at"`
	CreatedAt      time.Time `ch:"created_at"`
	TaskPartition  int32     `ch:"task_partition"`
	TaskOffset     int64     `ch:"task_offset"`
	Position
}

// Add adds the row of an event.
func (b *WebhookBatch) Add(a *event.WebhookAttempt, at Position) {
	b.add(webhookRow{
		OrganizationID: a.OrganizationID, DeliveryID: a.DeliveryID, Round: a.Round,
		Attempt: uint16(max(0, min(a.Attempt, 1<<16-1))), EndpointID: a.EndpointID, Address: a.Address,
		RequestID: a.RequestID, At: a.At.UTC(), DurationMicros: a.DurationMicros,
		HTTPStatus: uint16(max(0, min(a.HTTPStatus, 999))), Status: string(a.Status), Error: a.Error,
		Response: a.Response, NextAt: orEpoch(a.NextAt), CreatedAt: orEpoch(a.CreatedAt),
		TaskPartition: int32(a.TaskPartition), //nolint:gosec // Kafka's partitions are int32
		TaskOffset:    a.TaskOffset, Position: at,
	})
}

// orEpoch returns t, or the epoch if t is zero, which the column cannot hold.
func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}

// InsertWebhooks writes a batch of attempts. Like Insert it is idempotent for the same token and rows.
func InsertWebhooks(ctx context.Context, conn driver.Conn, token string, b *WebhookBatch) error {
	return b.insert(ctx, conn, WebhookAttemptsTable, token)
}

// WebhookFilter selects deliveries. Empty fields match all.
type WebhookFilter struct {
	Organization, Endpoint, Delivery string
	Status                           event.WebhookStatus
	// Before, if set, selects deliveries that come after it in WebhookPage.
	Before *WebhookPosition
	// Limit is the maximum number of results.
	Limit int
}

// WebhookPosition is the place of a delivery in WebhookPage.
type WebhookPosition struct {
	CreatedAt time.Time
	Delivery  string
}

const webhookWhere = " FROM " + WebhookAttemptsTable +
	" FINAL WHERE ({organization:String} = '' OR organization_id = {organization:String})" +
	" AND ({endpoint:String} = '' OR endpoint_id = {endpoint:String}) AND ({delivery:String} = '' OR delivery_id = " +
	"{delivery:String})"

// WebhookDeliveries returns the last attempt of each matching delivery, newest first.
func WebhookDeliveries(ctx context.Context, conn driver.Conn, f WebhookFilter) ([]event.WebhookAttempt, error) {
	return webhookAttempts(ctx, conn, f, "SELECT * FROM (SELECT *"+webhookWhere+
		" ORDER BY at DESC, attempt DESC LIMIT 1 BY organization_id, delivery_id)"+
		" WHERE {status:String} = '' OR status = {status:String} ORDER BY at DESC LIMIT {limit:UInt32}")
}

// WebhookPage returns the last attempt of each matching delivery, by the time when the delivery was requested or last
// sent again, newest first.
func WebhookPage(ctx context.Context, conn driver.Conn, f WebhookFilter) ([]event.WebhookAttempt, error) {
	before := ""
	if f.Before != nil {
		before = fmt.Sprintf(" AND (created_at, delivery_id) < (fromUnixTimestamp64Micro(toInt64(%d)), "+
			"{before:String})", f.Before.CreatedAt.UnixMicro())
	}
	return webhookAttempts(ctx, conn, f, "SELECT * FROM (SELECT *"+webhookWhere+
		" ORDER BY at DESC, attempt DESC LIMIT 1 BY organization_id, delivery_id)"+
		" WHERE ({status:String} = '' OR status = {status:String})"+before+
		" ORDER BY created_at DESC, delivery_id DESC LIMIT {limit:UInt32}")
}

// WebhookAttempts returns the matching attempts, oldest first.
func WebhookAttempts(ctx context.Context, conn driver.Conn, f WebhookFilter) ([]event.WebhookAttempt, error) {
	return webhookAttempts(ctx, conn, f, "SELECT *"+webhookWhere+
		" AND ({status:String} = '' OR status = {status:String}) ORDER BY at, attempt LIMIT {limit:UInt32}")
}

func webhookAttempts(
	ctx context.Context, conn driver.Conn, f WebhookFilter, query string,
) (out []event.WebhookAttempt, err error) {
	var rows []webhookRow
	if err := conn.Select(webhookContext(ctx, f), &rows, query); err != nil {
		return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
	}
	for _, r := range rows {
		a := event.WebhookAttempt{
			DeliveryID: r.DeliveryID, Round: r.Round, Attempt: int(r.Attempt), EndpointID: r.EndpointID,
			OrganizationID: r.OrganizationID, RequestID: r.RequestID, Address: r.Address, At: r.At,
			DurationMicros: r.DurationMicros, HTTPStatus: int(r.HTTPStatus), Status: event.WebhookStatus(r.Status),
			Error: r.Error, Response: r.Response, CreatedAt: r.CreatedAt, TaskPartition: int(r.TaskPartition),
			TaskOffset: r.TaskOffset,
		}
		if r.NextAt.Unix() != 0 {
			a.NextAt = r.NextAt
		}
		out = append(out, a)
	}
	return out, nil
}

// webhookContext sets the parameters of a filter.
func webhookContext(ctx context.Context, f WebhookFilter) context.Context {
	before := ""
	if f.Before != nil {
		before = f.Before.Delivery
	}
	return clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		"before": before, "organization": f.Organization, "endpoint": f.Endpoint, "delivery": f.Delivery,
		"status": string(f.Status),
		"limit":  fmt.Sprint(max(f.Limit, 1)),
	}))
}

// WebhookEndpoint is a summary of the deliveries to an endpoint.
type WebhookEndpoint struct {
	EndpointID     string    `ch:"endpoint_id"`
	OrganizationID string    `ch:"organization"`
	Address        string    `ch:"address"`
	Attempts       uint64    `ch:"attempts"`
	Delivered      uint64    `ch:"delivered"`
	Dead           uint64    `ch:"dead"`
	LastAt         time.Time `ch:"last_at"`
	LastError      string    `ch:"last_error"`
}

// WebhookEndpoints returns the endpoints of the matching deliveries, last used first.
func WebhookEndpoints(ctx context.Context, conn driver.Conn, f WebhookFilter) (out []WebhookEndpoint, err error) {
	err = conn.Select(webhookContext(ctx, f), &out, "SELECT endpoint_id, any(organization_id) AS organization,"+
		" any(address) AS address, count() AS attempts, countIf(status = 'delivered') AS delivered,"+
		" countIf(status = 'dead') AS dead, max(at) AS last_at, argMax(error, at) AS last_error"+webhookWhere+
		" GROUP BY endpoint_id ORDER BY last_at DESC LIMIT {limit:UInt32}")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
	}
	return out, nil
}
