-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "lookups"}}{{.OnCluster}} (
    key_hash UInt64 COMMENT 'XXH64 of type, a zero byte and value',
    type LowCardinality(String) COMMENT 'What kind of value: network.username, codehost.email, link.codehost and so on',
    value String COMMENT 'Comparison form of the value',
    target_kind LowCardinality(String) COMMENT 'What target names: a record kind, or account',
    target String COMMENT 'Identity of the record that held the value, or platform:username of the other side of an account link',
    source String COMMENT 'Source of an account link; else empty',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    confidence Float32 COMMENT 'Confidence of the statement',
    declared Bool COMMENT 'A record states it, nothing was inferred',
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "lookups" "ver"}}
ORDER BY (key_hash, type, value, target_kind, target, source)
SETTINGS {{.Lookup 128}}
COMMENT 'Candidates: which record held which value, checked against the main tables by readers';
{{.Distributed "lookups" "key_hash"}}
