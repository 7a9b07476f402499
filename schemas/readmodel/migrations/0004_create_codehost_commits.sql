-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_commits"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Author',
    sha String COMMENT 'Identity within the author',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    content String COMMENT 'Author (login, name, address in comparison form and as given), then the commit as answers show it, in pieces (schemas/MAPPING.md, section 11)' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "codehost_commits" "ver"}}
ORDER BY (user_id, sha)
SETTINGS {{.Lookup 64}}
COMMENT 'Commits, newest version of each';
{{.Distributed "codehost_commits" "user_id"}}
