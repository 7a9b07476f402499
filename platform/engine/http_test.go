package engine_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
	"muster/platform/polltest"
)

// call is a request to the package's engine.
type call struct {
	method string // default POST
	path   string // default /
	params url.Values
	header http.Header
	body   io.Reader
	user   string // default: the service user; "-": none
	pass   string
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (c call) do(tb testing.TB) reply {
	tb.Helper()
	if c.method == "" {
		c.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(tb.Context(), c.method,
		"http://"+enginetest.Addr(tb)+"/"+strings.TrimPrefix(c.path, "/")+"?"+c.params.Encode(), c.body)
	require.NoError(tb, err)
	for name, values := range c.header {
		req.Header[name] = values
	}
	switch c.user {
	case "":
		req.SetBasicAuth(enginetest.User, enginetest.Password)
	case "-":
	default:
		req.SetBasicAuth(c.user, c.pass)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(tb, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err}
}

// post runs a query as the service user.
func post(tb testing.TB, query string, params ...string) reply {
	tb.Helper()
	return call{body: strings.NewReader(query), params: values(params)}.do(tb)
}

func values(pairs []string) url.Values {
	v := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// must runs a query, requires success and returns its result.
func must(tb testing.TB, query string, params ...string) string {
	tb.Helper()
	r := post(tb, query, params...)
	require.Equal(tb, http.StatusOK, r.status, r.body)
	require.NoError(tb, r.err)
	return r.body
}

// freshDatabase creates a database and returns its name.
func freshDatabase(tb testing.TB) string {
	tb.Helper()
	u, err := url.Parse(enginetest.DSN(tb))
	require.NoError(tb, err)
	return strings.TrimPrefix(u.Path, "/")
}

func TestPing_RespondsOk(t *testing.T) {
	for _, path := range []string{"/ping", "/replicas_status"} {
		r := call{method: http.MethodGet, path: path, user: "-"}.do(t)
		require.Equal(t, http.StatusOK, r.status)
		require.Equal(t, "Ok.\n", r.body)
	}
	require.Equal(t, http.StatusNotFound, call{path: "/nonsense"}.do(t).status)
}

func TestQuery_InURLBodyOrForm(t *testing.T) {
	for name, c := range map[string]call{
		"body":               {body: strings.NewReader("SELECT 1 + 1")},
		"parameter":          {params: url.Values{"query": {"SELECT 1 + 1"}}},
		"get":                {method: http.MethodGet, params: url.Values{"query": {"SELECT 1 + 1"}}},
		"both":               {params: url.Values{"query": {"SELECT 1 +"}}, body: strings.NewReader("1")},
		"with format":        {body: strings.NewReader("SELECT 1 + 1 FORMAT TSV")},
		"semicolon":          {body: strings.NewReader("SELECT 1 + 1 ; -- done\n")},
		"comments":           {body: strings.NewReader("/* ; */ SELECT 1 + 1 -- ;")},
		"without user":       {user: "-", body: strings.NewReader("SELECT 1 + 1")},
		"large":              {body: strings.NewReader("SELECT 1 + 1 /*" + strings.Repeat("x", 200_000) + "*/")},
		"parameter of query": {params: url.Values{"param_n": {"1"}}, body: strings.NewReader("SELECT {n:UInt8} + 1")},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.do(t)
			require.Equal(t, http.StatusOK, r.status, r.body)
			require.Equal(t, "2\n", r.body)
			require.Equal(t, "TabSeparated",
				strings.Replace(r.header.Get("X-ClickHouse-Format"), "TSV", "TabSeparated", 1))
			require.NotEmpty(t, r.header.Get("X-ClickHouse-Query-Id"))
			require.NotEmpty(t, r.header.Get("X-ClickHouse-Server-Display-Name"))
			require.NotEmpty(t, r.header.Get("X-ClickHouse-Timezone"))
			require.Contains(t, r.header.Get("X-ClickHouse-Summary"), `"result_rows":"1"`)
		})
	}
	r := post(t, "SELECT 1", "query_id", "mine")
	require.Equal(t, "mine", r.header.Get("X-ClickHouse-Query-Id"))
}

func TestQuery_Formats(t *testing.T) {
	query := "SELECT number AS n, toString(number) AS s FROM numbers(3)"
	for format, want := range map[string]string{
		"TabSeparated":                  "0\t0\n1\t1\n2\t2\n",
		"TabSeparatedWithNamesAndTypes": "n\ts\nUInt64\tString\n0\t0\n1\t1\n2\t2\n",
		"CSVWithNames":                  "\"n\",\"s\"\n0,\"0\"\n1,\"1\"\n2,\"2\"\n",
		"JSONEachRow":                   "{\"n\":0,\"s\":\"0\"}\n{\"n\":1,\"s\":\"1\"}\n{\"n\":2,\"s\":\"2\"}\n",
		"Values":                        "(0,'0'),(1,'1'),(2,'2')",
		"Null":                          "",
	} {
		require.Equal(t, want, must(t, query, "default_format", format), format)
		require.Equal(t, want, must(t, query+" FORMAT "+format), format)
	}
	for _, format := range []string{
		"JSON", "JSONCompact", "Parquet", "Arrow", "PrettyCompact", "Vertical", "XML", "RowBinaryWithNamesAndTypes",
		"Markdown",
	} {
		require.NotEmpty(t, must(t, query+" FORMAT "+format), format)
	}
	require.Contains(t, must(t, query+" FORMAT JSON"), `"rows": 3`)
	require.Equal(t, "0\t2\n1\t1\n\n0\t3\n",
		must(t, "SELECT number % 2 AS a, count() FROM numbers(3) GROUP BY a WITH TOTALS ORDER BY a"))
}

func TestQuery_StreamedResultHasOneHeaderAndAllRows(t *testing.T) {
	for _, format := range []string{
		"TabSeparatedWithNamesAndTypes", "CSVWithNames", "JSONCompactEachRowWithNames", "TabSeparated",
	} {
		query := "SELECT number, 'a\nb' AS `x\"\ny` FROM numbers(300000) FORMAT " + format +
			" SETTINGS max_block_size = 1000"
		body := must(t, query)
		want := must(t, query, "wait_end_of_query", "1")
		require.Equal(t, len(want), len(body), format)
		require.True(t, want == body, format)
	}
	body := must(t, "SELECT number FROM numbers(1000000) FORMAT RowBinaryWithNamesAndTypes")
	require.Len(t, body, 1+7+7+8_000_000)
}

func TestQuery_ErrorsHaveStatusAndCode(t *testing.T) {
	for query, want := range map[string]struct {
		status, code int
		text         string
	}{
		"SELEC 1":                         {400, 62, "SYNTAX_ERROR"},
		"":                                {400, 62, "Empty query"},
		"exit":                            {400, 62, "SYNTAX_ERROR"},
		"SELECT 1; SELECT 2":              {400, 62, "Multi-statements are not allowed"},
		"CREATE DATABASE x; DROP TABLE y": {400, 62, "Multi-statements are not allowed"},
		"SELECT * FROM no_such_table":     {404, 60, "UNKNOWN_TABLE"},
		"SELECT no_such_function(1)":      {404, 46, "UNKNOWN_FUNCTION"},
		"SELECT no_such_column":           {404, 47, "UNKNOWN_IDENTIFIER"},
		"SELECT 1 FORMAT NoSuchFormat":    {404, 73, "UNKNOWN_FORMAT"},
		"SELECT throwIf(1)":               {500, 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"},
		"SELECT {a:UInt8}":                {400, 456, ""},
		"INSERT INTO no_such VALUES (1)":  {404, 60, "UNKNOWN_TABLE"},
		"SELECT 1 INTO OUTFILE '/tmp/x'":  {500, 358, "INTO_OUTFILE"},
		"SELECT toUInt8('x')":             {400, 6, "CANNOT_PARSE_TEXT"},
	} {
		t.Run(query, func(t *testing.T) {
			r := post(t, query)
			require.Equal(t, fmt.Sprint(want.code), r.header.Get("X-ClickHouse-Exception-Code"), r.body)
			if want.code != 456 {
				require.Equal(t, want.status, r.status, r.body)
			}
			require.Contains(t, r.body, fmt.Sprintf("Code: %d. DB::Exception: ", want.code))
			require.Contains(t, r.body, want.text)
		})
	}
	require.Equal(t, 404, post(t, "SELECT 1", "database", "no_such_database").status)
	r := post(t, "SELECT 1", "no_such_setting", "1")
	require.Equal(t, "115", r.header.Get("X-ClickHouse-Exception-Code"))
	require.Equal(t, 404, r.status)
	r = post(t, "SELECT 1", "max_threads", "abc")
	require.NotEqual(t, 200, r.status)
	require.NotEmpty(t, r.header.Get("X-ClickHouse-Exception-Code"), r.body)
}

func TestQuery_ExceptionInMidStreamAbortsConnection(t *testing.T) {
	r := post(t, "SELECT throwIf(number = 9000000) FROM numbers(10000000)")
	require.Equal(t, http.StatusOK, r.status)
	require.Error(t, r.err, "a truncated result must not look complete")
	tag := r.header.Get("X-ClickHouse-Exception-Tag")
	require.Len(t, tag, 16)
	require.Contains(t, r.body, "\r\n__exception__\r\n"+tag+"\r\nCode: 395. DB::Exception: ")
	// With wait_end_of_query no part of the result is sent.
	r = post(t, "SELECT throwIf(number = 9000000) FROM numbers(10000000)", "wait_end_of_query", "1")
	require.Equal(t, http.StatusInternalServerError, r.status)
}

func TestAuthentication_ChecksCredentials(t *testing.T) {
	one := func() io.Reader { return strings.NewReader("SELECT 1") }
	for name, c := range map[string]struct {
		call
		want int
	}{
		"basic": {call{}, 200},
		"headers": {
			call{user: "-", header: http.Header{"X-Clickhouse-User": {"muster"}, "X-Clickhouse-Key": {"secret"}}}, 200,
		},
		"parameters":         {call{user: "-", params: url.Values{"user": {"muster"}, "password": {"secret"}}}, 200},
		"none":               {call{user: "-"}, 200},
		"default":            {call{user: "default"}, 200},
		"wrong password":     {call{user: "muster", pass: "x"}, 403},
		"no password":        {call{user: "muster"}, 403},
		"unknown":            {call{user: "missing", pass: "secret"}, 403},
		"default with one":   {call{user: "default", pass: "x"}, 403},
		"two ways":           {call{params: url.Values{"user": {"muster"}, "password": {"secret"}}}, 403},
		"another scheme":     {call{user: "-", header: http.Header{"Authorization": {"Bearer x"}}}, 403},
		"wrong in parameter": {call{user: "-", params: url.Values{"user": {"muster"}, "password": {"x"}}}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			c.body = one()
			r := c.do(t)
			require.Equal(t, c.want, r.status, r.body)
			if c.want == 403 {
				require.Equal(t, "516", r.header.Get("X-ClickHouse-Exception-Code"))
			}
		})
	}
	for _, credentials := range []string{"", "?user=default", "?password="} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+enginetest.Addr(t)+"/"+credentials, one())
		require.NoError(t, err)
		req.Host = "evil.example:8123"
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, 403, resp.StatusCode, "another host name without a password may be DNS rebinding")
	}
}

// A page of another origin in the operator's browser must not read responses, neither with a request nor as a script.
func TestHTTP_RejectsPagesOfOtherOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		header, value, password, query string
		want                           int
	}{
		"a program":                     {"Accept", "*/*", "", "", 200},
		"typed into the address bar":    {"Sec-Fetch-Site", "none", "", "", 200},
		"a script's source":             {"Sec-Fetch-Site", "cross-site", "", "", 403},
		"a source that names a user":    {"Sec-Fetch-Site", "cross-site", "", "&user=default", 403},
		"a page of another port":        {"Sec-Fetch-Site", "same-site", "", "", 403},
		"a request of an older browser": {"Origin", "http://evil.example", "", "", 403},
		"with credentials":              {"Sec-Fetch-Site", "cross-site", enginetest.Password, "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://"+enginetest.Addr(t)+"/?query=SELECT+1"+c.query, nil)
			require.NoError(t, err)
			req.Header.Set(c.header, c.value)
			if c.password != "" {
				req.SetBasicAuth(enginetest.User, c.password)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, c.want, resp.StatusCode)
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			require.Equal(t, "same-origin", resp.Header.Get("Cross-Origin-Resource-Policy"))
		})
	}
}

func TestHTTP_GetIsReadonly(t *testing.T) {
	db := freshDatabase(t)
	r := call{
		method: http.MethodGet,
		params: url.Values{"query": {"CREATE TABLE t (a UInt8) ENGINE = Memory"}, "database": {db}},
	}.do(t)
	require.Equal(t, "164", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
	require.Equal(t, "", must(t, "SHOW TABLES", "database", db))
}

func TestHTTP_AppliesSettings(t *testing.T) {
	require.Equal(t, "3\n", must(t, "SELECT getSetting('max_threads')", "max_threads", "3"))
	require.NotEqual(t, "3\n", must(t, "SELECT getSetting('max_threads')"), "a setting holds for one request")
	require.Equal(t, "a\\'b\\\\c\n",
		must(t, "SELECT getSetting('insert_deduplication_token')", "insert_deduplication_token", `a'b\c`))
	require.Equal(t, "false\n", must(t, "SELECT getSetting('implicit_select')"))
	post(t, "SET max_threads = 7")
	for range 10 {
		require.NotEqual(t, "7\n", must(t, "SELECT getSetting('max_threads')"), "SET without a session leaked")
	}
	require.Equal(t, "5\n", must(t, "SELECT getSetting('max_threads') SETTINGS max_threads = 5"))
	db := freshDatabase(t)
	require.Equal(t, db+"\n", must(t, "SELECT currentDatabase()", "database", db))
	r := post(t, "SELECT sum(sipHash64(number)) FROM numbers(100000000000)", "max_execution_time", "0.3")
	require.Equal(t, http.StatusRequestTimeout, r.status)
	require.Equal(t, "159", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
}

func TestSessions_KeepStateUntilTimeout(t *testing.T) {
	must(t, "CREATE TEMPORARY TABLE tmp (a UInt8)")
	require.Equal(t, 404, post(t, "SELECT * FROM tmp").status, "a temporary table without a session leaked")
	must(t, "CREATE TEMPORARY TABLE tmp (a UInt8)", "session_id", "s1")
	must(t, "INSERT INTO tmp VALUES (1), (2)", "session_id", "s1")
	require.Equal(t, "3\n", must(t, "SELECT sum(a) FROM tmp", "session_id", "s1"))
	must(t, "SET max_threads = 3", "session_id", "s1")
	require.Equal(t, "3\n", must(t, "SELECT getSetting('max_threads')", "session_id", "s1"))
	require.Equal(t, 404, post(t, "SELECT * FROM tmp", "session_id", "s2").status)
	require.Equal(t, "372",
		post(t, "SELECT 1", "session_id", "s3", "session_check", "1").header.Get("X-ClickHouse-Exception-Code"))
	must(t, "SELECT 1", "session_id", "s1", "close_session", "1")
	require.Equal(t, 404, post(t, "SELECT * FROM tmp", "session_id", "s1").status)

	running := make(chan reply, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+enginetest.Addr(t)+"/?session_id=busy&max_execution_time=10",
			strings.NewReader("SELECT sum(sipHash64(number)) FROM numbers(100000000000)"))
		req.SetBasicAuth(enginetest.User, enginetest.Password)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			running <- reply{status: resp.StatusCode}
		}
		close(running)
	}()
	waitFor(t, func() bool { return strings.Contains(must(t, "SELECT query FROM system.processes"), "100000000000") })
	require.Equal(t, "373", post(t, "SELECT 1", "session_id", "busy").header.Get("X-ClickHouse-Exception-Code"))
	require.Equal(t, http.StatusRequestTimeout, (<-running).status)
	must(t, "SELECT 1", "session_id", "busy")
}

// waitFor polls until the condition is true. Its timeout is generous for busy machines.
func waitFor(tb testing.TB, condition func() bool) {
	tb.Helper()
	polltest.Until(tb, 2*time.Minute, condition)
}

func TestHTTP_LimitsRequestSizes(t *testing.T) {
	// http_max_uri_size
	r := call{
		method: http.MethodGet,
		params: url.Values{"query": {"SELECT 1 /*" + strings.Repeat("x", 1<<20) + "*/"}},
	}.do(t)
	require.Equal(t, http.StatusBadRequest, r.status)
	// http_max_field_value_size
	r = call{params: url.Values{"query": {"SELECT 1 /*" + strings.Repeat("x", 128<<10) + "*/"}}}.do(t)
	require.NotEqual(t, http.StatusOK, r.status)
	require.Contains(t, r.body, "Field value too long")
	r = call{
		params: url.Values{"param_" + strings.Repeat("x", 128<<10): {"1"}},
		body:   strings.NewReader("SELECT 1"),
	}.do(t)
	require.Contains(t, r.body, "Field name too long")
	r = call{params: url.Values{"query": {"SELECT 1 /*" + strings.Repeat("x", 120<<10) + "*/"}}}.do(t)
	require.Equal(t, http.StatusOK, r.status)
	// max_query_size
	long := "SELECT 1 /*" + strings.Repeat("x", 300<<10) + "*/"
	r = post(t, long)
	require.Equal(t, http.StatusBadRequest, r.status)
	require.Contains(t, r.body, "Max query size exceeded")
	require.Equal(t, "1\n", must(t, long, "max_query_size", "1000000"))
}

func TestInsert_RowsInURLOrBody(t *testing.T) {
	db := freshDatabase(t)
	must(t, "CREATE TABLE t (a UInt64, b String DEFAULT 'd') ENGINE = MergeTree ORDER BY a", "database", db)
	insert := func(query, body string) {
		t.Helper()
		c := call{params: url.Values{"database": {db}}, body: strings.NewReader(body)}
		if query != "" {
			c.params.Set("query", query)
		}
		r := c.do(t)
		require.Equal(t, http.StatusOK, r.status, r.body)
	}
	insert("", "INSERT INTO t VALUES (1, 'x'), (2, 'y;z')")
	insert("INSERT INTO t VALUES", "(3, 'SELECT')")
	insert("INSERT INTO t (a) FORMAT CSV", "4\n5\n")
	insert("", "INSERT INTO t (a) FORMAT CSV\n6\n7")
	insert("", "INSERT INTO t FORMAT JSONEachRow {\"a\":8,\"b\":\"j\"}\n{\"a\":9}")
	insert("", "INSERT INTO t SETTINGS max_insert_block_size = 10 FORMAT TSV\n10\tk\n")
	insert("INSERT INTO t", "VALUES (11, 'l')")
	insert("", "INSERT INTO t SELECT number + 12, 'm' FROM numbers(2)")
	insert("", "INSERT INTO t (a) SELECT 14")
	insert("INSERT INTO t (`a`) FORMAT TSV", strings.Repeat("100\n", 300_000))
	insert("", "INSERT INTO t (a) FORMAT TSV\n"+strings.Repeat("100\n", 300_000))
	require.Equal(t, "14\t105\n", must(t, "SELECT count(), sum(a) FROM t WHERE a < 100", "database", db))
	require.Equal(t, "600000\n", must(t, "SELECT count() FROM t WHERE a = 100 AND b = 'd'", "database", db))
	require.Equal(t, "y;z\n", must(t, "SELECT b FROM t WHERE a = 2", "database", db))
	r := post(t, "INSERT INTO t (a) SELECT x + 1 FROM input('x UInt64') FORMAT CSV\n13\n", "database", db)
	require.Equal(t, http.StatusNotImplemented, r.status, r.body)
	r = post(t, "INSERT INTO t VALUES (1", "database", db)
	require.NotEqual(t, http.StatusOK, r.status)
	r = post(t, "INSERT INTO t FORMAT CSV\nx,y\n", "database", db)
	require.Equal(t, http.StatusBadRequest, r.status, r.body)
	r = post(t, "INSERT INTO t (a) VALUES (1), (2)", "database", db)
	require.Contains(t, r.header.Get("X-ClickHouse-Summary"), `"written_rows":"2"`)
	post(t, "INSERT INTO t VALUES (1, 'a'); DROP TABLE t", "database", db)
	must(t, "SELECT count() FROM t", "database", db)
}

func TestInsert_TruncatedBodyIsAnError(t *testing.T) {
	db := freshDatabase(t)
	must(t, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a", "database", db)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+enginetest.Addr(t)+"/?database="+db+"&query="+url.QueryEscape("INSERT INTO t FORMAT TSV"), reader)
	require.NoError(t, err)
	req.SetBasicAuth(enginetest.User, enginetest.Password)
	done := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	_, err = io.WriteString(writer, "1\n2\n3\n")
	require.NoError(t, err)
	cancel()
	writer.CloseWithError(context.Canceled)
	require.Error(t, <-done)
	waitFor(t, func() bool {
		const query = "SELECT count() FROM system.processes " +
			"WHERE query LIKE '%FORMAT TSV%' AND query NOT LIKE '%processes%'"
		return must(t, query) == "0\n"
	})
	require.Equal(t, "0\n", must(t, "SELECT count() FROM t", "database", db))
}

func TestHTTP_Compression(t *testing.T) {
	query := "SELECT number % 10 FROM numbers(100000)"
	want := must(t, query)
	for encoding, decode := range map[string]func(io.Reader) (io.Reader, error){
		"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
		"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
		"zstd":    func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
		"lz4":     func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil },
	} {
		t.Run(encoding, func(t *testing.T) {
			r := call{
				body:   strings.NewReader(query),
				header: http.Header{"Accept-Encoding": {encoding}},
				params: url.Values{"enable_http_compression": {"1"}},
			}.do(t)
			require.Equal(t, encoding, r.header.Get("Content-Encoding"))
			require.Less(t, len(r.body), len(want))
			plain, err := decode(strings.NewReader(r.body))
			require.NoError(t, err)
			got, err := io.ReadAll(plain)
			require.NoError(t, err)
			require.True(t, want == string(got))
			off := call{
				body:   strings.NewReader(query),
				header: http.Header{"Accept-Encoding": {encoding}},
				params: url.Values{"enable_http_compression": {"0"}},
			}.do(t)
			require.Empty(t, off.header.Get("Content-Encoding"))

			var body bytes.Buffer
			encode(t, encoding, &body, "SELECT 1 + 1")
			r = call{body: &body, header: http.Header{"Content-Encoding": {encoding}}}.do(t)
			require.Equal(t, "2\n", r.body)

			db := freshDatabase(t)
			must(t, "CREATE TABLE t (a UInt64) ENGINE = Memory", "database", db)
			body.Reset()
			encode(t, encoding, &body, want)
			r = call{
				body:   &body,
				params: url.Values{"query": {"INSERT INTO t FORMAT TSV"}, "database": {db}},
				header: http.Header{"Content-Encoding": {encoding}},
			}.do(t)
			require.Equal(t, http.StatusOK, r.status, r.body)
			require.Equal(t, "100000\n", must(t, "SELECT count() FROM t", "database", db))
			r = call{
				body:   strings.NewReader("not compressed at all"),
				params: url.Values{"query": {"INSERT INTO t FORMAT TSV"}, "database": {db}},
				header: http.Header{"Content-Encoding": {encoding}},
			}.do(t)
			require.NotEqual(t, http.StatusOK, r.status)
		})
	}
	for _, codec := range []string{"LZ4", "ZSTD", "NONE"} {
		r := post(t, query, "compress", "1", "network_compression_method", codec)
		got, err := io.ReadAll(compress.NewReader(strings.NewReader(r.body)))
		require.ErrorIs(t, err, io.EOF) // the reader wraps it
		require.True(t, want == string(got))
	}
	w := compress.NewWriter(compress.LevelZero, compress.LZ4)
	require.NoError(t, w.Compress([]byte("SELECT 1 + 1")))
	r := call{body: bytes.NewReader(w.Data), params: url.Values{"decompress": {"1"}}}.do(t)
	require.Equal(t, "2\n", r.body)
	for n := 1; n < len(w.Data); n++ {
		r = call{body: bytes.NewReader(w.Data[:n]), params: url.Values{"decompress": {"1"}}}.do(t)
		require.Equal(t, "271", r.header.Get("X-ClickHouse-Exception-Code"), "cut at %d: %s", n, r.body)
	}
	require.Equal(t, "89", call{
		body:   strings.NewReader("x"),
		header: http.Header{"Content-Encoding": {"snappy"}},
	}.do(t).header.Get("X-ClickHouse-Exception-Code"))
}

func encode(tb testing.TB, encoding string, w io.Writer, text string) {
	tb.Helper()
	var enc io.WriteCloser
	switch encoding {
	case "gzip":
		enc = gzip.NewWriter(w)
	case "deflate":
		enc = zlib.NewWriter(w)
	case "br":
		enc = brotli.NewWriter(w)
	case "zstd":
		z, err := zstd.NewWriter(w)
		require.NoError(tb, err)
		enc = z
	case "lz4":
		enc = lz4.NewWriter(w)
	}
	_, err := io.WriteString(enc, text)
	require.NoError(tb, err)
	require.NoError(tb, enc.Close())
}
