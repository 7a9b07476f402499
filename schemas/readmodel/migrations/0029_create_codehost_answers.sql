-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_answers"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Identity of the account',
    generation UInt32 COMMENT 'Generation of the topic of touches',
    touch Int64 COMMENT 'Offset of the touch that the row was built for',
    partition Int32 COMMENT 'Partition of that touch',
    rebuilt UInt32 DEFAULT 0 COMMENT 'Number of builds without a touch since',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(generation), 96), bitOr(bitShiftLeft(toUInt128(touch), 32), toUInt128(rebuilt))) COMMENT 'What ReplacingMergeTree compares: generation, touch, rebuilt',
    version Int64 COMMENT 'Version of the account record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content',
    deleted Bool COMMENT 'The account record was withdrawn',
    base_version Int64 COMMENT 'Newest version of the rows that the answer was built from',
    base_rows UInt64 COMMENT 'Number of these rows',
    base_hash UInt64 COMMENT 'Hash of their identities and versions',
    codehost_username String COMMENT 'Username as the record has it',
    username_key String COMMENT 'Its comparison form',
    type LowCardinality(String) COMMENT 'User, Organization or Bot; empty when not known',
    email_keys Array(String) COMMENT 'Comparison forms of every e-mail address of the record',
    network_username String COMMENT 'network_username as the record has it',
    network_username_keys Array(String) COMMENT 'Declared network usernames, comparison forms, the own field first',
    present UInt64 COMMENT 'Bit mask of the fields that must_have may ask for',
    repos UInt64 COMMENT 'Number of repositories',
    commits UInt64 COMMENT 'Number of commits',
    account String COMMENT 'The account, in pieces' CODEC(ZSTD(1)),
    entries String COMMENT 'Its newest repositories and commits, in pieces' CODEC(ZSTD(1))
)
ENGINE = {{.ReplacingMergeTree "codehost_answers" "ver"}}
ORDER BY (user_id)
SETTINGS {{.Lookup 8}}, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1
COMMENT 'What the API answers about accounts of the code host, one row each';
{{.Distributed "codehost_answers" "user_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "answer_generations"}}{{.OnCluster}} (
    generation UInt32 COMMENT 'Generation of the topic of touches: it grows when the topic begins anew',
    partitions UInt32 COMMENT 'Number of its partitions'
)
ENGINE = {{.ReplacingMergeTree "answer_generations" "generation"}}
ORDER BY (generation)
SETTINGS {{.Deduplication}}, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1
COMMENT 'Generations of the topic of touches';
{{.Distributed "answer_generations" "generation"}}
