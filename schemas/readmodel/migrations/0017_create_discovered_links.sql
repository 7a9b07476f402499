-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "discovered_links"}}{{.OnCluster}} (
    found_hash UInt64 COMMENT 'Hash of platform and username key of the profile that was found, the order of the table',
    found_platform LowCardinality(String) COMMENT 'Platform of the profile that was found',
    found_key String COMMENT 'Comparison form of its username',
    found_identity String COMMENT 'Its stable id at its platform; empty: not known',
    input_hash UInt64 COMMENT 'discoveries.input_hash of the input',
    input_platform LowCardinality(String) COMMENT 'Platform of the input',
    input_key String COMMENT 'Comparison form of the username of the input',
    input_identity String COMMENT 'Stable id of the input at its platform; empty: not known',
    confidence Float64 COMMENT 'Calibrated probability that both are one person, 0.9 and more',
    at DateTime64(6, 'UTC') COMMENT 'When the work was finished',
    version Int64 COMMENT 'at in microseconds since 1970-01-01T00:00:00Z; what ReplacingMergeTree compares',
    topic LowCardinality(String) COMMENT 'Topic of the event that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "discovered_links" "version"}}
ORDER BY (found_hash, found_platform, found_key, input_hash, input_platform, input_key)
TTL toDateTime(at) + INTERVAL 366 DAY
SETTINGS {{.Lookup 64}}
COMMENT 'Which inputs of discovery have found a profile: candidates, true as long as the newest result of the input says so';
{{.Distributed "discovered_links" "found_hash"}}
