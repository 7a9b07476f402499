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

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// What an analyst's statement takes before it runs is bounded, too.
func TestAnalystStatementsAreBounded(t *testing.T) {
	for _, size := range []string{"4194305", "1000000000", "1e18", "0", "-1", "x"} {
		resp, err := http.Post("http://"+enginetest.Addr(t)+"/?max_query_size="+size, "", endless{})
		if err == nil { // or the engine has closed the connection before it was read
			require.NoError(t, resp.Body.Close())
			require.Equal(t, "452", resp.Header.Get("X-ClickHouse-Exception-Code"), size)
		}
		require.Equal(t, "452", asAnalyst(t, "SELECT 1", "max_query_size", size).header.Get("X-ClickHouse-Exception-Code"), size)
	}
	list := "SELECT length([" + strings.Repeat("1,", 150_000) + "1])"
	require.Contains(t, asAnalyst(t, list).body, "Max query size exceeded")
	require.Equal(t, "150001\n", asAnalyst(t, list, "max_query_size", "4194304").body)
	long := "SELECT (" + strings.Repeat("1,", 1_000_000) + "1)"
	begin := time.Now()
	r := asAnalyst(t, long, "max_query_size", "4194304", "max_memory_usage", "20000000")
	require.Equal(t, "241", r.header.Get("X-ClickHouse-Exception-Code"), r.body)
	t.Logf("refused after %s: %s", time.Since(begin), r.body)
	require.NotContains(t, r.body, "formatQuery")
}

// An analyst's tables have a size, and are read with a place for the query, which
// is given back when they do not come.
func TestAnalystTablesAreBounded(t *testing.T) {
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

	hold := func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /?query=SELECT+count()+FROM+e&e_structure=n+UInt8 HTTP/1.1\r\nHost: %s\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n"+
			"--x\r\nContent-Disposition: form-data; name=\"e\"; filename=\"e\"\r\n\r\n1\n", e.Addr())
		require.NoError(t, err)
		status, body := one()
		return status == http.StatusInternalServerError && strings.Contains(body, "Too many simultaneous queries of analysts")
	}
	held := false
	for i := 0; !held && i < 100; i++ { // a query may be faster, and a busy machine slower than the place is held
		held = hold()
	}
	require.True(t, held)
	for begin := time.Now(); ; {
		if status, body := one(); status == http.StatusOK {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatal(body)
		}
	}
}
