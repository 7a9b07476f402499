package gitlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
)

// maxObject is the maximum size of a commit in bytes. A larger commit is rejected, but its history is read.
const maxObject = 4 << 20

// commit is a commit of the history. Strings are UTF-8, whatever the commit's encoding.
type commit struct {
	hash      string
	large     bool // larger than maxObject: only the hash is set
	author    signature
	committer signature
	message   string
}

// signature is the name, the address and the time of an author or committer.
type signature struct {
	name, email string
	when        time.Time
}

// commits iterates over the commits that are reachable from some tips and not from others, newest first.
type commits struct {
	stream *stream
	in     *bufio.Reader
	buf    []byte
}

// commits starts the iteration. Objects of excluded tips may be missing; then commits may be
// returned that were read before.
func (g gitDir) commits(ctx context.Context, tips, excluded []string) (*commits, error) {
	var list strings.Builder
	for _, h := range tips {
		list.WriteString(h + "\n")
	}
	for _, h := range excluded {
		list.WriteString("^" + h + "\n")
	}
	s, err := g.start(ctx, list.String(),
		[]string{"rev-list", "--ignore-missing", "--stdin"}, []string{"cat-file", "--batch", "--buffer"})
	if err != nil {
		return nil, err
	}
	return &commits{stream: s, in: bufio.NewReaderSize(s, 64<<10)}, nil
}

// next returns the next commit, and io.EOF after the last one.
func (c *commits) next() (*commit, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err := errors.Join(c.stream.wait(), err); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	fields := strings.Fields(string(line))
	if len(fields) != 3 || fields[1] != "commit" {
		return nil, fmt.Errorf("read commit: %w", &gitError{stderr: "bad object " + string(bytes.TrimSpace(line))})
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", fields[0], err)
	}
	if size > maxObject {
		if _, err := io.CopyN(io.Discard, c.in, size+1); err != nil {
			return nil, c.truncatedError(fields[0], err)
		}
		return &commit{hash: fields[0], large: true}, nil
	}
	if int64(cap(c.buf)) <= size {
		c.buf = make([]byte, size+1)
	}
	c.buf = c.buf[:size+1]
	if _, err := io.ReadFull(c.in, c.buf); err != nil {
		return nil, c.truncatedError(fields[0], err)
	}
	parsed := parseCommit(c.buf[:size])
	parsed.hash = fields[0]
	return parsed, nil
}

// truncatedError returns the error for output that ends within a commit.
func (c *commits) truncatedError(hash string, err error) error {
	if failed := c.stream.wait(); failed != nil {
		err = failed
	}
	return fmt.Errorf("read commit %s: %w", hash, err)
}

func (c *commits) close() error { return c.stream.close() }

// parseCommit parses a commit object. Missing or malformed headers are left empty, as in git.
func parseCommit(raw []byte) *commit {
	headers, message, _ := bytes.Cut(raw, []byte("\n\n"))
	var author, committer []byte
	var charset encoding.Encoding
	for line := range bytes.SplitSeq(headers, []byte("\n")) {
		name, value, _ := bytes.Cut(line, []byte(" "))
		switch string(name) {
		case "author":
			author = value
		case "committer":
			committer = value
		case "encoding":
			charset = charsetOf(string(value))
		}
	}
	return &commit{
		author: parseSignature(author, charset), committer: parseSignature(committer, charset),
		message: strings.TrimRight(decode(message, charset), "\n"),
	}
}

// parseSignature parses "Name <address> seconds zone" like split_ident_line in git's ident.c.
func parseSignature(line []byte, charset encoding.Encoding) signature {
	s := signature{when: time.Unix(0, 0)}
	name, rest, found := bytes.Cut(line, []byte("<"))
	email, _, closed := bytes.Cut(rest, []byte(">"))
	if !found || !closed {
		return s
	}
	s.name = decode(bytes.TrimRight(name, space), charset)
	s.email = decode(email, charset)
	date := bytes.Fields(line[bytes.LastIndexByte(line, '>')+1:])
	if len(date) == 0 {
		return s
	}
	if seconds, err := strconv.ParseInt(string(date[0]), 10, 64); err == nil {
		s.when = time.Unix(seconds, 0)
	}
	return s
}

// decode converts to UTF-8 that a record can hold. Invalid bytes become U+FFFD.
func decode(raw []byte, charset encoding.Encoding) string {
	if charset != nil {
		if text, err := charset.NewDecoder().Bytes(raw); err == nil {
			raw = text
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(raw), "\uFFFD"), "\x00", "\uFFFD")
}

var (
	punctuationPattern = regexp.MustCompile(`[^a-z0-9]+`)
	numberedPattern    = regexp.MustCompile(`^(iso8859|latin|cp|windows|ibm)(\d+)$`)
)

// charsetOf returns the encoding for the value of the header "encoding", which git passes to iconv.
// It returns nil for UTF-8 and for unknown names. IANA names take precedence: the WHATWG uses
// iso-8859-1 for a different charset.
func charsetOf(name string) encoding.Encoding {
	plain := punctuationPattern.ReplaceAllString(strings.ToLower(name), "")
	candidates := []string{name}
	if n := numberedPattern.FindStringSubmatch(plain); n != nil {
		switch n[1] {
		case "iso8859":
			candidates = []string{"ISO-8859-" + n[2]}
		case "latin":
			candidates = []string{"latin" + n[2]}
		default:
			candidates = []string{"windows-" + n[2], "IBM" + n[2], "x-cp" + n[2]}
		}
	}
	switch plain {
	case "utf8":
		return nil
	case "sjis", "shiftjis", "mskanji", "cp932", "ms932", "windows932", "windows31j":
		candidates = []string{"Shift_JIS"}
	case "eucjp", "euckr", "euctw":
		candidates = []string{"euc-" + plain[3:]}
	case "koi8r", "koi8u":
		candidates = []string{"koi8-" + plain[4:]}
	case "cp936", "windows936":
		candidates = []string{"GBK"}
	case "cp949", "windows949", "uhc":
		candidates = []string{"EUC-KR"}
	case "cp950", "windows950":
		candidates = []string{"Big5"}
	case "macroman", "mac":
		candidates = []string{"macintosh"}
	}
	for _, c := range candidates {
		if found, err := ianaindex.IANA.Encoding(c); err == nil && found != nil {
			return found
		}
	}
	for _, c := range candidates {
		if found, err := htmlindex.Get(c); err == nil && found != encoding.Replacement {
			return found
		}
	}
	return nil
}
