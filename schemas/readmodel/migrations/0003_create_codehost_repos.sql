-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_repos"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Owner',
    repo_id Int64 COMMENT 'Identity within the owner',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    entry String COMMENT 'Members of the repository in the websets' CODEC(ZSTD(1)),
    enrich String COMMENT 'Members of the repository in person.codehost, without owner' CODEC(ZSTD(1)),
    redacted String COMMENT 'entry without e-mail; empty when that is the same' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "codehost_repos" "ver"}}
ORDER BY (user_id, repo_id)
SETTINGS {{.Lookup 64}}
COMMENT 'Repositories, newest version of each';
{{.Distributed "codehost_repos" "user_id"}}
