package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"hash"
)

// rowText is the JSON text of a row that is being written. Of one that becomes longer
// than the limit only the beginning is kept; the rest is counted and hashed.
type rowText struct {
	out    []byte // the chunk's text; the row's begins at begin
	begin  int
	most   int
	head   int
	sum    hash.Hash // set when the row is too long
	length int64
	kept   []byte
}

// spillSize is how much of the text of a row that is too long stands in memory.
const spillSize = 64 << 10

// spill takes what was written out of memory if it is too much.
func (t *rowText) spill() {
	size := len(t.out) - t.begin
	if t.sum == nil {
		if size <= t.most {
			return
		}
		t.sum = sha256.New()
		t.kept = bytes.Clone(t.out[t.begin:][:t.head])
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

// finish makes the line, once all of the row is written.
func (t *rowText) finish() Line {
	if t.spill(); t.sum == nil {
		return Line{Raw: t.out[t.begin:len(t.out):len(t.out)]}
	}
	t.drop()
	over := &Oversize{Length: t.length}
	t.sum.Sum(over.SHA256[:0])
	return Line{Raw: t.kept, Oversize: over}
}

func (t *rowText) byte(b byte) { t.out = append(t.out, b) }

// raw writes text of any length as it is.
func (t *rowText) raw(text []byte) {
	t.parts(text, func(out, part []byte) []byte { return append(out, part...) })
}

// string writes text of any length as a JSON string.
func (t *rowText) string(text []byte) {
	t.byte('"')
	t.parts(text, appendEscaped)
	t.byte('"')
}

// base64 writes bytes as a JSON string.
func (t *rowText) base64(b []byte) {
	t.byte('"')
	t.parts(b, base64.StdEncoding.AppendEncode) // parts end between its groups of three
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
