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
type WebhookBatch struct {
	organization, delivery, round column[string]
	attempt                       column[uint16]
	endpoint, address, request    column[string]
	at                            column[time.Time]
	duration                      column[int64]
	httpStatus                    column[uint16]
	status, errorClass, response  column[string]
	nextAt, createdAt             column[time.Time]
	taskPartition                 column[int32]
	taskOffset                    column[int64]
	topic                         column[string]
	partition                     column[int32]
	offset                        column[int64]
}

// Add adds the row of an event.
func (b *WebhookBatch) Add(a *event.WebhookAttempt, at Position) {
	b.organization.add(a.OrganizationID)
	b.delivery.add(a.DeliveryID)
	b.round.add(a.Round)
	b.attempt.add(uint16(max(0, min(a.Attempt, 1<<16-1))))
	b.endpoint.add(a.EndpointID)
	b.address.add(a.Address)
	b.request.add(a.RequestID)
	b.at.add(a.At.UTC())
	b.duration.add(a.DurationMicros)
	b.httpStatus.add(uint16(max(0, min(a.HTTPStatus, 999))))
	b.status.add(string(a.Status))
	b.errorClass.add(a.Error)
	b.response.add(a.Response)
	b.nextAt.add(orEpoch(a.NextAt))
	b.createdAt.add(orEpoch(a.CreatedAt))
	b.taskPartition.add(int32(a.TaskPartition)) //nolint:gosec // Kafka's partitions are int32
	b.taskOffset.add(a.TaskOffset)
	b.topic.add(at.Topic)
	b.partition.add(at.Partition)
	b.offset.add(at.Offset)
}

// orEpoch returns t, or the epoch if t is zero, which the column cannot hold.
func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}

// Len returns the number of rows.
func (b *WebhookBatch) Len() int { return len(b.delivery.list) }

func (b *WebhookBatch) columns() []field {
	return []field{
		{"organization_id", "String", &b.organization},
		{"delivery_id", "String", &b.delivery},
		{"round", "String", &b.round},
		{"attempt", "UInt16", &b.attempt},
		{"endpoint_id", "String", &b.endpoint},
		{"address", "String", &b.address},
		{"request_id", "String", &b.request},
		{"at", "DateTime64(6, 'UTC')", &b.at},
		{"duration_us", "Int64", &b.duration},
		{"http_status", "UInt16", &b.httpStatus},
		{"status", "String", &b.status},
		{"error", "String", &b.errorClass},
		{"response", "String", &b.response},
		{"next_at", "DateTime64(6, 'UTC')", &b.nextAt},
		{"created_at", "DateTime64(6, 'UTC')", &b.createdAt},
		{"task_partition", "Int32", &b.taskPartition},
		{"task_offset", "Int64", &b.taskOffset},
		{"topic", "String", &b.topic},
		{"partition", "Int32", &b.partition},
		{"offset", "Int64", &b.offset},
	}
}

// InsertWebhooks writes a batch of attempts. Like Insert it is idempotent for the same token and rows.
func InsertWebhooks(ctx context.Context, conn driver.Conn, token string, b *WebhookBatch) error {
	return insertEvents(ctx, conn, WebhookAttemptsTable, token, b)
}

// WebhookFilter selects deliveries. Empty fields match all.
type WebhookFilter struct {
	Organization, Endpoint, Delivery string
	Status                           event.WebhookStatus
	// Limit is the maximum number of results.
	Limit int
}

// webhookColumns are the columns of an attempt in scan order.
const webhookColumns = "delivery_id, round, attempt, endpoint_id, organization_id, request_id, address, at, " +
	"duration_us, http_status, " +
	"status, error, response, next_at, created_at, task_partition, task_offset"

const webhookWhere = " FROM " + WebhookAttemptsTable +
	" FINAL WHERE ({organization:String} = '' OR organization_id = {organization:String})" +
	" AND ({endpoint:String} = '' OR endpoint_id = {endpoint:String}) AND ({delivery:String} = '' OR delivery_id = " +
	"{delivery:String})"

// WebhookDeliveries returns the last attempt of each matching delivery, newest first.
func WebhookDeliveries(ctx context.Context, conn driver.Conn, f WebhookFilter) ([]event.WebhookAttempt, error) {
	return webhookAttempts(ctx, conn, f, "SELECT "+webhookColumns+" FROM (SELECT *"+webhookWhere+
		" ORDER BY at DESC, attempt DESC LIMIT 1 BY organization_id, delivery_id)"+
		" WHERE {status:String} = '' OR status = {status:String} ORDER BY at DESC LIMIT {limit:UInt32}")
}

// WebhookAttempts returns the matching attempts, oldest first.
func WebhookAttempts(ctx context.Context, conn driver.Conn, f WebhookFilter) ([]event.WebhookAttempt, error) {
	return webhookAttempts(ctx, conn, f, "SELECT "+webhookColumns+webhookWhere+
		" AND ({status:String} = '' OR status = {status:String}) ORDER BY at, attempt LIMIT {limit:UInt32}")
}

func webhookAttempts(
	ctx context.Context, conn driver.Conn, f WebhookFilter, query string,
) (out []event.WebhookAttempt, err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		"organization": f.Organization, "endpoint": f.Endpoint, "delivery": f.Delivery, "status": string(f.Status),
		"limit": fmt.Sprint(max(f.Limit, 1)),
	}))
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
	}
	defer func() {
		if closeErr := rows.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("read %s: %w", WebhookAttemptsTable, closeErr)
		}
	}()
	for rows.Next() {
		var a event.WebhookAttempt
		var attempt, httpStatus uint16
		var status string
		var partition int32
		if err := rows.Scan(&a.DeliveryID, &a.Round, &attempt, &a.EndpointID, &a.OrganizationID, &a.RequestID,
			&a.Address, &a.At,
			&a.DurationMicros, &httpStatus, &status, &a.Error, &a.Response, &a.NextAt, &a.CreatedAt, &partition,
			&a.TaskOffset); err != nil {
			return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
		}
		a.Attempt, a.HTTPStatus, a.Status, a.TaskPartition = int(attempt), int(httpStatus), event.WebhookStatus(status),
			int(partition)
		if a.NextAt.Unix() == 0 {
			a.NextAt = time.Time{}
		}
		out = append(out, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
	}
	return out, nil
}

// WebhookEndpoint is a summary of the deliveries to an endpoint.
type WebhookEndpoint struct {
	EndpointID, OrganizationID, Address string
	Attempts, Delivered, Dead           uint64
	LastAt                              time.Time
	LastError                           string
}

// WebhookEndpoints returns the endpoints of the matching deliveries, last used first.
func WebhookEndpoints(ctx context.Context, conn driver.Conn, f WebhookFilter) (out []WebhookEndpoint, err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{
		"organization": f.Organization, "endpoint": f.Endpoint, "delivery": f.Delivery,
		"limit": fmt.Sprint(max(f.Limit, 1)),
	}))
	rows, err := conn.Query(ctx, "SELECT endpoint_id, any(organization_id), any(address), count(), countIf(status = "+
		"'delivered'),"+
		" countIf(status = 'dead'), max(at) AS last, argMax(error, at)"+webhookWhere+
		" GROUP BY endpoint_id ORDER BY last DESC LIMIT {limit:UInt32}")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
	}
	defer func() {
		if closeErr := rows.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("read %s: %w", WebhookAttemptsTable, closeErr)
		}
	}()
	for rows.Next() {
		var e WebhookEndpoint
		if err := rows.Scan(&e.EndpointID, &e.OrganizationID, &e.Address, &e.Attempts, &e.Delivered, &e.Dead, &e.LastAt,
			&e.LastError); err != nil {
			return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
		}
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", WebhookAttemptsTable, err)
	}
	return out, nil
}
