-- owner: projector
CREATE OR REPLACE VIEW usage_monthly{{.OnCluster}} (
    organization_id String COMMENT 'Organization that called',
    period LowCardinality(String) COMMENT 'Month of UTC that the calls count in, such as 2026-11',
    key_id LowCardinality(String) COMMENT 'Public part of the API key',
    endpoint LowCardinality(String) COMMENT 'Path of the endpoint',
    calls UInt64 COMMENT 'Answered calls, replays left out',
    requests Int64 COMMENT 'What counts against the monthly requests',
    credits Int64 COMMENT 'Credits charged',
    replayed UInt64 COMMENT 'Answers that were sent again for an Idempotency-Key',
    refused UInt64 COMMENT 'Calls that were refused for rate, credits or permission',
    failed UInt64 COMMENT 'Calls that failed here',
    last_at DateTime64(6, 'UTC') COMMENT 'When the last of them was made'
) AS
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
GROUP BY organization_id, period, key_id, endpoint
COMMENT 'Who called what, by month';
