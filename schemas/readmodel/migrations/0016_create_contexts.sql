-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "contexts"}}{{.OnCluster}} (
    request_hash UInt64 COMMENT 'Hash of the request id, the order of the table',
    request_id String COMMENT 'Request that was accepted',
    organization_id String COMMENT 'Whose it is: nobody else may read it',
    at DateTime64(6, 'UTC') COMMENT 'When it came to this status',
    version Int64 COMMENT '0 while it is processed, then at in microseconds since 1970-01-01T00:00:00Z; what ReplacingMergeTree compares',
    status LowCardinality(String) COMMENT 'processing, complete, failed',
    result String COMMENT 'The event as JSON, with the profile' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the event that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "contexts" "version"}}
ORDER BY (request_hash, request_id)
TTL toDateTime(at) + INTERVAL 2 DAY
SETTINGS {{.Lookup 64}}
COMMENT 'Calls of the context endpoint and what came of them; readers heed a day of them';
{{.Distributed "contexts" "request_hash"}}
