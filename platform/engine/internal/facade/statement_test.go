package facade

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStatement(t *testing.T) {
	for text, want := range map[string]statement{
		"SELECT 1":                               {text: "SELECT 1", first: "SELECT"},
		" \n-- c\n/* ; */select 1;":              {text: " \n-- c\n/* ; */select 1", first: "SELECT"},
		"SELECT ';' ; # end":                     {text: "SELECT ';' ", first: "SELECT"},
		"(SELECT 1) UNION ALL (SELECT 2)":        {text: "(SELECT 1) UNION ALL (SELECT 2)", first: "SELECT"},
		"SELECT 1 FORMAT `JSON`":                 {text: "SELECT 1 FORMAT `JSON`", first: "SELECT", format: "JSON"},
		"SELECT 1 FORMAT CSV SETTINGS a = 1":     {text: "SELECT 1 FORMAT CSV SETTINGS a = 1", first: "SELECT", format: "CSV"},
		"SELECT * FROM format(CSV, '1')":         {text: "SELECT * FROM format(CSV, '1')", first: "SELECT"},
		"SELECT 'a\\'; b', `;`, \";\", $x$;$x$":  {text: "SELECT 'a\\'; b', `;`, \";\", $x$;$x$", first: "SELECT"},
		"SELECT 'it''s;'":                        {text: "SELECT 'it''s;'", first: "SELECT"},
		"SELECT a FROM t GROUP BY a WITH TOTALS": {text: "SELECT a FROM t GROUP BY a WITH TOTALS", first: "SELECT", totals: true},
		"SET a = 1":                              {text: "SET a = 1", first: "SET", session: true},
		"CREATE TEMPORARY TABLE t (a UInt8)":     {text: "CREATE TEMPORARY TABLE t (a UInt8)", first: "CREATE", session: true, ddl: true},
		"DROP TABLE t":                           {text: "DROP TABLE t", first: "DROP", ddl: true},
		"SELECT 1 INTO OUTFILE 'x'":              {text: "SELECT 1 INTO OUTFILE 'x'", first: "SELECT", intoOutfile: true},
		"INSERT INTO t VALUES (1)":               {first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "Values", data: " (1)"},
		"insert into d.`values` (a, b) format CSV\n1;2": {
			first: "INSERT", isInsert: true, head: "insert into d.`values` (a, b) ", dataFormat: "CSV", data: "1;2",
		},
		"INSERT INTO t FORMAT TSV":      {first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "TSV"},
		"INSERT INTO t FORMAT TSV\n\n1": {first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "TSV", data: "\n1"},
		"INSERT INTO t FORMAT TSV ;\n":  {first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "TSV"},
		"INSERT INTO t SELECT 1":        {text: "INSERT INTO t SELECT 1", first: "INSERT"},
		"INSERT INTO t (a) WITH 1 AS x SELECT x FORMAT Null": {
			text: "INSERT INTO t (a) WITH 1 AS x SELECT x FORMAT Null", first: "INSERT", format: "Null",
		},
		"INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV\n1": {
			text: "INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV\n1", first: "INSERT", format: "CSV", input: true,
		},
		"INSERT INTO t SETTINGS async_insert = 0 FORMAT Native": {
			first: "INSERT", isInsert: true, head: "INSERT INTO t SETTINGS async_insert = 0 ", dataFormat: "Native",
		},
	} {
		got := parseStatement(text)
		if want.isInsert {
			want.text = text
		}
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"SELECT 1; SELECT 2", "DROP TABLE a; DROP TABLE b", "SELECT 1;;x", "SELECT '\\'';x"} {
		require.True(t, parseStatement(text).several, text)
	}
}

func TestCheckFunctions(t *testing.T) {
	s := &Server{denied: deniedFunctions([]string{"file", "url", "numbers"}, []string{"aiGenerate", "aidAggregate", "sum"})}
	user := &User{Name: "a"}
	for _, text := range []string{"SELECT file('x')", "SELECT FILE ('x')", "SELECT `file`('x')", "SELECT \"fi\\le\"('x')", "SELECT x APPLY(file)", "SELECT x APPLY file", "SELECT aiGenerate(1)", "SELECT file/* */(1)"} {
		require.Error(t, s.checkFunctions(user, text), text)
	}
	for _, text := range []string{"SELECT file FROM t", "SELECT t.file", "SELECT 'file(1)'", "SELECT 1 -- file(1)", "SELECT sum(file)", "SELECT * FROM numbers(1)", "SELECT aidAggregate(1)"} {
		require.NoError(t, s.checkFunctions(user, text), text)
	}
}

func TestHeaderLength(t *testing.T) {
	require.Equal(t, 4, streamable["tabseparatedwithnames"].headerLength([]byte("a\tb\n1\t2\n")))
	require.Equal(t, 8, streamable["csvwithnames"].headerLength([]byte("\"a\n\"\"b\"\n1\n")))
	require.Equal(t, 9, streamable["rowbinarywithnamesandtypes"].headerLength([]byte("\x01\x01a\x05UInt8\x07"))) // 1 + 2 + 6
	require.Zero(t, streamable["native"].headerLength([]byte("x")))
}

func FuzzParseStatement(f *testing.F) {
	for _, seed := range []string{"SELECT 1; SELECT 2", "INSERT INTO t VALUES (1)", "INSERT INTO t FORMAT CSV\n1", "SELECT '\\", "/*", "$a$x", "`a\\`", "--"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := parseStatement(text)
		if s.isInsert {
			if !strings.HasPrefix(text, s.head) || !strings.HasSuffix(text, s.data) {
				t.Fatalf("head %q and data %q are not of %q", s.head, s.data, text)
			}
		} else if !strings.HasPrefix(text, s.text) {
			t.Fatalf("%q is no beginning of %q", s.text, text)
		}
		withoutFormat(text)
		balanced(text)
		// Tokens cover the text in order.
		lex := lexer{text: text}
		end := 0
		for tok := lex.next(); tok.kind != tokenEnd; tok = lex.next() {
			if tok.start < end || tok.end <= tok.start || tok.end > len(text) {
				t.Fatalf("token %d to %d after %d", tok.start, tok.end, end)
			}
			end = tok.end
		}
	})
}
