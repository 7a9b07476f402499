CREATE OR REPLACE VIEW {{.Views}}.usage{{.OnCluster}} (
    organization_id String COMMENT 'Organization that called',
    day Date COMMENT 'Day of UTC',
    key_id LowCardinality(String) COMMENT 'Public part of the API key',
    endpoint LowCardinality(String) COMMENT 'Path of the endpoint',
    calls UInt64 COMMENT 'Answered calls, replays left out',
    requests Int64 COMMENT 'What counts against the monthly requests',
    credits Int64 COMMENT 'Credits charged',
    replayed UInt64 COMMENT 'Answers that were sent again for an Idempotency-Key',
    refused UInt64 COMMENT 'Calls that were refused for rate, credits or permission',
    failed UInt64 COMMENT 'Calls that failed here',
    median_ms Float64 COMMENT 'Median time to the answer in milliseconds',
    p99_ms Float64 COMMENT 'Time in milliseconds within which 99 of 100 were answered'
) AS
SELECT
    organization_id,
    toDate(at, 'UTC') AS day,
    key_id,
    endpoint,
    countIf(outcome IN ('charged', 'free', 'failed')) AS calls,
    sum(requests) AS requests,
    sum(credits) AS credits,
    countIf(outcome = 'replayed') AS replayed,
    countIf(startsWith(outcome, 'refused')) AS refused,
    countIf(outcome = 'failed') AS failed,
    quantileExact(0.5)(duration_us) / 1000 AS median_ms,
    quantileExact(0.99)(duration_us) / 1000 AS p99_ms
FROM {{.Tables}}.usage_events FINAL
GROUP BY organization_id, day, key_id, endpoint
COMMENT 'Who called what, by day';
