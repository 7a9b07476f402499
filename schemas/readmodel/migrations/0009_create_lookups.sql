-- owner: projector
CREATE TABLE IF NOT EXISTS {{.Local "lookups"}}{{.OnCluster}} (
    key_hash UInt64 COMMENT 'XXH64 of what the value is, a zero byte and the value',
    claim String COMMENT 'type, value, target_kind, target and source, each ended by a NUL, which no text has' CODEC(ZSTD(1)),
    type String ALIAS splitByChar(char(0), claim)[1] COMMENT 'What kind of value: network.username, codehost.email, link.codehost and so on',
    value String ALIAS splitByChar(char(0), claim)[2] COMMENT 'Comparison form of the value',
    target_kind String ALIAS splitByChar(char(0), claim)[3] COMMENT 'What target names: a record kind, or account',
    target String ALIAS splitByChar(char(0), claim)[4] COMMENT 'Identity of the record that held the value, or platform:username of the other side of an account link',
    source String ALIAS splitByChar(char(0), claim)[5] COMMENT 'Source of an account link; of a record under its username the usernames that it declared',
    ver UInt128 COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash',
    version Int64 ALIAS toInt64(bitShiftRight(ver, 69)) COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    deleted Bool ALIAS bitAnd(toUInt64(ver), 68719476736) != 0 COMMENT 'The record was withdrawn',
    confidence Float32 COMMENT 'Confidence of the statement',
    topic LowCardinality(String) COMMENT 'Topic of the record that made the row',
    partition Int32 COMMENT 'Its partition',
    offset Int64 COMMENT 'Its offset'
)
ENGINE = {{.ReplacingMergeTree "lookups" "ver"}}
PRIMARY KEY key_hash
ORDER BY (key_hash, claim)
SETTINGS {{.Lookup 64}}
COMMENT 'Candidates: which record held which value, checked against the main tables by readers';
{{.Distributed "lookups" "key_hash"}}
