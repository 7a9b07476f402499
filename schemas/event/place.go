package event

// Headers of record messages that give their place upstream, as extensions of
// CloudEvents: the run of ingest, its file, and the line in it.
const (
	HeaderRun  = "ce_run"
	HeaderFile = "ce_file"
	HeaderLine = "ce_line"
)
