-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "usage_events"}}{{.OnCluster}} (
    organization_id String COMMENT 'Organization that called',
    period LowCardinality(String) COMMENT 'Month of UTC that the call counts in, such as 2026-11',
    request_id String COMMENT 'Identity: the X-Request-Id of the answer',
    key_id LowCardinality(String) COMMENT 'Public part of the API key',
    at DateTime64(6, 'UTC') COMMENT 'When the call was made',
    method LowCardinality(String) COMMENT 'HTTP method',
    endpoint LowCardinality(String) COMMENT 'Path of the endpoint',
    status UInt16 COMMENT 'HTTP status',
    outcome LowCardinality(String) COMMENT 'charged, free, failed, replayed, unanswered, or refused_ and why',
    plan LowCardinality(String) COMMENT 'Plan of the organization at that moment',
    requests Int64 COMMENT 'What counts against the monthly requests',
    credits Int64 COMMENT 'What X-Credits-Charged said',
    duration_us Int64 COMMENT 'Time to the answer in microseconds',
    returned Array(String) COMMENT 'Keyed hashes of the identities that were returned',
    groups Array(LowCardinality(String)) COMMENT 'Groups of fields that were returned',
    ver UInt8 COMMENT 'What ReplacingMergeTree compares: a call that was answered wins over the report that it was not',
    topic LowCardinality(String) COMMENT 'Topic of the event that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "usage_events" "ver"}}
PARTITION BY period
ORDER BY (organization_id, period, request_id)
SETTINGS {{.Deduplication}}
COMMENT 'The ledger: every call that was charged, could have been, or was refused, once';
{{.Distributed "usage_events" "organization_id"}}
CREATE VIEW IF NOT EXISTS usage_monthly{{.OnCluster}} AS
SELECT
    organization_id,
    period,
    key_id,
    endpoint,
    countIf(outcome IN ('charged', 'free', 'failed')) AS calls,
    sum(requests) AS requests,
    sum(credits) AS credits,
    countIf(outcome = 'replayed') AS replayed,
    countIf(startsWith(outcome, 'refused')) AS refused,
    countIf(outcome = 'failed') AS failed,
    max(at) AS last_at
FROM usage_events FINAL
GROUP BY organization_id, period, key_id, endpoint;
