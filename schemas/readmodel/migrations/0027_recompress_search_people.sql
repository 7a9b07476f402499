-- owner: projector
{{range .Everywhere "search_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS inserted DateTime MATERIALIZED now() COMMENT 'When the row was inserted; rows at rest are compressed anew';
{{end}}
-- Less than the 300 seconds after which parts at rest are merged: that merge compresses them.
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    MODIFY TTL inserted + INTERVAL 240 SECOND RECOMPRESS CODEC(ZSTD(3)) SETTINGS materialize_ttl_after_modify = 0;
