package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Writer returns w itself, or a writer to w that escapes like [Text] if w is a terminal. It is not safe for concurrent
// use. An incomplete character at the end of the output is not shown.
func Writer(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return &escaping{to: w}
	}
	return w
}

// Text returns s with the control characters that a terminal interprets replaced by \u and four hexadecimal digits, as
// in JSON: control characters other than line feed and tab, and those that change the direction of the text that
// follows. Invalid UTF-8 becomes U+FFFD.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isInterpreted(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line returns s as part of a line or a table cell: it escapes the characters that would end either, like [Text]. It is
// also for files and pipes; the other characters are left to Text or [Writer].
func Line(s string) string {
	return strings.NewReplacer("\n", `\u000a`, "\t", `\u0009`, "\v", `\u000b`, "\f", `\u000c`).Replace(s)
}

// isPlain reports whether s needs no escapes.
func isPlain(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, isInterpreted) }

// isInterpreted reports whether a terminal interprets r instead of showing it.
func isInterpreted(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	}
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' // UAX #9, section 2
}

// escaping is a writer to a terminal that escapes.
type escaping struct {
	to   io.Writer
	rest []byte // an incomplete character at the end
}

// Write implements [io.Writer].
func (e *escaping) Write(p []byte) (int, error) {
	text := append(e.rest, p...)
	end := len(text) - incomplete(text)
	if _, err := io.WriteString(e.to, Text(string(text[:end]))); err != nil {
		return 0, err
	}
	e.rest = append(e.rest[:0], text[end:]...)
	return len(p), nil
}

// incomplete returns the length of an incomplete character at the end of text.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
