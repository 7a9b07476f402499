-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_answers"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Identity of the account',
    generation UInt32 COMMENT 'Generation of the topic of touches',
    touch Int64 COMMENT 'Offset of the touch that the row was built for',
    partition Int32 COMMENT 'Partition of that touch',
    rebuilt UInt32 DEFAULT 0 COMMENT 'Number of builds without a touch since',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(generation), 96), bitOr(bitShiftLeft(toUInt128(touch), 32), toUInt128(rebuilt))) COMMENT 'What ReplacingMergeTree compares: generation, touch, rebuilt',
    base_version Int64 COMMENT 'Newest version of the rows that the answer was built from',
    base_rows UInt64 COMMENT 'Number of these rows',
    base_hash UInt64 COMMENT 'Hash of their identities and versions',
    username_key String COMMENT 'Comparison form of its username',
    email_keys Array(String) COMMENT 'Comparison forms of every e-mail address of the record',
    content String COMMENT 'All that the API reads: fields, then the account and its newest repositories and commits in pieces (schemas/MAPPING.md, Content)' CODEC(ZSTD(1))
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
