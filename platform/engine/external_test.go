package engine_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// form is a request with a query, fields and files.
func form(tb testing.TB, query string, fields map[string]string, files map[string]string) call {
	tb.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, data := range files {
		part, err := w.CreateFormFile(name, "")
		require.NoError(tb, err)
		_, err = io.WriteString(part, data)
		require.NoError(tb, err)
	}
	require.NoError(tb, w.WriteField("query", query))
	require.NoError(tb, w.Close())
	c := call{body: &b, header: http.Header{"Content-Type": {w.FormDataContentType()}}, params: make(url.Values)}
	for k, v := range fields {
		c.params.Set(k, v)
	}
	return c
}

func TestExternalTables_EndWithRequest(t *testing.T) {
	r := form(t, "SELECT count() FROM numbers(10) WHERE number IN ext",
		map[string]string{"ext_structure": "n UInt64", "ext_format": "CSV"},
		map[string]string{"ext": "1\n2\n100\n"}).do(t)
	require.Equal(t, "2\n", r.body)
	r = form(t, "SELECT _1, _2 FROM ext ORDER BY _1", map[string]string{"ext_types": "UInt64, Nullable(String)"},
		map[string]string{"ext": "2\tb\n1\ta\n"}).do(t)
	require.Equal(t, "1\ta\n2\tb\n", r.body)
	r = form(t, "SELECT 1", nil, map[string]string{"ext": "1\n"}).do(t)
	require.Equal(t, http.StatusBadRequest, r.status)
	r = form(t, "SELECT 1", map[string]string{"ext_structure": "n UInt8) ENGINE = File(CSV, '/etc/passwd'"},
		map[string]string{"ext": "1\n"}).do(t)
	require.Equal(t, http.StatusBadRequest, r.status, r.body)
	c := form(t, "SELECT sum(n) FROM ext", map[string]string{"ext_structure": "n UInt64"},
		map[string]string{"ext": strings.Repeat("1\n", 100_000)})
	c.user = "-"
	r = c.do(t)
	require.Equal(t, "100000\n", r.body, "an analyst may send tables")
	require.Equal(t, 404, post(t, "SELECT * FROM ext").status, "an external table leaked")

	// A table that could not be filled is dropped from its session, and does not replace the session's own table.
	session := map[string]string{"ext_structure": "n UInt64", "session_id": "tables"}
	require.NotEqual(t, http.StatusOK,
		form(t, "SELECT sum(n) FROM ext", session, map[string]string{"ext": "x\n"}).do(t).status)
	require.Equal(t, "1\n", form(t, "SELECT sum(n) FROM ext", session, map[string]string{"ext": "1\n"}).do(t).body)
	must(t, "CREATE TEMPORARY TABLE ext (n UInt8)", "session_id", "tables")
	require.NotEqual(t, http.StatusOK,
		form(t, "SELECT sum(n) FROM ext", session, map[string]string{"ext": "1\n"}).do(t).status)
	require.Equal(t, "0\n", must(t, "SELECT count() FROM ext", "session_id", "tables", "close_session", "1"))
}
