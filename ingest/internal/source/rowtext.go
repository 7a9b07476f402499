package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"hash"
)

// rowText builds the JSON text of a row. If the text exceeds the limit, only its start is kept; the
// rest is counted and hashed.
type rowText struct {
	out    []byte // text of the chunk; the row starts at begin
	begin  int
	maxLen int
	head   int
	sum    hash.Hash // set if the row is too long
	length int64
	prefix []byte
}

// spillSize is the buffer size for the text of a row that is too long.
const spillSize = 64 << 10

// spill hashes and drops the text in memory if it is too long.
func (t *rowText) spill() {
	size := len(t.out) - t.begin
	if t.sum == nil {
		if size <= t.maxLen {
			return
		}
		t.sum = sha256.New()
		t.prefix = bytes.Clone(t.out[t.begin:][:t.head])
	} else if size < spillSize {
		return
	}
	t.drop()
}

func (t *rowText) drop() {
	t.sum.Write(t.out[t.begin:])
	t.length += int64(len(t.out) - t.begin)
	t.out = t.out[:t.begin]
}

// finish returns the line of a complete row.
func (t *rowText) finish() Line {
	if t.spill(); t.sum == nil {
		return Line{Raw: t.out[t.begin:len(t.out):len(t.out)]}
	}
	t.drop()
	over := &Oversize{Length: t.length}
	t.sum.Sum(over.SHA256[:0])
	return Line{Raw: t.prefix, Oversize: over}
}

func (t *rowText) byte(b byte) { t.out = append(t.out, b) }

// raw appends text of any length.
func (t *rowText) raw(text []byte) {
	t.parts(text, func(out, part []byte) []byte { return append(out, part...) })
}

// string appends text of any length as a JSON string.
func (t *rowText) string(text []byte) {
	t.byte('"')
	t.parts(text, appendEscaped)
	t.byte('"')
}

// base64 appends bytes as a JSON string.
func (t *rowText) base64(b []byte) {
	t.byte('"')
	t.parts(b, base64.StdEncoding.AppendEncode) // longValue is a multiple of three
	t.byte('"')
}

func (t *rowText) parts(text []byte, write func(out, part []byte) []byte) {
	for len(text) > 0 {
		n := min(len(text), longValue)
		t.out = write(t.out, text[:n])
		text = text[n:]
		t.spill()
	}
}
