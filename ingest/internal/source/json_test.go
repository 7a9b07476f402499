package source_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
	"muster/ingest/internal/source"
)

var smallLimits = source.Options{MaxLine: 100, Head: 10, ChunkSize: 64}

// got is the part of a line that tests compare.
type got struct {
	text   string
	number int64
	offset int64
	length int64 // of an oversize line
}

// drain reads a source to its end and returns its lines, the number of blank ones, the last
// position and the final error.
func drain(t testing.TB, s source.Source) (lines []got, blank int64, end source.Position, err error) {
	t.Helper()
	for {
		c, err := s.Next()
		if err != nil {
			require.Nil(t, c)
			return lines, blank, end, err
		}
		require.False(t, len(c.Lines) == 0 && c.Blank == 0, "an empty chunk")
		for _, l := range c.Lines {
			g := got{text: string(l.Raw), number: l.Number, offset: l.Offset}
			if l.Oversize != nil {
				g.length = l.Oversize.Length
			}
			lines = append(lines, g)
		}
		blank += c.Blank
		end = c.End
		c.Release()
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(data, nil)
}

func TestJSON_Lines(t *testing.T) {
	long := strings.Repeat("0123456789", 30)
	most := strings.Repeat("m", 100)
	tests := map[string]struct {
		in    string
		lines []got
		blank int64
	}{
		"empty":              {in: ""},
		"one":                {in: "{}\n", lines: []got{{"{}", 1, 0, 0}}},
		"no final newline":   {in: "{\"a\":1}\n{}", lines: []got{{`{"a":1}`, 1, 0, 0}, {"{}", 2, 8, 0}}},
		"CRLF":               {in: "{}\r\n7\r\n", lines: []got{{"{}", 1, 0, 0}, {"7", 2, 4, 0}}},
		"CR at the end":      {in: "{}\r", lines: []got{{"{}", 1, 0, 0}}},
		"blank lines count":  {in: "\n{}\n \t\r\n\n77\n\n", lines: []got{{"{}", 2, 1, 0}, {"77", 5, 9, 0}}, blank: 4},
		"only blank lines":   {in: "\n\n\n", blank: 3},
		"bad UTF-8 is kept":  {in: "\xff\xc0\n", lines: []got{{"\xff\xc0", 1, 0, 0}}},
		"NUL bytes are kept": {in: "a\x00b\n", lines: []got{{"a\x00b", 1, 0, 0}}},
		"byte order mark":    {in: "\xEF\xBB\xBF{}\n{}\n", lines: []got{{"{}", 1, 0, 0}, {"{}", 2, 6, 0}}},
		"longest line":       {in: most + "\r\n{}\n", lines: []got{{most, 1, 0, 0}, {"{}", 2, 102, 0}}},
		"longest line with byte order mark": {
			in:    "\xEF\xBB\xBF" + most + "\r\n{}\n",
			lines: []got{{most, 1, 0, 0}, {"{}", 2, 105, 0}},
		},
		"one byte too long": {in: most + "x\n{}\n", lines: []got{{"mmmmmmmmmm", 1, 0, 101}, {"{}", 2, 102, 0}}},
		"too long because of a carriage return": {
			in:    most + "\r\r\n{}\n",
			lines: []got{{"mmmmmmmmmm", 1, 0, 101}, {"{}", 2, 103, 0}},
		},
		"far too long": {
			in:    "{}\n" + long + "\r\n{}\n",
			lines: []got{{"{}", 1, 0, 0}, {"0123456789", 2, 3, 300}, {"{}", 3, 305, 0}},
		},
		"far too long at the end": {in: long, lines: []got{{"0123456789", 1, 0, 300}}},
		"two oversize lines": {
			in:    long + "\n" + long + "\n",
			lines: []got{{"0123456789", 1, 0, 300}, {"0123456789", 2, 301, 300}},
		},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"whole":             func(r io.Reader) io.Reader { return r },
		"one byte per read": iotest.OneByteReader,
		"half reads":        iotest.HalfReader,
		"data + EOF":        iotest.DataErrReader,
	}
	for name, tt := range tests {
		forms := map[string][]byte{
			"plain": []byte(tt.in),
			"gzip":  gzipped(t, []byte(tt.in)),
			"zstd":  zstded(t, []byte(tt.in)),
		}
		for form, data := range forms {
			for reader, wrap := range readers {
				t.Run(name+"/"+form+"/"+reader, func(t *testing.T) {
					s, err := source.FromReader(t.Context(), "test", wrap(bytes.NewReader(data)), smallLimits)
					require.NoError(t, err)
					lines, blank, end, err := drain(t, s)
					require.Equal(t, io.EOF, err)
					require.Equal(t, tt.lines, lines)
					require.Equal(t, tt.blank, blank)
					require.Equal(t, int64(len(tt.in)), end.Offset)
					require.Equal(t, int64(len(tt.lines))+tt.blank, end.Line)
					require.Equal(t, int64(len(data)), s.Consumed())
					require.NoError(t, s.Close())
					require.NoError(t, s.Close())
					_, err = s.Next()
					require.Equal(t, io.EOF, err, "io.EOF is permanent")
				})
			}
		}
	}
}

func TestJSON_OversizeHash(t *testing.T) {
	for _, length := range []int{101, 105, 106, 1000, 200_000, 700_001} {
		for _, ending := range []string{"", "\n", "\r\n"} {
			line := bytes.Repeat([]byte("x"), length)
			s, err := source.FromReader(t.Context(), "test", strings.NewReader(string(line)+ending), smallLimits)
			require.NoError(t, err)
			c, err := s.Next()
			require.NoError(t, err)
			require.Len(t, c.Lines, 1)
			require.Equal(t, int64(length), c.Lines[0].Oversize.Length)
			require.Equal(t, sha256.Sum256(line), c.Lines[0].Oversize.SHA256)
			require.Equal(t, line[:10], c.Lines[0].Raw)
			require.NoError(t, s.Close())
		}
	}
}

// A line of 200 MiB is skipped with the memory of a short one.
func TestJSON_OversizeLineIsNotBuffered(t *testing.T) {
	const length = 200 << 20
	s, err := source.FromReader(t.Context(), "test",
		io.MultiReader(io.LimitReader(endless('x'), length), strings.NewReader("\n{}\n")),
		source.Options{MaxLine: 1 << 20, Head: 64 << 10})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := s.Next()
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Equal(t, int64(length), c.Lines[0].Oversize.Length)
	require.LessOrEqual(t, cap(c.Lines[0].Raw), 72<<10)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
	c, err = s.Next()
	require.NoError(t, err)
	require.Equal(t, source.Line{Raw: []byte("{}"), Number: 2, Offset: length + 1}, c.Lines[0])
	require.NoError(t, s.Close())
}

// endless is a reader of one byte, forever.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestSource_DamagedInputReportsPosition(t *testing.T) {
	var text bytes.Buffer
	noise := make([]byte, 40)
	for range 20_000 {
		_, err := rand.Read(noise)
		require.NoError(t, err)
		text.WriteString(`{"noise":"`)
		for _, b := range noise {
			text.WriteByte('a' + b%26)
		}
		text.WriteString("\"}\n")
	}
	whole := text.Bytes()
	failing := errors.New("disk on fire")
	tests := map[string]struct {
		in  io.Reader
		op  string
		bad bool // damage may go unnoticed for some lines
	}{
		"gzip truncated in the middle": {in: bytes.NewReader(half(gzipped(t, whole))), op: "decompress gzip"},
		"zstd truncated in the middle": {in: bytes.NewReader(half(zstded(t, whole))), op: "decompress zstd"},
		"gzip truncated in the header": {in: bytes.NewReader(gzipped(t, whole)[:5]), op: "decompress gzip"},
		"zstd truncated in the header": {in: bytes.NewReader(zstded(t, whole)[:5]), op: "decompress zstd"},
		"gzip with a flipped bit": {
			in: bytes.NewReader(flipped(gzipped(t, whole))), op: "decompress gzip", bad: true,
		},
		"gzip followed by text": {
			in: bytes.NewReader(append(gzipped(t, whole), "{\"a\":1}\n"...)), op: "decompress gzip",
		},
		"read error": {in: io.MultiReader(bytes.NewReader(half(whole)), iotest.ErrReader(failing)), op: "read"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := source.FromReader(t.Context(), "people.gz", tt.in,
				source.Options{MaxLine: 1 << 20, Head: 64 << 10})
			require.NoError(t, err)
			lines, _, end, err := drain(t, s)
			failure, ok := errors.AsType[*source.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "people.gz", failure.Name)
			require.Equal(t, tt.op, failure.Op)
			require.Equal(t, end, failure.At)
			require.NotZero(t, failure.Consumed)
			require.Contains(t, err.Error(), "people.gz: "+tt.op+" after line ")
			require.NotErrorIs(t, err, io.EOF)
			for _, l := range lines { // no truncated line was returned
				require.True(t, tt.bad || len(l.text) == 52, "truncated line: %s", l.text)
			}
			_, again := s.Next()
			require.Equal(t, err, again)
			require.NoError(t, s.Close())
		})
	}
}

func half(b []byte) []byte { return b[:len(b)/2] }

func flipped(b []byte) []byte {
	b[len(b)*3/4] ^= 0x10
	return b
}

func TestSource_MultiMemberCompression(t *testing.T) {
	for name, in := range map[string][]byte{
		"gzip":           append(gzipped(t, []byte("1\n2")), gzipped(t, []byte("3\n"))...),
		"zstd":           append(zstded(t, []byte("1\n2")), zstded(t, []byte("3\n"))...),
		"zstd, skipping": append([]byte{0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 9, 9}, zstded(t, []byte("1\n23\n"))...),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := source.FromReader(t.Context(), "test", bytes.NewReader(in), smallLimits)
			require.NoError(t, err)
			lines, _, _, err := drain(t, s)
			require.Equal(t, io.EOF, err)
			require.Equal(t, []got{{"1", 1, 0, 0}, {"23", 2, 2, 0}}, lines)
			require.NoError(t, s.Close())
		})
	}
}

func TestSource_RejectsUnsupportedFormats(t *testing.T) {
	for name, magic := range map[string]string{
		"bzip2": "BZh91AY&SY", "xz": "\xFD7zXZ\x00\x00", "zip": "PK\x03\x04....", "Parquet": "PAR1....",
		"UTF-16": "\xFF\xFE{\x00",
	} {
		s, err := source.FromReader(t.Context(), "f", strings.NewReader(magic), smallLimits)
		require.NoError(t, err)
		_, err = s.Next()
		require.ErrorIs(t, err, source.ErrFormat)
		require.ErrorContains(t, err, name)
		require.NoError(t, s.Close())
	}
}

// An archive is one error with a hint, also inside compression; none of it is read as lines.
func TestSource_RejectsTarInsideCompression(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, format := range []tar.Format{tar.FormatGNU, tar.FormatPAX, tar.FormatUSTAR} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "people.ndjson", Mode: 0o600, Size: 3, Format: format}))
		_, err := w.Write([]byte("{}\n"))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	old := bytes.Clone(b.Bytes())
	copy(old[257:265], make([]byte, 8)) // as in version 7
	sum := 8 * int(' ')
	for i, c := range old[:512] {
		if i < 148 || i >= 156 {
			sum += int(c)
		}
	}
	copy(old[148:156], fmt.Sprintf("%06o\x00 ", sum))
	for name, data := range map[string][]byte{"now": b.Bytes(), "old": old} {
		for form, data := range map[string][]byte{"plain": data, "gzip": gzipped(t, data), "zstd": zstded(t, data)} {
			for _, n := range []int{1, 100, 1 << 20} {
				for _, format := range []source.Format{source.FormatAuto, source.FormatCSV, source.FormatNDJSON} {
					opts := smallLimits
					opts.Format = format
					s, err := source.FromReader(t.Context(), "f", &stutter{in: data, n: n}, opts)
					require.NoError(t, err)
					lines, _, _, err := drain(t, s)
					require.Empty(t, lines)
					require.ErrorIs(t, err, source.ErrFormat, "%s %s", name, form)
					require.ErrorContains(t, err, "tar -xOf")
				}
			}
		}
	}
	s, err := source.FromReader(t.Context(), "f", bytes.NewReader(gzipped(t, []byte("PK\x03\x04...."))), smallLimits)
	require.NoError(t, err)
	_, err = s.Next()
	require.ErrorContains(t, err, "Excel")
}

func TestOpen_ReportsErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := source.Open(t.Context(), filepath.Join(dir, "absent"), smallLimits)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = source.Open(t.Context(), dir, smallLimits)
	require.ErrorContains(t, err, "is a directory")

	path := filepath.Join(dir, "f.ndjson")
	require.NoError(t, os.WriteFile(path, []byte("{}\n{}\n"), 0o600))
	s, err := source.Open(t.Context(), path, smallLimits)
	require.NoError(t, err)
	require.Equal(t, path, s.Name())
	lines, _, _, err := drain(t, s)
	require.Equal(t, io.EOF, err)
	require.Len(t, lines, 2)
	require.Equal(t, int64(6), s.Consumed())
	require.NoError(t, s.Close())

	_, err = source.FromReader(t.Context(), "f", strings.NewReader(""), source.Options{})
	require.Error(t, err)
}

// A wait ends with the context.
func TestSource_ReturnsLinesOfSlowWriterAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	s, err := source.FromReader(ctx, source.Stdin, r, source.Options{MaxLine: 1 << 20, Head: 64 << 10})
	require.NoError(t, err)
	for range 3 {
		_, err = io.WriteString(w, "{}\n{\"half\":")
		require.NoError(t, err)
		c, err := s.Next()
		require.NoError(t, err)
		require.NotEmpty(t, c.Lines)
		c.Release()
		_, err = io.WriteString(w, "1}\n")
		require.NoError(t, err)
		c, err = s.Next()
		require.NoError(t, err)
		require.Equal(t, `{"half":1}`, string(c.Lines[0].Raw))
		c.Release()
	}
	waited := make(chan error, 1)
	go func() {
		_, err := s.Next()
		waited <- err
	}()
	cancel()
	select {
	case err := <-waited:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		require.Fail(t, "wait for input did not end")
	}
	require.NoError(t, s.Close())
	require.NoError(t, w.Close())
}

// FuzzLines compares the reader with splitting the whole text.
func FuzzLines(f *testing.F) {
	f.Add([]byte("77\n\r\n7"), uint8(3))
	f.Add(bytes.Repeat([]byte("0123456789"), 25), uint8(1))
	f.Add([]byte("\xEF\xBB\xBF\n"), uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, read uint8) {
		if len(in) >= 2 &&
			strings.Contains("BZPKPA7z\x1f\x8b\x28\xb5\xff\xfe\xfe\xff\xfd\x37\x04\x22*M", string(in[:2])) ||
			len(in) > 3 && in[1] == 0x2A {
			return // compressed or unsupported
		}
		if bytes.ContainsAny(in, "{[") {
			return // covered by FuzzJSON
		}
		var want []got
		var blanks, offset int64
		for i, line := range bytes.SplitAfter(in, []byte("\n")) {
			if len(line) == 0 {
				break // the empty rest after the last line end
			}
			raw := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			if i == 0 {
				raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
			}
			switch {
			case len(raw) > smallLimits.MaxLine:
				want = append(want, got{string(raw[:smallLimits.Head]), int64(i + 1), offset, int64(len(raw))})
			case len(bytes.Trim(raw, " \t\r")) == 0:
				blanks++
			default:
				want = append(want, got{string(raw), int64(i + 1), offset, 0})
			}
			offset += int64(len(line))
		}
		s, err := source.FromReader(t.Context(), "fuzz", &stutter{in: in, n: int(read)%50 + 1}, smallLimits)
		require.NoError(t, err)
		lines, blank, end, err := drain(t, s)
		require.Equal(t, io.EOF, err)
		require.Equal(t, want, lines)
		require.Equal(t, blanks, blank)
		require.Equal(t, offset, end.Offset)
		require.NoError(t, s.Close())
	})
}

// stutter reads n bytes at a time.
type stutter struct {
	in []byte
	n  int
}

func (s *stutter) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.in[:min(s.n, len(s.in))])
	s.in = s.in[n:]
	return n, nil
}

func BenchmarkLines(b *testing.B) {
	record := append(bytes.Repeat([]byte("x"), 1600), '\n')
	text := bytes.Repeat(record, 20_000)
	forms := map[string][]byte{"plain": text, "gzip": gzipped(b, text), "zstd": zstded(b, text)}
	for form, data := range forms {
		b.Run(form, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s, err := source.FromReader(b.Context(), "bench", bytes.NewReader(data),
					source.Options{MaxLine: 1 << 20, Head: 64 << 10})
				require.NoError(b, err)
				lines, _, _, err := countLines(s)
				require.Equal(b, io.EOF, err)
				require.Equal(b, 20_000, lines)
				require.NoError(b, s.Close())
			}
		})
	}
}

func countLines(s source.Source) (lines int, blank int64, end source.Position, err error) {
	for {
		c, err := s.Next()
		if err != nil {
			return lines, blank, end, err
		}
		lines += len(c.Lines)
		end = c.End
		c.Release()
	}
}

func TestJSON_ResumesAfterAnyChunk(t *testing.T) {
	text := "\ufeff{\"a\":1}\r\n\n" + strings.Repeat(`{"b":"`+strings.Repeat("x", 80)+`"}`+"\n", 4000) + `{"c":3}`
	for name, data := range map[string][]byte{"plain": []byte(text), "gzip": gzipped(t, []byte(text))} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			open := func(from source.Position) ([]source.Line, []source.Position) {
				opts := smallLimits
				opts.From = from
				s, err := source.Open(t.Context(), path, opts)
				require.NoError(t, err)
				defer s.Close()
				var lines []source.Line
				var ends []source.Position
				for {
					c, err := s.Next()
					if err != nil {
						require.ErrorIs(t, err, io.EOF)
						require.Equal(t, int64(len(data)), s.Consumed())
						return lines, ends
					}
					for _, l := range c.Lines {
						l.Raw = bytes.Clone(l.Raw)
						lines = append(lines, l)
					}
					ends = append(ends, c.End)
				}
			}
			all, ends := open(source.Position{})
			require.Len(t, all, 4002)
			require.Greater(t, len(ends), 2)
			for _, end := range ends {
				rest, _ := open(end)
				i := slices.IndexFunc(all, func(l source.Line) bool { return l.Number > end.Line })
				if i < 0 {
					require.Empty(t, rest)
				} else {
					require.Equal(t, all[i:], rest)
				}
			}
			opts := smallLimits
			opts.From = source.Position{Line: 99, Offset: int64(len(text)) + 1}
			s, err := source.Open(t.Context(), path, opts)
			require.NoError(t, err)
			defer s.Close()
			_, err = s.Next()
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.ErrorContains(t, err, "start at byte")
		})
	}
}

// Each text is read with several buffer sizes, which must agree.
func TestJSON_ReadsValuesNotLines(t *testing.T) {
	tests := map[string]struct {
		in    string
		want  []got
		blank int64
		bad   string // the reason of objects with Bad
	}{
		"pretty-printed object": {
			in:   "{\n  \"a\": {\n    \"b\": \"}\\\"{\"\n  }\n}\n",
			want: []got{{"{\n  \"a\": {\n    \"b\": \"}\\\"{\"\n  }\n}", 1, 0, 0}},
		},
		"pretty-printed array": {
			in:   "[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": [2, 3]\n  }\n]\n",
			want: []got{{"{\n    \"a\": 1\n  }", 2, 4, 0}, {"{\n    \"b\": [2, 3]\n  }", 5, 24, 0}},
		},
		"array on one line": {in: `[{"a":1},{"b":2}]`, want: []got{{`{"a":1}`, 1, 1, 0}, {`{"b":2}`, 1, 9, 0}}},
		"one element per line": {
			in:   "[\n{\"a\":1},\n{\"b\":2}\n]\n",
			want: []got{{`{"a":1}`, 2, 2, 0}, {`{"b":2}`, 3, 11, 0}},
		},
		"comma first": {
			in:   "[ {\"a\":1}\n, {\"b\":2}\n]\n",
			want: []got{{`{"a":1}`, 1, 2, 0}, {`{"b":2}`, 2, 12, 0}},
		},
		"comma at the end": {
			in:   "[{\"a\":1},\n]\n{\"b\":2}\n",
			want: []got{{`{"a":1}`, 1, 1, 0}, {`{"b":2}`, 3, 12, 0}},
		},
		"nested arrays":    {in: `[[{"a":1}],[]]`, want: []got{{`[{"a":1}]`, 1, 1, 0}, {`[]`, 1, 11, 0}}},
		"empty array":      {in: "[]\n[\n]\n"},
		"array of numbers": {in: "[1,\n2]\n", want: []got{{"[1,\n2]", 1, 0, 0}}},
		"consecutive arrays": {
			in: "[{\"a\":1}]\n[{\"b\":2}]\n{\"c\":3}[{\"d\":4}]", want: []got{{`{"a":1}`, 1, 1, 0}, {`{"b":2}`, 2,
				11, 0}, {`{"c":3}`, 3, 20, 0}, {`{"d":4}`, 3, 28, 0}},
		},
		"values on one line": {
			in:   `{"a":1}{"b":2} {"c":"}{"}`,
			want: []got{{`{"a":1}`, 1, 0, 0}, {`{"b":2}`, 1, 7, 0}, {`{"c":"}{"}`, 1, 15, 0}},
		},
		"lines that end in CR": {
			in:   "{\"a\":1}\r{\"b\":2}\r",
			want: []got{{`{"a":1}`, 1, 0, 0}, {`{"b":2}`, 1, 8, 0}},
		},
		"NDJSON, then pretty": {
			in:   "{\"a\":1}\n{\n \"b\": 2\n}\n{\"c\":3}\n",
			want: []got{{`{"a":1}`, 1, 0, 0}, {"{\n \"b\": 2\n}", 2, 8, 0}, {`{"c":3}`, 5, 20, 0}},
		},
		"first line is balanced": {
			in:   "{\"a\": {}\n, \"b\": {}\n}\n",
			want: []got{{"{\"a\": {}\n, \"b\": {}\n}", 1, 0, 0}},
		},
		"byte order mark": {in: "\xEF\xBB\xBF[\n{\"a\":1}]", want: []got{{`{"a":1}`, 2, 5, 0}}},
		"bad line": {
			in:   "{\"a\":1}\n{\"b\":\n{\"c\":3}\n{\"d\":4}\n",
			want: []got{{`{"a":1}`, 1, 0, 0}, {`{"b":`, 2, 8, 0}, {`{"c":3}`, 3, 14, 0}, {`{"d":4}`, 4, 22, 0}},
		},
		"bad first line": {
			in:   "{\"a\":[1,\n{\"b\":2}\n{\"c\":3}\n",
			want: []got{{`{"a":[1,`, 1, 0, 0}, {`{"b":2}`, 2, 9, 0}, {`{"c":3}`, 3, 17, 0}},
		},
		"bad last line": {in: "{\"a\":1}\n{\"b\":", want: []got{{`{"a":1}`, 1, 0, 0}, {`{"b":`, 2, 8, 0}}},
		"unclosed string": {
			in:   "{\"a\":\"x\n{\"b\":2}\n",
			want: []got{{`{"a":"x`, 1, 0, 0}, {`{"b":2}`, 2, 8, 0}},
		},
		"not JSON": {
			in: "x y\n{\"a\":1}\n}\n]\n\"s\"\nnull\n",
			want: []got{
				{"x y", 1, 0, 0},
				{`{"a":1}`, 2, 4, 0},
				{"}", 3, 12, 0},
				{"]", 4, 14, 0},
				{`"s"`, 5, 16, 0},
				{"null", 6, 20, 0},
			},
		},
		"text after a value": {
			in:   "{\"a\":1},\n{\"b\":2} x\n{\"c\":3}\n",
			want: []got{{`{"a":1},`, 1, 0, 0}, {`{"b":2} x`, 2, 9, 0}, {`{"c":3}`, 3, 19, 0}},
		},
		"open brackets": {in: "{\n{\n{\n", want: []got{{"{", 1, 0, 0}, {"{", 2, 2, 0}, {"{", 3, 4, 0}}},
		"bad document": {
			in:   "{\n  \"a\": 1,\n  \"b\" 2\n}\n{\n  \"c\": 3\n}\n",
			want: []got{{"{\n  \"a\": 1,\n  \"b\" 2\n}", 1, 0, 0}, {"{\n  \"c\": 3\n}", 5, 22, 0}},
		},
		"bad element on a line": {
			in:   `[{"a":1},{"b":},{"c":3}]`,
			want: []got{{`{"a":1}`, 1, 1, 0}, {`{"b":}`, 1, 9, 0}, {`{"c":3}`, 1, 16, 0}},
		},
		"bad element on several lines": {
			in: "[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": x y\n  },\n  {\n    \"c\": 3\n  }\n]\n",
			want: []got{
				{"{\n    \"a\": 1\n  }", 2, 4, 0},
				{"{\n    \"b\": x y\n  }", 5, 24, 0},
				{"{\n    \"c\": 3\n  }", 8, 46, 0},
			},
		},
		"array without a comma": {
			in: "[\n{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n", bad: "array without a comma between elements",
			want: []got{{`{"a":1}`, 2, 2, 0}, {"[", 1, 0, 0}, {`{"b":2}`, 3, 10, 0}, {`{"c":3}`, 4, 18, 0}},
		},
		"unclosed array": {
			in:   "[{\"a\":1},\n{\"b\":2}",
			bad:  "is not closed",
			want: []got{{`{"a":1}`, 1, 1, 0}, {`{"b":2}`, 2, 10, 0}, {"[", 1, 0, 0}},
		},
		"blank lines": {
			in:    "\n[\n\n{\"a\":1}\n]\n\n{\"b\":2}\n\n",
			want:  []got{{`{"a":1}`, 4, 4, 0}, {`{"b":2}`, 7, 15, 0}},
			blank: 3,
		},
		"oversize element": {
			in:   `[{"a":"` + strings.Repeat("x", 300) + `"},{"b":2}]` + "\n{}\n",
			want: []got{{`{"a":"xxxx`, 1, 1, 308}, {`{"b":2}`, 1, 310, 0}, {"{}", 2, 319, 0}},
		},
		"oversize document": {
			in:   "{\n \"a\": \"" + strings.Repeat("x", 300) + "\"\n}\n{}\n",
			want: []got{{"{\n \"a\": \"x", 1, 0, 312}, {"{}", 4, 313, 0}},
		},
		"oversize bad document": {
			in:   "{\n \"a\": \"" + strings.Repeat("x", 300) + "\" y\n}\n",
			want: []got{{"{\n \"a\": \"x", 1, 0, 312}, {"}", 3, 313, 0}},
		},
	}
	for name, tt := range tests {
		forms := map[string][]byte{
			"plain": []byte(tt.in), "gzip": gzipped(t, []byte(tt.in)), "zstd": zstded(t, []byte(tt.in)),
		}
		for form, data := range forms {
			for _, n := range []int{1, 2, 3, 7, 1000} {
				t.Run(name+"/"+form, func(t *testing.T) {
					s, err := source.FromReader(t.Context(), "test", &stutter{in: data, n: n}, smallLimits)
					require.NoError(t, err)
					lines, blank, end, err := drainJSON(t, s, tt.bad)
					require.Equal(t, io.EOF, err)
					require.Equal(t, tt.want, lines)
					require.Equal(t, tt.blank, blank)
					whole := int64(strings.Count(tt.in, "\n"))
					if !strings.HasSuffix(tt.in, "\n") {
						whole++
					}
					require.Equal(t, source.Position{Line: whole, Offset: int64(len(tt.in))}, end)
				})
			}
		}
	}
}

func drainJSON(t testing.TB, s source.Source, bad string) (lines []got, blank int64, end source.Position, err error) {
	t.Helper()
	for {
		c, err := s.Next()
		if err != nil {
			return lines, blank, end, err
		}
		for _, l := range c.Lines {
			g := got{text: string(l.Raw), number: l.Number, offset: l.Offset}
			if l.Oversize != nil {
				g.length = l.Oversize.Length
			}
			if l.Bad != nil {
				require.Contains(t, l.Bad.Reason, bad)
				require.NotEmpty(t, bad)
			}
			lines = append(lines, g)
		}
		blank += c.Blank
		end = c.End
		c.Release()
	}
}

func TestJSON_ArrayOfAnyLengthTakesBoundedMemory(t *testing.T) {
	element := `{"profile_id":"p","username":"u","summary":"` + strings.Repeat("s", 150) + `"},`
	const n = 300_000 // 60 MB
	for name, separator := range map[string]string{"one line": "", "one element per line": "\n"} {
		t.Run(name, func(t *testing.T) {
			in := io.MultiReader(strings.NewReader("["), &repeated{text: element + separator, n: n},
				strings.NewReader("{}]"))
			s, err := source.FromReader(t.Context(), "test", in,
				source.Options{MaxLine: 1 << 20, Head: 64 << 10, Format: source.FormatNDJSON})
			require.NoError(t, err)
			count := 0
			took := heaptest.Peak(func() {
				for {
					c, err := s.Next()
					if err != nil {
						require.Equal(t, io.EOF, err)
						return
					}
					require.LessOrEqual(t, len(c.Lines), 512)
					count += len(c.Lines)
					c.Release()
				}
			})
			require.Equal(t, n+1, count)
			require.Less(t, took, uint64(16<<20))
		})
	}
}

// repeated is a reader of a text, n times.
type repeated struct {
	text string
	n    int
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.n == 0 {
			return 0, io.EOF
		}
		many := min(r.n, 1000)
		r.n -= many
		r.rest = strings.Repeat(r.text, many)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestJSON_ResumesWithinAnArray(t *testing.T) {
	element := "{\n  \"a\": \"" + strings.Repeat("x", 100) + "\"\n}"
	for name, text := range map[string]string{
		"pretty":      "[\n" + strings.Repeat(element+",\n", 3000) + "{}\n]\n{\"b\":1}\n",
		"comma first": "[\n" + strings.Repeat(element+"\n, ", 3000) + "{}\n]\n{\"b\":1}\n",
		"one line":    "[" + strings.Repeat(`{"a":"`+strings.Repeat("x", 100)+`"},`, 3000) + "{}]\n{\"b\":1}\n",
		"two arrays": "[" + strings.Repeat(`{"a":1}, `, 1500) + "{}]\n[" + strings.Repeat(`{"a":1} ,`,
			1500) + "{}]{\"b\":1}\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.json")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			read := func(from source.Position) (offsets []int64, ends []source.Position) {
				s, err := source.Open(t.Context(), path, source.Options{MaxLine: 1 << 20, Head: 64 << 10, From: from})
				require.NoError(t, err)
				defer s.Close()
				for {
					c, err := s.Next()
					if err != nil {
						require.Equal(t, io.EOF, err)
						return offsets, ends
					}
					for _, l := range c.Lines {
						require.Nil(t, l.Bad)
						require.True(t, jsontext.Value(l.Raw).IsValid(), "%s", l.Raw)
						offsets = append(offsets, l.Offset)
					}
					ends = append(ends, c.End)
				}
			}
			all, ends := read(source.Position{})
			require.GreaterOrEqual(t, len(all), 3002)
			require.Greater(t, len(ends), 4)
			for _, end := range ends[:len(ends)-1] {
				rest, ends := read(end)
				i := slices.IndexFunc(all, func(offset int64) bool { return offset >= end.Offset })
				require.Equal(t, all[i:], rest)
				require.Equal(t, int64(len(text)), ends[len(ends)-1].Offset)
				require.Equal(t, int64(strings.Count(text, "\n")), ends[len(ends)-1].Line)
			}
		})
	}
}

// Longer arrays are split.
func TestJSON_WholeListsReturnsArraysAsObjects(t *testing.T) {
	opts := smallLimits
	opts.WholeLists = true
	for in, want := range map[string][]got{
		"[\n{\"a\":1},\n{\"b\":2}\n]\n":                  {{"[\n{\"a\":1},\n{\"b\":2}\n]", 1, 0, 0}},
		`[{"a":1}]{"b":2}`:                               {{`[{"a":1}]`, 1, 0, 0}, {`{"b":2}`, 1, 9, 0}},
		"[" + strings.Repeat(`{"a":12345},`, 20) + `{}]`: nil,
		"[]": {{"[]", 1, 0, 0}},
		"[{\"a\":1},\n{\"b\":2}\n{\"c\":3}]\n{\"d\":4}\n": {{`[{"a":1},`, 1, 0, 0}, {`{"b":2}`, 2, 10, 0},
			{`{"c":3}]`, 3, 18, 0}, {`{"d":4}`, 4, 27, 0}},
	} {
		s, err := source.FromReader(t.Context(), "test", strings.NewReader(in), opts)
		require.NoError(t, err)
		lines, _, _, err := drainJSON(t, s, "")
		require.Equal(t, io.EOF, err)
		if want == nil {
			require.Len(t, lines, 21)
			continue
		}
		require.Equal(t, want, lines, in)
	}
}

// Some texts make scanning restart at every line.
func TestJSON_HostileTextTakesLinearTime(t *testing.T) {
	const size = 128 << 10
	lines := []string{
		"{\n", "[\n", "{\"a\":\n", "[{\n", " {\n", "[1,\n", "[\"\n", "}\n", "{\"a\":[\n", "[{\"a\":1}\n",
		"{\"a\":1}}\n", "[,", "[[", "{\"a\":", "]}", "[]\n",
	}
	for _, line := range lines {
		began := time.Now()
		s, err := source.FromReader(t.Context(), "test", strings.NewReader(strings.Repeat(line, size/len(line))),
			source.Options{MaxLine: 64 << 10, Head: 1 << 10, Format: source.FormatNDJSON})
		require.NoError(t, err)
		_, _, end, err := drainJSON(t, s, "array")
		require.Equal(t, io.EOF, err)
		require.Equal(t, int64(size/len(line)*len(line)), end.Offset)
		require.Less(t, time.Since(began), 20*time.Second, "%q", line)
	}
}

// FuzzJSON compares the reader with the decoder, and with itself for other buffer sizes.
func FuzzJSON(f *testing.F) {
	seeds := []string{
		"[{\"a\":1},\n {\"b\":2}] {}", "{\n\"a\":[]}\n{\"b\":\n{}", "[\n{\"a\":1}\n{\"b\":2}",
		"\xEF\xBB\xBF[ ]\r\n{} x\n", "[{\"a\":\"\\\"]\"}\n,", "[1]{",
	}
	for _, seed := range seeds {
		f.Add([]byte(seed), uint8(2))
	}
	opts := source.Options{MaxLine: 200, Head: 10, ChunkSize: 64, Format: source.FormatNDJSON}
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		if len(in) >= 2 &&
			strings.Contains("BZPKPA7z\x1f\x8b\x28\xb5\xff\xfe\xfe\xff\xfd\x37\x04\x22*MRaOb%P\xd0\xcfSQ",
				string(in[:2])) ||
			len(in) > 3 && in[1] == 0x2A {
			return // compressed or unsupported
		}
		read := func(n int) ([]got, source.Position) {
			s, err := source.FromReader(t.Context(), "fuzz", &stutter{in: bytes.Clone(in), n: n}, opts)
			require.NoError(t, err)
			lines, _, end, err := drainJSON(t, s, "array")
			require.Equal(t, io.EOF, err)
			return lines, end
		}
		lines, end := read(int(n)%50 + 1)
		again, same := read(len(in) + 1)
		require.Equal(t, again, lines)
		require.Equal(t, same, end)
		require.Equal(t, int64(len(in)), end.Offset)
		want, ok := decoded(in)
		if ok && len(in) <= opts.MaxLine {
			var texts []string
			for _, l := range lines {
				texts = append(texts, l.text)
			}
			require.Equal(t, want, texts)
		}
	})
}

// decoded returns the objects of a text that only contains objects and arrays of objects.
func decoded(in []byte) (objects []string, ok bool) {
	d := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(in, []byte("\xEF\xBB\xBF"))),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		v, err := d.ReadValue()
		switch {
		case errors.Is(err, io.EOF):
			return objects, true
		case err != nil || v.Kind() != '{' && v.Kind() != '[':
			return nil, false
		case v.Kind() == '{':
			objects = append(objects, string(v))
			continue
		}
		elements := jsontext.NewDecoder(bytes.NewReader(bytes.Clone(v)), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true))
		_, _ = elements.ReadToken()
		for elements.PeekKind() != ']' {
			v, err := elements.ReadValue()
			if err != nil || v.Kind() != '{' {
				return nil, false
			}
			objects = append(objects, string(v))
		}
	}
}
