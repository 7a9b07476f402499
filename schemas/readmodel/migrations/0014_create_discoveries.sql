-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "discoveries"}}{{.OnCluster}} (
    input_hash UInt64 COMMENT 'Hash of platform and username key, the order of the table',
    platform LowCardinality(String) COMMENT 'Platform of the input',
    username_key String COMMENT 'Comparison form of the username of the input',
    request_id String COMMENT 'Request that asked',
    at DateTime64(6, 'UTC') COMMENT 'When the work was finished',
    version Int64 COMMENT 'at in microseconds since 1970-01-01T00:00:00Z; what ReplacingMergeTree compares',
    found UInt8 COMMENT 'Profiles beyond the input',
    result String COMMENT 'The event as JSON' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the event that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "discoveries" "version"}}
ORDER BY (input_hash, platform, username_key)
TTL toDateTime(at) + INTERVAL 366 DAY
SETTINGS {{.Lookup 64}}
COMMENT 'Newest whole result of discovery for each input';
{{.Distributed "discoveries" "input_hash"}}
