package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// object is the part of an object that tests compare.
type object struct {
	text   string
	number int64
	offset int64
	bad    string
	length int64
}

func objects(t testing.TB, s source.Source) (all []object, end source.Position, err error) {
	t.Helper()
	defer s.Close()
	for {
		c, err := s.Next()
		if err != nil {
			return all, end, err
		}
		for _, l := range c.Lines {
			o := object{text: string(l.Raw), number: l.Number, offset: l.Offset}
			if l.Bad != nil {
				o.bad = l.Bad.Reason
			}
			if l.Oversize != nil {
				o.length = l.Oversize.Length
			}
			all = append(all, o)
		}
		end = c.End
		c.Release()
	}
}

func csvOptions(kind record.Kind) source.Options {
	return source.Options{MaxLine: 1 << 20, Head: 64 << 10, Format: source.FormatCSV, Kind: kind}
}

func TestTable_ConvertsRows(t *testing.T) {
	const np = record.KindNetworkPerson
	tests := map[string]struct {
		kind record.Kind
		text string
		want []object
	}{
		"types": {
			np, "profile_id,connections,location.city,emails,experience.1.title,experience.0.title," +
				"experience.0.current,x.y\n" +
				"p1,12,Lagos,a@b.example; c@d.example,Two,One,TRUE,7\n" +
				`7,12+,,"[""a;b"",""c""]",,,maybe,` + "\n",
			[]object{
				{
					text: `{"profile_id":"p1","connections":12,"location":{"city":"Lagos"},` +
						`"emails":["a@b.example","c@d.example"],"experience":[{"title":"One","current":true},` +
						`{"title":"Two"}],"x":{"y":"7"}}`,
					number: 2,
					offset: 107,
				},
				{
					text: `{"profile_id":"7","connections":"12+","emails":["a;b","c"],` +
						`"experience":[{"current":"maybe"}]}`,
					number: 3,
					offset: 159,
				},
			},
		},
		"quotes and line ends": {
			np, "profile_id,summary\r\n\"p,1\",\"a \"\"b\"\"\r\nc\"\r\n\r\np2,\"\"\r\np3,\\",
			[]object{
				{text: `{"profile_id":"p,1","summary":"a \"b\"\u000d\u000ac"}`, number: 2, offset: 20},
				{text: `{"profile_id":"p2"}`, number: 5, offset: 42},
				{text: `{"profile_id":"p3","summary":"\\"}`, number: 6, offset: 49},
			},
		},
		"semicolons and a byte order mark": {
			np,
			"\ufeffprofile_id;headline\np1;a, b\n",
			[]object{{text: `{"profile_id":"p1","headline":"a, b"}`, number: 2, offset: 23}},
		},
		"tabs": {
			np,
			"profile_id\theadline\np1\ta\n\t\n",
			[]object{
				{text: `{"profile_id":"p1","headline":"a"}`, number: 2, offset: 20},
				{text: `{}`, number: 3, offset: 25},
			},
		},
		"dots in a name": {
			"",
			`a\.b,c` + "\n1,2\n",
			[]object{{text: `{"a.b":"1","c":"2"}`, number: 2, offset: 7}},
		},
		"json in a cell": {
			np,
			"profile_id|x,skills,location\np1,\"[{\"\"skill\"\":\"\"go\"\"}]\",{\n",
			[]object{{text: `{"profile_id|x":"p1","skills":[{"skill":"go"}],"location":"{"}`, number: 2, offset: 29}},
		},
		"defects": {
			np, "profile_id,headline\np1\np2,a,b\np3,a\"b\n\"p4\"x,y\n\xff,é\np5,\"open\n",
			[]object{
				{text: `p1`, number: 2, offset: 20, bad: "has 1 fields, the header has 2"},
				{text: `p2,a,b`, number: 3, offset: 23, bad: "has 3 fields, the header has 2"},
				{text: `p3,a"b`, number: 4, offset: 30, bad: "is not CSV: field 2 contains a quote but is not quoted"},
				{text: `"p4"x,y`, number: 5, offset: 37, bad: "is not CSV: field 1 has text after its closing quote"},
				{text: "{\"profile_id\":\"\xff\",\"headline\":\"é\"}", number: 6, offset: 45},
				{text: "p5,\"open", number: 7, offset: 50, bad: "is not CSV: field 2 has an unclosed quote"},
			},
		},
		"lines that end in CR": {
			np, "profile_id,summary\rp1,\"a\rb\"\r\rp2,\"c\nd\"\rp3,e",
			[]object{
				{text: `{"profile_id":"p1","summary":"a\u000db"}`, number: 2, offset: 19},
				{text: `{"profile_id":"p2","summary":"c\u000ad"}`, number: 5, offset: 29},
				{text: `{"profile_id":"p3","summary":"e"}`, number: 6, offset: 38},
			},
		},
		"lines that end in CR CR LF": {
			np,
			"profile_id,summary\r\r\np1,a\r\r\n",
			[]object{{text: `{"profile_id":"p1","summary":"a"}`, number: 2, offset: 21}},
		},
		"header only": {np, "profile_id,headline\n", nil},
		"empty":       {np, "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			unwrapped := func(r io.Reader) io.Reader { return r }
			for _, wrap := range []func(io.Reader) io.Reader{unwrapped, iotest.OneByteReader} {
				s, err := source.FromReader(t.Context(), "f.csv", wrap(strings.NewReader(tt.text)), csvOptions(tt.kind))
				require.NoError(t, err)
				got, end, err := objects(t, s)
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, tt.want, got)
				if len(tt.want) > 0 {
					require.Equal(t, int64(len(tt.text)), end.Offset)
				}
			}
		})
	}
}

func TestTable_RejectsInvalidHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"a,a\n1,2\n":               `column 2: duplicate column "a"`,
		"a,a.b\n1,2\n":             `column 2: duplicate column "a"`,
		"a.b,a\n1,2\n":             `column 2: duplicate column "a"`,
		"a,\n1,2\n":                `column 2: name "" has an empty part`,
		"a,b..c\n1,2\n":            `column 2: name "b..c" has an empty part`,
		"a.0,a.b\n1,2\n":           `columns under "a" mix numbers and names`,
		"a,\"b\n1\",2\n":           `an unclosed quote`,
		"a,\xff\n1,2\n":            `column 2: name is not UTF-8`,
		strings.Repeat("a", 3<<20): `first line is longer than`,
	} {
		s, err := source.FromReader(t.Context(), "f.csv", strings.NewReader(text), csvOptions(""))
		require.NoError(t, err)
		_, _, err = objects(t, s)
		var bad *source.Error
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, "f.csv: read header")
		require.ErrorContains(t, err, want)
	}
}

// A row whose quote is never closed is skipped the same way; following rows are read.
func TestTable_OversizeRowTakesBoundedMemory(t *testing.T) {
	opts := csvOptions("")
	opts.MaxLine, opts.Head, opts.ChunkSize = 1000, 10, 500
	long := `1,"` + strings.Repeat("x\n", 200_000) + `"`
	text := "a,b\n" + long + "\r\n3,4\n5,\"" + strings.Repeat("y,\n", 300_000)
	s, err := source.FromReader(t.Context(), "f", strings.NewReader(text), opts)
	require.NoError(t, err)
	got, end, err := objects(t, s)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []object{
		{text: long[:10], number: 2, offset: 4, length: int64(len(long))},
		{text: `{"a":"3","b":"4"}`, number: 200_003, offset: int64(6 + len(long))},
		{text: "5,\"y,\ny,\ny", number: 200_004, offset: int64(10 + len(long)), length: int64(3 + 900_000)},
	}, got)
	require.Equal(t, int64(len(text)), end.Offset)
}

func TestTable_ResumesAfterAnyChunk(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,b\n")
	for i := range 30_000 {
		fmt.Fprintf(&text, "%d,\"x\n%d\"\n", i, i)
	}
	files := map[string][]byte{"f.csv": []byte(text.String()), "f.csv.zst": zstded(t, []byte(text.String()))}
	for name, data := range files {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		opts := source.Options{MaxLine: 1 << 20, Head: 64 << 10}
		s, err := source.Open(t.Context(), path, opts)
		require.NoError(t, err)
		first, err := s.Next()
		require.NoError(t, err)
		opts.From = first.End
		require.NoError(t, s.Close())
		rest, err := source.Open(t.Context(), path, opts)
		require.NoError(t, err)
		got, end, err := objects(t, rest)
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, got, 30_000-len(first.Lines))
		require.Equal(t, source.Position{Line: 60_001, Offset: int64(text.Len())}, end)
		require.Equal(t, fmt.Sprintf(`{"a":"%d","b":"x\u000a%d"}`, len(first.Lines), len(first.Lines)), got[0].text)
		require.Equal(t, first.End.Offset, got[0].offset)
	}
}

// The format is detected by the name, or else by the first bytes.
func TestOpen_DetectsFormat(t *testing.T) {
	table, lines := "profile_id,headline\np,h\n", `{"profile_id":"p"}`+"\n"
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a.csv":       {[]byte(table), `{"profile_id":"p","headline":"h"}`},
		"a.csv.gz":    {gzipped(t, []byte(table)), `{"profile_id":"p","headline":"h"}`},
		"a.tsv":       {[]byte("profile_id\theadline\np\th\n"), `{"profile_id":"p","headline":"h"}`},
		"a.dat":       {[]byte(table), `{"profile_id":"p","headline":"h"}`},
		"b.dat":       {zstded(t, []byte(table)), `{"profile_id":"p","headline":"h"}`},
		"c.dat":       {[]byte(lines), strings.TrimSpace(lines)},
		"d":           {gzipped(t, []byte(lines)), strings.TrimSpace(lines)},
		"a.ndjson":    {[]byte(table), "profile_id,headline"},
		"a.JSONL.ZST": {zstded(t, []byte(lines)), strings.TrimSpace(lines)},
		"e":           {[]byte("no,{header}\n"), "no,{header}"},
		"f":           {[]byte("word\n"), "word"},
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, c.data, 0o600))
		s, err := source.Open(t.Context(), path, source.Options{MaxLine: 1 << 20, Head: 64 << 10})
		require.NoError(t, err)
		got, _, err := objects(t, s)
		require.ErrorIs(t, err, io.EOF)
		require.NotEmpty(t, got, name)
		require.Equal(t, c.want, got[0].text, name)

		s, err = source.FromReader(t.Context(), "-", bytes.NewReader(c.data),
			source.Options{MaxLine: 1 << 20, Head: 64 << 10})
		require.NoError(t, err)
		_, _, err = objects(t, s)
		require.ErrorIs(t, err, io.EOF)
	}
	s, err := source.FromReader(t.Context(), "-", iotest.ErrReader(errors.New("broken pipe")),
		source.Options{MaxLine: 1 << 20, Head: 64 << 10})
	require.NoError(t, err)
	_, _, err = objects(t, s)
	require.ErrorContains(t, err, "broken pipe")
	_, err = source.FromReader(t.Context(), "-", strings.NewReader(""),
		source.Options{MaxLine: 1 << 20, Head: 1, Format: source.FormatParquet})
	require.ErrorContains(t, err, "only be read from files")
	for name, want := range map[string]source.Format{"auto": "", "": "", "CSV": "csv", "parquet": "parquet"} {
		got, err := source.ParseFormat(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = source.ParseFormat("xml")
	require.ErrorContains(t, err, `unknown format "xml"`)
}

// FuzzTable checks that each row is an object or has a reason, that offsets grow, and that buffer
// sizes do not matter.
func FuzzTable(f *testing.F) {
	seeds := []string{
		"a,b\n1,2\n", "a;b\n\"x\ny\";2", "a\tb\n\"\"\"\",\n", "a.0,a.1\n\xff,\n", "\"a\",b\n,,\r\n\r\n\"",
		"emails,connections\n[1,2\n",
	}
	for _, seed := range seeds {
		f.Add(seed, byte(3))
	}
	f.Fuzz(func(t *testing.T, text string, n byte) {
		opts := source.Options{
			MaxLine:   200,
			Head:      10,
			ChunkSize: 64,
			Format:    source.FormatCSV,
			Kind:      record.KindNetworkPerson,
		}
		s, err := source.FromReader(t.Context(), "f", strings.NewReader(text), opts)
		require.NoError(t, err)
		got, end, err := objects(t, s)
		s, e := source.FromReader(t.Context(), "f", &stutter{in: []byte(text), n: int(n)%20 + 1}, opts)
		require.NoError(t, e)
		again, endAgain, errAgain := objects(t, s)
		require.Equal(t, got, again)
		require.Equal(t, end, endAgain)
		require.Equal(t, errors.Is(err, io.EOF), errors.Is(errAgain, io.EOF))
		if errors.Is(err, io.EOF) && len(got) > 0 {
			require.LessOrEqual(t, end.Offset, int64(len(text)))
		}
		last := int64(-1)
		for _, o := range got {
			require.Greater(t, o.offset, last)
			last = o.offset
			if o.bad == "" && o.length == 0 && strings.ToValidUTF8(o.text, "") == o.text {
				require.True(t, jsontext.Value(o.text).IsValid() || strings.Contains(o.text, `":`), o.text)
			}
		}
	})
}
