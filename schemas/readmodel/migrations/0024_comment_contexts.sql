-- owner: projector
{{range .Everywhere "contexts"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    COMMENT COLUMN IF EXISTS version '0 while it is processed, then 9223372036854775807 less the offset: the first outcome counts; what ReplacingMergeTree compares';
{{end}}
