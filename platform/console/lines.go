package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// maxLine limits a line that is not typed at a terminal, in bytes.
const maxLine = 1 << 20

// LineReader reads lines. At a terminal, lines can be edited and earlier ones recalled with the arrow keys; Ctrl-C and
// Ctrl-D end the input. Other inputs have no prompts. It is not safe for concurrent use.
type LineReader struct {
	file     *os.File // nil if the input is not a terminal
	terminal *term.Terminal
	scanner  *bufio.Scanner
}

// NewLineReader returns a LineReader of in that shows prompts and the typed text on out.
func NewLineReader(in io.Reader, out io.Writer) *LineReader {
	if file, ok := in.(*os.File); ok && IsTerminal(in) {
		both := struct {
			io.Reader
			io.Writer
		}{file, out}
		return &LineReader{file: file, terminal: term.NewTerminal(both, "")}
	}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	return &LineReader{scanner: scanner}
}

// Interactive reports whether the lines are typed at a terminal.
func (r *LineReader) Interactive() bool { return r.terminal != nil }

// ReadLine returns the next line without its line end, or io.EOF. The terminal is in raw mode only during the call.
func (r *LineReader) ReadLine(prompt string) (line string, err error) {
	if r.terminal == nil {
		if r.scanner.Scan() {
			return r.scanner.Text(), nil
		}
		if err := r.scanner.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}
	fd := int(r.file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("set terminal to raw mode: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = r.terminal.SetSize(width, height) // after a failed resize, the previous size is good enough
	}
	r.terminal.SetPrompt(prompt)
	return r.terminal.ReadLine()
}
