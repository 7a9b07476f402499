-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_repos"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Owner',
    repo_id Int64 COMMENT 'Identity within the owner',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    content String COMMENT 'Language, then the repository as answers show it, in pieces (schemas/MAPPING.md, section 11)' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "codehost_repos" "ver"}}
ORDER BY (user_id, repo_id)
SETTINGS {{.Lookup 64}}
COMMENT 'Repositories, newest version of each';
{{.Distributed "codehost_repos" "user_id"}}
