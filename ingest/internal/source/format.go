package source

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Format is how an input is written.
type Format string

// The formats.
const (
	// FormatAuto is found out: Parquet by its first bytes, others by the file's
	// extension, else by whether the first line looks like the names of columns.
	FormatAuto    Format = ""
	FormatNDJSON  Format = "ndjson"  // JSON values, as a rule one a line
	FormatCSV     Format = "csv"     // RFC 4180 with a header; comma, semicolon or tab between fields
	FormatTSV     Format = "tsv"     // the same with tabs
	FormatParquet Format = "parquet" // Apache Parquet, from files only
)

// ParseFormat reads the name of a format; "auto" and "" are FormatAuto.
func ParseFormat(name string) (Format, error) {
	switch f := Format(strings.ToLower(name)); f {
	case FormatAuto, "auto":
		return FormatAuto, nil
	case "json":
		return FormatNDJSON, nil
	case FormatNDJSON, FormatCSV, FormatTSV, FormatParquet:
		return f, nil
	}
	return "", fmt.Errorf("%q is no format; there are auto, ndjson (or json), csv, tsv, parquet", name)
}

// formatOfName tells the format by a file's extension, under that of a
// compression, or FormatAuto.
func formatOfName(name string) Format {
	name = strings.ToLower(name)
	ext := filepath.Ext(name)
	switch ext {
	case ".gz", ".gzip", ".zst", ".zstd":
		ext = filepath.Ext(strings.TrimSuffix(name, ext))
	}
	switch ext {
	case ".ndjson", ".jsonl", ".json", ".jsonlines", ".ldjson", ".jsonld":
		return FormatNDJSON
	case ".csv":
		return FormatCSV
	case ".tsv", ".tab":
		return FormatTSV
	case ".parquet", ".parq", ".pq":
		return FormatParquet
	}
	return FormatAuto
}

// KnownName tells that a file's name says in which format it is.
func KnownName(name string) bool { return formatOfName(name) != FormatAuto }

// headerLine is a line that can be nothing but the names of at least two columns.
var headerLine = regexp.MustCompile(`^(\x{FEFF})?"?[A-Za-z_][A-Za-z0-9_.]*"?([,;\t]"?[A-Za-z_][A-Za-z0-9_.]*"?)+$`)

// formatOfText tells NDJSON from CSV by an input's first line.
func formatOfText(head []byte) Format {
	line := head
	if i := bytes.IndexAny(head, newline+carriageReturn); i >= 0 {
		line = head[:i]
	}
	if headerLine.Match(line) {
		return FormatCSV
	}
	return FormatNDJSON
}
