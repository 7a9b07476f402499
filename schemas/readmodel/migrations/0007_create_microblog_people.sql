-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "microblog_people"}}{{.OnCluster}} (
    user_hash UInt64 COMMENT 'Hash of user_id, the order of the table',
    user_id String COMMENT 'Identity',
    last_updated String COMMENT 'last_updated as the record has it',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    username String COMMENT 'Username as the record has it',
    username_key String COMMENT 'Its comparison form',
    name String COMMENT 'Display name',
    bio String COMMENT 'Bio' CODEC(ZSTD(1)),
    location String COMMENT 'Location as free text',
    website String COMMENT 'Website',
    avatar_url String COMMENT 'Picture',
    followers Nullable(Int64) COMMENT 'Accounts that follow it',
    following Nullable(Int64) COMMENT 'Accounts that it follows',
    created_at String COMMENT 'created_at as the record has it',
    account_type LowCardinality(String) COMMENT 'personal, business or government; empty when not known',
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "microblog_people" "ver"}}
ORDER BY (user_hash, user_id)
SETTINGS {{.Lookup 64}}
COMMENT 'Accounts of the microblog, newest version of each';
{{.Distributed "microblog_people" "user_hash"}}
