-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "webhook_attempts"}}{{.OnCluster}} (
    organization_id String COMMENT 'Organization whose delivery it is',
    delivery_id String COMMENT 'The webhook-id',
    round String COMMENT 'Names the order to send again; empty for the first time',
    attempt UInt16 COMMENT 'Number of the try in its round',
    endpoint_id String COMMENT 'Endpoint: organization, scheme, host, port and path',
    address String COMMENT 'The endpoint, without the query of the URL',
    request_id String COMMENT 'Call that asked for the delivery',
    at DateTime64(6, 'UTC') COMMENT 'When the try was made',
    duration_us Int64 COMMENT 'How long it took in microseconds',
    http_status UInt16 COMMENT 'Status of the answer; 0 without one',
    status LowCardinality(String) COMMENT 'Of the delivery after the try: pending, delivered, dead',
    error LowCardinality(String) COMMENT 'Class of the failure; empty when it was delivered',
    response String COMMENT 'Beginning of a failure''s answer, redacted',
    next_at DateTime64(6, 'UTC') COMMENT 'When the next try is due; 1970 when there is none',
    created_at DateTime64(6, 'UTC') COMMENT 'When the delivery was ordered',
    task_partition Int32 COMMENT 'Where the task stands in muster.task.webhook.v1',
    task_offset Int64 COMMENT 'Its offset there',
    topic LowCardinality(String) COMMENT 'Topic of the event that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "webhook_attempts" "offset"}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (organization_id, delivery_id, created_at, round, attempt)
TTL toDateTime(created_at) + INTERVAL 90 DAY
SETTINGS {{.Deduplication}}
COMMENT 'Every try to deliver a webhook, and every decision not to try any more';
{{.Distributed "webhook_attempts" "organization_id"}}
