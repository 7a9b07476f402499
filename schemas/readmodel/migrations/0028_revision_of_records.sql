-- owner: projector
-- ver packs what decides between the rows of an identity, the first in the highest bits: version (59 bits are
-- enough for the year 9999), mapping revision (32), deletion (1) and the 36 highest bits of the content hash.
-- The rows that are there get their new ver before anything is inserted: MATERIALIZE COLUMN writes it.
{{range .Everywhere "network_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "network_people"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "search_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "codehost_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "codehost_people"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "codehost_repos"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "codehost_repos"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "codehost_commits"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "codehost_commits"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "codehost_lists"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "codehost_lists"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "network_companies"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "network_companies"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "microblog_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "microblog_people"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "account_links"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "account_links"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
{{range .Everywhere "seen_versions"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS revision UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions' AFTER version,
    MODIFY COLUMN ver UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'What ReplacingMergeTree compares: version, mapping revision, deletion, content hash';
{{end}}
ALTER TABLE {{.Local "seen_versions"}}{{.OnCluster}} MATERIALIZE COLUMN ver SETTINGS mutations_sync = 2;
