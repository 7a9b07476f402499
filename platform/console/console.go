package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal says whether a stream is a terminal's.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Writer returns a writer to w, which escapes as [Text] does if w is a terminal, and is w itself if not. It is for one
// goroutine at a time. A character that the last bytes only begin is not shown.
func Writer(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return &escaping{to: w}
	}
	return w
}

// Text returns s with the characters that a terminal obeys as \u and four hexadecimal digits, which is how JSON writes
// them too: control characters other than line feed and tab, and those that turn the direction of what follows. What
// is not UTF-8 becomes U+FFFD.
func Text(s string) string {
	if shown(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line returns s as a part of a line, or a cell of a table: what would end either is escaped, as [Text] escapes. It is for
// files and pipes, too; the rest is for Text, or [Writer].
func Line(s string) string {
	return strings.NewReplacer("\n", `\u000a`, "\t", `\u0009`, "\v", `\u000b`, "\f", `\u000c`).Replace(s)
}

// shown says whether s is shown as it is.
func shown(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, obeyed) }

func obeyed(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	}
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' // UAX #9, section 2
}

// escaping is a writer to a terminal.
type escaping struct {
	to   io.Writer
	rest []byte // the beginning of a character that is to come
}

// Write implements [io.Writer].
func (e *escaping) Write(p []byte) (int, error) {
	text := append(e.rest, p...)
	end := len(text) - begun(text)
	if _, err := io.WriteString(e.to, Text(string(text[:end]))); err != nil {
		return 0, err
	}
	e.rest = append(e.rest[:0], text[end:]...)
	return len(p), nil
}

// begun is how many bytes at the end of text begin a character that is not whole.
func begun(text []byte) int {
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
