-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "network_people"}}{{.OnCluster}} (
    profile_hash UInt64 COMMENT 'Hash of profile_id, the order of the table',
    profile_id String COMMENT 'Identity',
    last_updated String COMMENT 'last_updated as the record has it',
    updated_at String COMMENT 'last_updated as an RFC 3339 instant in UTC',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    username String COMMENT 'Profile slug as the record has it',
    username_key String COMMENT 'Its comparison form',
    email_keys Array(String) COMMENT 'Comparison forms of every e-mail address of the record',
    codehost_username_keys Array(String) COMMENT 'Declared codehost usernames, comparison forms, the own field first',
    microblog_username_keys Array(String) COMMENT 'Declared microblog usernames, comparison forms, the own field first',
    content String COMMENT 'All that the API reads: fields, then the record in pieces (schemas/MAPPING.md, Content)' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "network_people" "ver"}}
ORDER BY (profile_hash, profile_id)
SETTINGS {{.Lookup 8}}
COMMENT 'Profiles of the professional network, newest version of each';
{{.Distributed "network_people" "profile_hash"}}
