-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "seen_versions"}}{{.OnCluster}} (
    kind LowCardinality(String) COMMENT 'Kind of the record',
    key_hash UInt64 COMMENT 'What the table of the kind is ordered by: the hash of the identity, or a user_id',
    key String COMMENT 'Identity of the record',
    version Int64 COMMENT 'The newer version: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of the content that the record still had; of a row with another hash this states nothing',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'Always false: withdrawals are records',
    last_updated String COMMENT 'The newer version as the record has it',
    topic LowCardinality(String) COMMENT 'Topic of the message that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "seen_versions" "ver"}}
ORDER BY (kind, key_hash, key, content_hash)
SETTINGS {{.Lookup 128}}
COMMENT 'Newer versions of records whose content has stayed the same';
{{.Distributed "seen_versions" "key_hash"}}
