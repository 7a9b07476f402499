package event

import (
	"fmt"
	"strconv"
)

// Headers of record messages with their source position, as CloudEvents extensions: the ingest run, its file,
// and the line in it.
const (
	HeaderRun  = "ce_run"
	HeaderFile = "ce_file"
	HeaderLine = "ce_line"
)

// HeaderRevision is the header with the mapping revision of a record
// (record.Record.Revision), a decimal number. Messages without it have revision 0.
const HeaderRevision = "ce_mappingrevision"

// ParseRevision parses the value of HeaderRevision.
func ParseRevision(value []byte) (uint32, error) {
	revision, err := strconv.ParseUint(string(value), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("header %s: must be a whole number from 0 to 4294967295", HeaderRevision)
	}
	return uint32(revision), nil
}
