-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "codehost_lists"}}{{.OnCluster}} (
    user_id Int64 COMMENT 'Owner of the repositories, or author of the commits',
    list LowCardinality(String) COMMENT 'repos or commits',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    items Array(String) COMMENT 'Ids, or shas, of all entries at that version; others that are not newer are withdrawn' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "codehost_lists" "ver"}}
ORDER BY (user_id, list)
SETTINGS {{.Lookup 64}}
COMMENT 'Complete lists of an account, newest version of each';
{{.Distributed "codehost_lists" "user_id"}}
