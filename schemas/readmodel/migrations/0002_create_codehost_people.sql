-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_people"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Identity',
    last_updated String COMMENT 'last_updated as the record has it',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    codehost_username String COMMENT 'Username as the record has it',
    username_key String COMMENT 'Its comparison form',
    type LowCardinality(String) COMMENT 'User, Organization or Bot; empty when not known',
    email_keys Array(String) COMMENT 'Comparison forms of every e-mail address of the record',
    network_username String COMMENT 'network_username as the record has it',
    network_username_keys Array(String) COMMENT 'Declared network usernames, comparison forms, the own field first',
    microblog_username_keys Array(String) COMMENT 'Declared microblog usernames, comparison forms, the own field first',
    present UInt64 COMMENT 'Bit mask of the fields that must_have may ask for',
    content String COMMENT 'Derived fields, names and e-mail addresses, then the account as answers show it, in pieces (schemas/MAPPING.md, section 11)' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "codehost_people" "ver"}}
ORDER BY (user_id)
SETTINGS {{.Lookup 32}}
COMMENT 'Accounts of the code host, newest version of each';
{{.Distributed "codehost_people" "user_id"}}
