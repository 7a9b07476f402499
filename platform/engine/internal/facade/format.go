package facade

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"

	"muster/platform/engine/internal/native"
)

func isNative(format string) bool { return strings.EqualFold(format, "Native") }

// formatLayout describes the header of a format's document, which every part of a stream repeats and only the first
// part may keep.
type formatLayout struct {
	lines  int // header lines that end at the first newline
	csv    int // header lines whose quoted fields may contain newlines
	binary int // RowBinary: 1 for names, 2 for names and types
}

// streamable are the formats whose documents can be concatenated without the repeated headers, by lower-case name.
var streamable = map[string]formatLayout{
	"native": {}, "tabseparated": {}, "tsv": {}, "tabseparatedraw": {}, "tsvraw": {}, "raw": {}, "lineasstring": {},
	"csv": {}, "jsoneachrow": {}, "jsonlines": {}, "ndjson": {}, "jsoncompacteachrow": {}, "jsonstringseachrow": {},
	"jsoncompactstringseachrow": {}, "rowbinary": {}, "tskv": {},
	"tabseparatedwithnames": {lines: 1}, "tsvwithnames": {lines: 1}, "tabseparatedrawwithnames": {lines: 1},
	"tabseparatedwithnamesandtypes": {lines: 2}, "tsvwithnamesandtypes": {lines: 2},
	"jsoncompacteachrowwithnames": {lines: 1}, "jsoncompacteachrowwithnamesandtypes": {lines: 2},
	"csvwithnames": {csv: 1}, "csvwithnamesandtypes": {csv: 2},
	"rowbinarywithnames": {binary: 1}, "rowbinarywithnamesandtypes": {binary: 2},
}

// headerLength returns the length of the header in a document.
func (l formatLayout) headerLength(data []byte) int {
	n := 0
	for range l.lines {
		i := bytes.IndexByte(data[n:], '\n')
		if i < 0 {
			return len(data)
		}
		n += i + 1
	}
	quoted := false
	for left := l.csv; left > 0 && n < len(data); n++ {
		switch data[n] {
		case '"':
			quoted = !quoted
		case '\n':
			if !quoted {
				left--
			}
		}
	}
	if l.binary > 0 {
		columns, m := binary.Uvarint(data)
		n = m
		for range columns * uint64(l.binary) {
			size, m := binary.Uvarint(data[min(n, len(data)):])
			n += m + int(size)
		}
	}
	return n
}

// contentType returns the Content-Type of a format, as of a server.
func contentType(format string) string {
	f := strings.ToLower(format)
	switch {
	case strings.HasPrefix(f, "csv"):
		if strings.Contains(f, "withnames") {
			return "text/csv; charset=UTF-8; header=present"
		}
		return "text/csv; charset=UTF-8; header=absent"
	case strings.HasPrefix(f, "tabseparated"), strings.HasPrefix(f, "tsv"), f == "raw", f == "tskv":
		return "text/tab-separated-values; charset=UTF-8"
	case strings.Contains(f, "eachrow"), f == "jsonlines", f == "ndjson":
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(f, "json"):
		return "application/json; charset=UTF-8"
	case f == "xml":
		return "application/xml; charset=UTF-8"
	case f == "native", strings.HasPrefix(f, "rowbinary"), f == "parquet", f == "arrow", f == "arrowstream", f == "orc",
		f == "avro", f == "msgpack", f == "npy", strings.HasPrefix(f, "protobuf"):
		return "application/octet-stream"
	case f == "markdown":
		return "text/markdown; charset=UTF-8"
	case f == "html":
		return "text/html; charset=UTF-8"
	}
	return "text/plain; charset=UTF-8"
}

// parseDescription converts the first two columns of DESCRIBE (raw, tab separated) to a Native block without rows, in
// revision 0.
func parseDescription(rows string) []byte {
	var names, types []string
	for line := range strings.Lines(rows) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) >= 2 {
			names, types = append(names, fields[0]), append(types, fields[1])
		}
	}
	return native.AppendHeader(nil, names, types, 0)
}

// withoutFormat removes the FORMAT clause and a SETTINGS clause after it.
func withoutFormat(text string) string {
	lex := lexer{text: text}
	depth, cut := 0, -1
	var last token
	for tok := lex.next(); tok.kind != tokenEnd; tok = lex.next() {
		switch {
		case tok.punct('('), tok.punct('['), tok.punct('{'):
			depth++
		case tok.punct(')'), tok.punct(']'), tok.punct('}'):
			depth--
		case depth == 0 && last.is("FORMAT") && tok.name() != "":
			cut = last.start
		}
		last = tok
	}
	if cut >= 0 {
		return text[:cut]
	}
	return text
}

// isExit reports whether the text is a single word, such as exit, which the engine's client layer takes as a command.
func isExit(text string) bool {
	return !strings.ContainsAny(strings.TrimSpace(text), " \t\n(")
}

// headerCache caches the columns of queries that returned no rows. A statement that may change a table clears it.
type headerCache struct {
	mu sync.Mutex
	m  map[string][]byte
}

const maxHeaders = 4096

func newHeaderCache() *headerCache { return &headerCache{m: make(map[string][]byte)} }

func (c *headerCache) get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.m[key]
	return h, ok
}

func (c *headerCache) put(key string, header []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= maxHeaders {
		clear(c.m)
	}
	c.m[key] = header
}

func (c *headerCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.m)
}
