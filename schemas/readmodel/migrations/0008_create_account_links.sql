-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "account_links"}}{{.OnCluster}} (
    link_hash UInt64 COMMENT 'Hash of link_id, the order of the table',
    link_id String COMMENT 'Identity: the two accounts and the source',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    a_platform LowCardinality(String) COMMENT 'Platform of the first account',
    a_username String COMMENT 'Username of the first account as the record has it',
    a_key String COMMENT 'Its comparison form',
    b_platform LowCardinality(String) COMMENT 'Platform of the second account',
    b_username String COMMENT 'Username of the second account as the record has it',
    b_key String COMMENT 'Its comparison form',
    source LowCardinality(String) COMMENT 'Who states the link',
    confidence Float32 COMMENT 'As stated, 1 when not stated',
    observed_at String COMMENT 'observed_at as the record has it',
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "account_links" "ver"}}
ORDER BY (link_hash, link_id)
SETTINGS {{.Deduplication}}
COMMENT 'Statements that two accounts belong to one person, newest version of each';
{{.Distributed "account_links" "link_hash"}}
