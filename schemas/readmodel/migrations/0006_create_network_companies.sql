-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "network_companies"}}{{.OnCluster}} (
    company_hash UInt64 COMMENT 'Hash of company_id, the order of the table',
    company_id String COMMENT 'Identity',
    last_updated String COMMENT 'last_updated as the record has it',
    version Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    content_hash UInt64 COMMENT 'Hash of its content; decides between equal versions',
    ver UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(version), 64), toUInt128(content_hash)) COMMENT 'What ReplacingMergeTree compares: version, then content_hash',
    deleted Bool COMMENT 'The record was withdrawn',
    network_slug String COMMENT 'Slug as the record has it',
    slug_key String COMMENT 'Its comparison form',
    network_id String COMMENT 'Id of the company within the professional network',
    name String COMMENT 'profile.name',
    company String COMMENT 'Members of the company object without last_updated' CODEC(ZSTD(1)),
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "network_companies" "ver"}}
ORDER BY (company_hash, company_id)
SETTINGS {{.Lookup 32}}
COMMENT 'Companies of the professional network, newest version of each';
{{.Distributed "network_companies" "company_hash"}}
