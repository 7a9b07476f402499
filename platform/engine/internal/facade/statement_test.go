package facade

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/engine/internal/chdb"
)

func TestParseStatement_FindsFormatAndRows(t *testing.T) {
	for text, want := range map[string]statement{
		"SELECT 1":                        {text: "SELECT 1", first: "SELECT"},
		" \n-- c\n/* ; */select 1;":       {text: " \n-- c\n/* ; */select 1", first: "SELECT"},
		"SELECT ';' ; # end":              {text: "SELECT ';' ", first: "SELECT"},
		"(SELECT 1) UNION ALL (SELECT 2)": {text: "(SELECT 1) UNION ALL (SELECT 2)", first: "SELECT"},
		"SELECT 1 FORMAT `JSON`":          {text: "SELECT 1 FORMAT `JSON`", first: "SELECT", format: "JSON"},
		"SELECT 1 FORMAT CSV SETTINGS a = 1": {
			text: "SELECT 1 FORMAT CSV SETTINGS a = 1", first: "SELECT", format: "CSV",
		},
		"SELECT * FROM format(CSV, '1')":        {text: "SELECT * FROM format(CSV, '1')", first: "SELECT"},
		"SELECT 'a\\'; b', `;`, \";\", $x$;$x$": {text: "SELECT 'a\\'; b', `;`, \";\", $x$;$x$", first: "SELECT"},
		"SELECT 'it''s;'":                       {text: "SELECT 'it''s;'", first: "SELECT"},
		"SELECT a FROM t GROUP BY a WITH TOTALS": {
			text: "SELECT a FROM t GROUP BY a WITH TOTALS", first: "SELECT", totals: true,
		},
		"SET a = 1": {text: "SET a = 1", first: "SET", session: true},
		"CREATE TEMPORARY TABLE t (a UInt8)": {
			text: "CREATE TEMPORARY TABLE t (a UInt8)", first: "CREATE", session: true, ddl: true,
		},
		"DROP TABLE t": {text: "DROP TABLE t", first: "DROP", ddl: true},
		"SELECT 1 INTO OUTFILE 'x'": {
			text: "SELECT 1 INTO OUTFILE 'x'", first: "SELECT", intoOutfile: true,
		},
		"INSERT INTO t VALUES (1)": {
			first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "Values", data: " (1)",
		},
		"insert into d.`values` (a, b) format CSV\n1;2": {
			first: "INSERT", isInsert: true, head: "insert into d.`values` (a, b) ", dataFormat: "CSV", data: "1;2",
		},
		"INSERT INTO t FORMAT TSV": {first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "TSV"},
		"INSERT INTO t FORMAT TSV\n\n1": {
			first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "TSV", data: "\n1",
		},
		"INSERT INTO t FORMAT TSV ;\n": {first: "INSERT", isInsert: true, head: "INSERT INTO t ", dataFormat: "TSV"},
		"INSERT INTO t SELECT 1":       {text: "INSERT INTO t SELECT 1", first: "INSERT"},
		"INSERT INTO t (a) WITH 1 AS x SELECT x FORMAT Null": {
			text: "INSERT INTO t (a) WITH 1 AS x SELECT x FORMAT Null", first: "INSERT", format: "Null",
		},
		"INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV\n1": {
			text: "INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV\n1", first: "INSERT", format: "CSV",
			input: true,
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

func TestDeniedNames_RejectHiddenCalls(t *testing.T) {
	denied := newDeniedNames([]string{"file", "url", "numbers", "newSource"},
		[]string{"file", "sum", "newFunction", "plus", "arrayMap"}, false)
	q := &request{user: &User{Name: "a", Analyst: true}, params: []chdb.Param{{Name: "f", Value: "file"}}}
	for _, text := range []string{
		"SELECT file('x')", "SELECT FILE ('x')", "SELECT `file`('x')", "SELECT x APPLY (file)", "SELECT x APPLY file",
		"SELECT newFunction(1)", "SELECT * FROM newSource(1)",
		"SELECT arrayMap(file, x)", "SELECT file", "SELECT sum(file)", "SELECT (file)", "SELECT {f:Identifier}",
		"SELECT t.file(1)", "SELECT * FROM url(1)",
		// not in normal form
		"SELECT file/* */(1)", "SELECT 1 -- x", "SELECT 1 # x", "SELECT $$x$$", "SELECT $x", "SELECT x'41'",
		"SELECT ‘x’", "SELECT é", "SELECT\n1", "SELECT 1\t", "SELECT 1/*", "SELECT 'x", "SELECT 'x\\'", "SELECT \x00",
		"SELECT \\N",
	} {
		require.Error(t, denied.check(q, text), text)
	}
	for _, text := range []string{
		"SELECT t.file", "SELECT `t`.`file`", "SELECT file.x", "SELECT x AS file", "SELECT 'file(1)'",
		"SELECT url, newSource", "SELECT * FROM numbers(1)", "SELECT plus(1, arrayMap(plus, x))", "SELECT 1 - -1",
		"SELECT '‘' AS `ä -- /*`", "SELECT '\\'', 'it''s', '\\\\'", "SELECT {f:String}", "SELECT 2 / 3 * 4",
	} {
		require.NoError(t, denied.check(q, text), text)
	}
	q.params[0].Value = "people"
	require.NoError(t, denied.check(q, "SELECT * FROM {f:Identifier}"))
}

func TestHasOnlyColumns_RejectsExpressions(t *testing.T) {
	for _, columns := range []string{
		"a String", "`a b` Nullable(String), c Enum8('x' = 1, 'DEFAULT' = 2)",
		"a Array(Tuple(x UInt8, y String)), b UInt8 NOT NULL, c UInt8 NULL", "`default` String",
	} {
		require.True(t, hasOnlyColumns("CREATE TEMPORARY TABLE t ("+columns+") ENGINE = Memory"), columns)
	}
	for _, columns := range []string{
		"", "a", "a String,", "a String DEFAULT f(1)", "a ALIAS f(1)", "a ALIAS (1, f(1))", "a DEFAULT (f(1), 1)",
		"INDEX i (f(1)) TYPE minmax", "a String MATERIALIZED 1", "a EPHEMERAL", "a String, CONSTRAINT c CHECK f(1)",
		"a String, INDEX i f(a) TYPE minmax", "a String CODEC(ZSTD)",
		"a String TTL f(1)", "a String COMMENT 'x'", "a String) ENGINE = Memory AS SELECT (1",
		"a String) AS SELECT (1", "a String, PROJECTION p (SELECT 1)", "a f(1) + 1", "a String, PRIMARY KEY (a)",
		"(a String)",
	} {
		require.False(t, hasOnlyColumns("CREATE TEMPORARY TABLE t ("+columns+") ENGINE = Memory"), columns)
	}
	require.False(t, hasOnlyColumns("CREATE TEMPORARY TABLE t (a String) ENGINE = Memory AS SELECT 1"))
	require.False(t, hasOnlyColumns("CREATE TABLE t (a String) ENGINE = Memory"))
}

func TestHeaderLength_OfEachLayout(t *testing.T) {
	require.Equal(t, 4, streamable["tabseparatedwithnames"].headerLength([]byte("a\tb\n1\t2\n")))
	require.Equal(t, 8, streamable["csvwithnames"].headerLength([]byte("\"a\n\"\"b\"\n1\n")))
	require.Equal(t, 1+2+6,
		streamable["rowbinarywithnamesandtypes"].headerLength([]byte("\x01\x01a\x05UInt8\x07")))
	require.Zero(t, streamable["native"].headerLength([]byte("x")))
}

func FuzzParseStatement(f *testing.F) {
	for _, seed := range []string{
		"SELECT 1; SELECT 2", "INSERT INTO t VALUES (1)", "INSERT INTO t FORMAT CSV\n1", "SELECT '\\", "/*", "$a$x",
		"`a\\`", "--",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := parseStatement(text)
		if s.isInsert {
			if !strings.HasPrefix(text, s.head) || !strings.HasSuffix(text, s.data) {
				t.Fatalf("head %q and data %q are not of %q", s.head, s.data, text)
			}
		} else if !strings.HasPrefix(text, s.text) {
			t.Fatalf("%q is not the beginning of %q", s.text, text)
		}
		withoutFormat(text)
		hasOnlyColumns("CREATE TEMPORARY TABLE t (" + text)
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
