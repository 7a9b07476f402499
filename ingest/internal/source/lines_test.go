package source_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/source"
)

var small = source.Options{MaxLine: 100, Head: 10, ChunkSize: 64}

// got is what a test compares of a line.
type got struct {
	text   string
	number int64
	offset int64
	length int64 // of an over-long line
}

// drain reads a source to its end and returns its lines, the number of blank
// ones, the last position and the error that ended it.
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

func TestLines(t *testing.T) {
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
		"CRLF":               {in: "{}\r\n[]\r\n", lines: []got{{"{}", 1, 0, 0}, {"[]", 2, 4, 0}}},
		"CR at the very end": {in: "{}\r", lines: []got{{"{}", 1, 0, 0}}},
		"blank lines count":  {in: "\n{}\n \t\r\n\n[]\n\n", lines: []got{{"{}", 2, 1, 0}, {"[]", 5, 9, 0}}, blank: 4},
		"only blank":         {in: "\n\n\n", blank: 3},
		"bad UTF-8 is kept":  {in: "\xff\xc0\n", lines: []got{{"\xff\xc0", 1, 0, 0}}},
		"NUL bytes are kept": {in: "a\x00b\n", lines: []got{{"a\x00b", 1, 0, 0}}},
		"byte order mark":    {in: "\xEF\xBB\xBF{}\n{}\n", lines: []got{{"{}", 1, 0, 0}, {"{}", 2, 6, 0}}},
		"the longest line":   {in: most + "\r\n{}\n", lines: []got{{most, 1, 0, 0}, {"{}", 2, 102, 0}}},
		"the longest line with a mark": {
			in:    "\xEF\xBB\xBF" + most + "\r\n{}\n",
			lines: []got{{most, 1, 0, 0}, {"{}", 2, 105, 0}},
		},
		"one byte too long": {in: most + "x\n{}\n", lines: []got{{"mmmmmmmmmm", 1, 0, 101}, {"{}", 2, 102, 0}}},
		"a carriage return makes it too long": {
			in:    most + "\r\r\n{}\n",
			lines: []got{{"mmmmmmmmmm", 1, 0, 101}, {"{}", 2, 103, 0}},
		},
		"far too long": {
			in:    "{}\n" + long + "\r\n{}\n",
			lines: []got{{"{}", 1, 0, 0}, {"0123456789", 2, 3, 300}, {"{}", 3, 305, 0}},
		},
		"far too long at the end": {in: long, lines: []got{{"0123456789", 1, 0, 300}}},
		"two of them":             {in: long + "\n" + long + "\n", lines: []got{{"0123456789", 1, 0, 300}, {"0123456789", 2, 301, 300}}},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"whole":       func(r io.Reader) io.Reader { return r },
		"byte a read": iotest.OneByteReader,
		"half a read": iotest.HalfReader,
		"data + EOF":  iotest.DataErrReader,
	}
	for name, tt := range tests {
		forms := map[string][]byte{"plain": []byte(tt.in), "gzip": gzipped(t, []byte(tt.in)), "zstd": zstded(t, []byte(tt.in))}
		for form, data := range forms {
			for how, wrap := range readers {
				t.Run(name+"/"+form+"/"+how, func(t *testing.T) {
					s, err := source.FromReader(t.Context(), "test", wrap(bytes.NewReader(data)), small)
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
					require.Equal(t, io.EOF, err, "the end stays the end")
				})
			}
		}
	}
}

func TestOversizeHash(t *testing.T) {
	for _, length := range []int{101, 105, 106, 1000, 200_000, 700_001} {
		for _, ending := range []string{"", "\n", "\r\n"} {
			line := bytes.Repeat([]byte("x"), length)
			s, err := source.FromReader(t.Context(), "test", strings.NewReader(string(line)+ending), small)
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

// A line of 200 MiB passes by in the memory of a short one.
func TestOversizeIsNotBuffered(t *testing.T) {
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

// endless gives one byte for ever.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestDamagedInput(t *testing.T) {
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
		"gzip cut in its middle": {in: bytes.NewReader(half(gzipped(t, whole))), op: "decompress gzip"},
		"zstd cut in its middle": {in: bytes.NewReader(half(zstded(t, whole))), op: "decompress zstd"},
		"gzip cut in its header": {in: bytes.NewReader(gzipped(t, whole)[:5]), op: "decompress gzip"},
		"zstd cut in its header": {in: bytes.NewReader(zstded(t, whole)[:5]), op: "decompress zstd"},
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
			s, err := source.FromReader(t.Context(), "people.gz", tt.in, source.Options{MaxLine: 1 << 20, Head: 64 << 10})
			require.NoError(t, err)
			lines, _, end, err := drain(t, s)
			failure, ok := errors.AsType[*source.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "people.gz", failure.Name)
			require.Equal(t, tt.op, failure.Op)
			require.Equal(t, end, failure.At)
			require.NotZero(t, failure.Consumed)
			require.Contains(t, err.Error(), "people.gz: "+tt.op+" behind line ")
			require.NotErrorIs(t, err, io.EOF)
			for _, l := range lines { // no torn line was delivered
				require.True(t, tt.bad || len(l.text) == 52, "a torn line: %s", l.text)
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

func TestSeveralMembers(t *testing.T) {
	for name, in := range map[string][]byte{
		"gzip":           append(gzipped(t, []byte("1\n2")), gzipped(t, []byte("3\n"))...),
		"zstd":           append(zstded(t, []byte("1\n2")), zstded(t, []byte("3\n"))...),
		"zstd, skipping": append([]byte{0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 9, 9}, zstded(t, []byte("1\n23\n"))...),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := source.FromReader(t.Context(), "test", bytes.NewReader(in), small)
			require.NoError(t, err)
			lines, _, _, err := drain(t, s)
			require.Equal(t, io.EOF, err)
			require.Equal(t, []got{{"1", 1, 0, 0}, {"23", 2, 2, 0}}, lines)
			require.NoError(t, s.Close())
		})
	}
}

func TestForeignFormats(t *testing.T) {
	for name, magic := range map[string]string{
		"bzip2": "BZh91AY&SY", "xz": "\xFD7zXZ\x00\x00", "zip": "PK\x03\x04....", "Parquet": "PAR1....", "UTF-16": "\xFF\xFE{\x00",
	} {
		s, err := source.FromReader(t.Context(), "f", strings.NewReader(magic), small)
		require.NoError(t, err)
		_, err = s.Next()
		require.ErrorIs(t, err, source.ErrFormat)
		require.ErrorContains(t, err, name)
		require.NoError(t, s.Close())
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	_, err := source.Open(t.Context(), filepath.Join(dir, "absent"), small)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = source.Open(t.Context(), dir, small)
	require.ErrorContains(t, err, "is a directory")

	path := filepath.Join(dir, "f.ndjson")
	require.NoError(t, os.WriteFile(path, []byte("{}\n{}\n"), 0o600))
	s, err := source.Open(t.Context(), path, small)
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

// A producer that writes a line now and then sees each taken at once, and a
// wait for it ends with the context.
func TestSlowProducer(t *testing.T) {
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
		require.Fail(t, "the wait for input did not end")
	}
	require.NoError(t, s.Close())
	require.NoError(t, w.Close())
}

// FuzzLines holds the reader against cutting the whole text apart at once.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\n\r\n[]"), uint8(3))
	f.Add(bytes.Repeat([]byte("0123456789"), 25), uint8(1))
	f.Add([]byte("\xEF\xBB\xBF\n"), uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, read uint8) {
		if len(in) >= 2 && strings.Contains("BZPKPA7z\x1f\x8b\x28\xb5\xff\xfe\xfe\xff\xfd\x37\x04\x22*M", string(in[:2])) || len(in) > 3 && in[1] == 0x2A {
			return // compressed or foreign
		}
		var want []got
		var blanks, offset int64
		for i, line := range bytes.SplitAfter(in, []byte("\n")) {
			if len(line) == 0 {
				break // what SplitAfter finds behind the last line end
			}
			raw := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
			if i == 0 {
				raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
			}
			switch {
			case len(raw) > small.MaxLine:
				want = append(want, got{string(raw[:small.Head]), int64(i + 1), offset, int64(len(raw))})
			case len(bytes.Trim(raw, " \t\r")) == 0:
				blanks++
			default:
				want = append(want, got{string(raw), int64(i + 1), offset, 0})
			}
			offset += int64(len(line))
		}
		s, err := source.FromReader(t.Context(), "fuzz", &stutter{in: in, n: int(read)%50 + 1}, small)
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
				s, err := source.FromReader(b.Context(), "bench", bytes.NewReader(data), source.Options{MaxLine: 1 << 20, Head: 64 << 10})
				require.NoError(b, err)
				lines, _, _, err := drainCount(s)
				require.Equal(b, io.EOF, err)
				require.Equal(b, 20_000, lines)
				require.NoError(b, s.Close())
			}
		})
	}
}

func drainCount(s source.Source) (lines int, blank int64, end source.Position, err error) {
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

// A reading that begins behind any chunk of another gives the rest of it.
func TestFrom(t *testing.T) {
	text := "\ufeff{\"a\":1}\r\n\n" + strings.Repeat(`{"b":"`+strings.Repeat("x", 80)+`"}`+"\n", 4000) + `{"c":3}`
	for name, data := range map[string][]byte{"plain": []byte(text), "gzip": gzipped(t, []byte(text))} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			open := func(from source.Position) ([]source.Line, []source.Position) {
				opts := small
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
			opts := small
			opts.From = source.Position{Line: 99, Offset: int64(len(text)) + 1}
			s, err := source.Open(t.Context(), path, opts)
			require.NoError(t, err)
			defer s.Close()
			_, err = s.Next()
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.ErrorContains(t, err, "begin at byte")
		})
	}
}
