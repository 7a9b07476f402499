package source

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Format is the format of an input.
type Format string

// Input formats.
const (
	// FormatAuto is detected: Parquet by its first bytes, other formats by the file's extension, or
	// else by whether the first line looks like column names.
	FormatAuto    Format = ""
	FormatNDJSON  Format = "ndjson"  // JSON values, usually one per line
	FormatCSV     Format = "csv"     // RFC 4180 with a header; comma, semicolon or tab between fields
	FormatTSV     Format = "tsv"     // CSV with tabs between fields
	FormatParquet Format = "parquet" // Apache Parquet, from files only
)

// ParseFormat parses the name of a format; "auto" and "" are FormatAuto.
func ParseFormat(name string) (Format, error) {
	switch f := Format(strings.ToLower(name)); f {
	case FormatAuto, "auto":
		return FormatAuto, nil
	case "json":
		return FormatNDJSON, nil
	case FormatNDJSON, FormatCSV, FormatTSV, FormatParquet:
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q; formats: auto, ndjson (or json), csv, tsv, parquet", name)
}

// formatOfName returns the format by a file's extension, below that of a compression, or FormatAuto.
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

// KnownName reports whether a file's extension determines its format.
func KnownName(name string) bool { return formatOfName(name) != FormatAuto }

// headerLine matches a line that can only be the names of at least two columns.
var headerLine = regexp.MustCompile(`^(\x{FEFF})?"?[A-Za-z_][A-Za-z0-9_.]*"?([,;\t]"?[A-Za-z_][A-Za-z0-9_.]*"?)+$`)

// formatOfText distinguishes CSV from NDJSON by the first line of an input.
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
