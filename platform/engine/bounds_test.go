package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAnalyst_LimitsStatementSize(t *testing.T) {
	for _, size := range []string{"4194305", "1000000000", "1e18", "0", "-1", "x"} {
		resp, err := http.Post("http://"+enginetest.Addr(t)+"/?max_query_size="+size, "", endless{})
		if err == nil { // or the engine has closed the connection before it was read
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "452", resp.Header.Get("X-ClickHouse-Exception-Code"), size)
		}
		require.Equal(t, "452",
			asAnalyst(t, "SELECT 1", "max_query_size", size).header.Get("X-ClickHouse-Exception-Code"), size)
	}
	list := "SELECT length([" + strings.Repeat("1,", 150_000) + "1])"
	require.Contains(t, asAnalyst(t, list).body, "Max query size exceeded")
	require.Equal(t, "150001\n", asAnalyst(t, list, "max_query_size", "4194304").body)
	long := "SELECT (" + strings.Repeat("1,", 1_000_000) + "1)"
	begin := time.Now()
	r := asAnalyst(t, long, "max_query_size", "4194304", "max_memory_usage", "20000000")
	require.Equal(t, "241", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
	t.Logf("rejected after %s: %s", time.Since(begin), r.body)
	require.NotContains(t, r.body, "formatQuery")
}

func TestAnalyst_LimitsExternalTables(t *testing.T) {
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) { c.Server.AnalystTimeout = time.Hour })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	tables := func(size int) (int, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		part, err := w.CreateFormFile("e", "")
		require.NoError(t, err)
		_, err = part.Write(bytes.Repeat([]byte("1\n"), size/2))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		query := url.Values{"query": {"SELECT count() FROM e"}, "e_structure": {"n UInt8"}}
		resp, err := http.Post("http://"+e.Addr()+"/?"+query.Encode(), w.FormDataContentType(), &b)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status, body := tables(1 << 20)
	require.Equal(t, http.StatusOK, status, body)
	status, body = tables(128<<20 + 2)
	require.NotEqual(t, http.StatusOK, status)
	require.Contains(t, body, "too long")
}

func TestAnalyst_SlotIsReleasedAfterTimeout(t *testing.T) {
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
		c.Server.AnalystQueries, c.Server.AnalystTimeout, c.Server.QueueWait = 1, 10*time.Second, 100*time.Millisecond
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	one := func() (int, string) {
		resp, err := http.Post("http://"+e.Addr()+"/", "", strings.NewReader("SELECT 1"))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}

	// A half-sent statement occupies the only slot until its timeout.
	half, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, half.Close()) })
	_, err = fmt.Fprintf(half, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 200000\r\n\r\nSELECT 1 --%s", e.Addr(),
		strings.Repeat(" ", 100_000))
	require.NoError(t, err)
	waitFor(t, func() bool {
		_, body := one()
		return strings.Contains(body, "Too many simultaneous queries of analysts")
	})
	require.NoError(t, half.SetReadDeadline(time.Now().Add(time.Minute)))
	answer := make([]byte, len("HTTP/1.1 500"))
	_, err = io.ReadFull(half, answer)
	require.NoError(t, err, "half a statement holds its slot without limit")
	require.NotEqual(t, "HTTP/1.1 200", string(answer))
	waitFor(t, func() bool { status, _ := one(); return status == http.StatusOK })

	hold := func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(
			conn,
			"POST /?query=SELECT+count()+FROM+e&e_structure=n+UInt8 HTTP/1.1\r\nHost: %s\r\nContent-Type: "+
				"multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n"+
				"--x\r\nContent-Disposition: form-data; name=\"e\"; filename=\"e\"\r\n\r\n1\n",
			e.Addr(),
		)
		require.NoError(t, err)
		status, body := one()
		return status == http.StatusInternalServerError &&
			strings.Contains(body, "Too many simultaneous queries of analysts")
	}
	held := false
	for i := 0; !held && i < 100; i++ { // a query may be faster, and a busy machine slower than the timeout of the slot
		held = hold()
	}
	require.True(t, held)
	waitFor(t, func() bool { status, _ := one(); return status == http.StatusOK })
}

// Each table is filled by a separate statement.
func TestAnalyst_ExternalTablesCountForMemoryAndTime(t *testing.T) {
	wide := make([]string, 40)
	for i := range wide {
		wide[i] = fmt.Sprintf("a%d FixedString(256)", i)
	}
	many := func(n int, structure, format, data string, params ...string) reply {
		files, fields := make(map[string]string), make(map[string]string)
		query := "SELECT getSetting('max_memory_usage'), getSetting('readonly'), 0"
		for i := range n {
			name := fmt.Sprintf("e%d", i)
			files[name], fields[name+"_structure"], fields[name+"_format"] = data, structure, format
			query += " + (SELECT count() FROM " + name + ")"
		}
		for i := 0; i < len(params); i += 2 {
			fields[params[i]] = params[i+1]
		}
		c := form(t, query, fields, files)
		c.user = "-"
		return c.do(t)
	}
	rows := strings.Repeat("{}\n", 12_000) // of 10 KB each in the engine
	r := many(10, strings.Join(wide, ", "), "JSONEachRow", rows, "max_memory_usage", "200000000")
	require.Equal(t, "241", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
	r = many(1, strings.Join(wide, ", "), "JSONEachRow", rows, "max_memory_usage", "400000000")
	require.Equal(t, "200000000\t1\t12000\n", r.body)
	r = many(16, "n UInt8", "CSV", "1\n2\n")
	require.Equal(t, http.StatusOK, r.status, r.body)
	r = many(16, "n UInt8", "CSV", "1\n2\n", "max_memory_usage", "1")
	require.Equal(t, "241", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
	r = many(17, "n UInt8", "CSV", "1\n2\n")
	require.Equal(t, "497", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
	r = many(1, "n UInt8", "CSV", strings.Repeat("1\n", 50_000_000), "max_execution_time", "0.05")
	require.Equal(t, "159", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
}

func TestAnalyst_LimitsFormFields(t *testing.T) {
	// Only little is sent after the limit: a server that responds before it has read much more may close the connection
	// first.
	fields := func(size, count int) reply {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for i := 0; count >= 0; i++ {
			name := fmt.Sprintf("param_f%d", i)
			require.NoError(t, w.WriteField(name, strings.Repeat("x", size)))
			count -= len(name) + 1<<10 + size
		}
		require.NoError(t, w.Close())
		return call{
			user:   "-",
			body:   &b,
			params: values([]string{"query", "SELECT 1"}),
			header: http.Header{"Content-Type": {w.FormDataContentType()}},
		}.do(t)
	}
	require.Equal(t, "1\n", fields(128<<10, 1<<20).body)
	for _, size := range []int{128 << 10, 1 << 10} {
		r := fields(size, 128<<20)
		require.NotEqual(t, http.StatusOK, r.status)
		require.Contains(t, r.body, "too long")
	}
}
