package service_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/service"
)

// exchange sends request verbatim and reads the response.
func exchange(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(body)
}

func requireDetail(t *testing.T, resp *http.Response, body, detail string) {
	t.Helper()
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"), body)
	var answer map[string]string
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	require.Len(t, answer, 1)
	require.Contains(t, answer["detail"], detail)
}

func TestServer_AnswersMalformedRequestsInJSON(t *testing.T) {
	// The same text in a handler's body is not an error of net/http.
	const own = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nown"
	s, err := service.NewServer(t.Context(), service.ServerConfig{
		Addr: "127.0.0.1:0", MaxHeaderBytes: 8 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, strings.Repeat(own, 100))
		}),
	})
	require.NoError(t, err)
	start(t, s.Run)
	for name, c := range map[string]struct {
		request string
		status  int
		detail  string
	}{
		"header without a colon": {"GET / HTTP/1.1\r\nHost: x\r\noddheader\r\n\r\n", 400, "not valid HTTP"},
		"no Host":                {"GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"two Hosts":              {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "not valid HTTP"},
		"bad Host":               {"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400, "malformed Host header"},
		"bad header name":        {"GET / HTTP/1.1\r\nHost: x\r\na(b: c\r\n\r\n", 400, "not valid HTTP"},
		"bad header value":       {"GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", 400, "not valid HTTP"},
		"not HTTP":               {"hello\r\n\r\n", 400, "not valid HTTP"},
		"TLS":                    {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400, "not use TLS"},
		"two Content-Lengths": {
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "not valid HTTP",
		},
		"negative Content-Length": {
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "not valid HTTP",
		},
		"large headers": {
			"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 32<<10) + "\r\n\r\n", 431, "8192 bytes",
		},
		"transfer encoding": {
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: squeeze\r\n\r\n", 501, "Transfer-Encoding",
		},
		"expectation": {
			"POST / HTTP/1.1\r\nHost: x\r\nExpect: all\r\nContent-Length: 1\r\n\r\na", 417, "100-continue",
		},
		"version": {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := exchange(t, s.Addr(), c.request)
			require.Equal(t, c.status, resp.StatusCode)
			requireDetail(t, resp, body, c.detail)
			require.True(t, resp.Close)
			require.EqualValues(t, len(body), resp.ContentLength)
		})
	}
	_, body := exchange(t, s.Addr(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	require.Equal(t, strings.Repeat(own, 100), body)
	_, body = exchange(t, s.Addr(),
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na")
	require.NotContains(t, body, "detail")
}

func TestAdmin_RejectsOtherHostsAndOriginsOnEveryPath(t *testing.T) {
	a, err := service.NewAdmin(t.Context(), service.AdminConfig{
		Addr: "127.0.0.1:0", Registry: prometheus.NewRegistry(), Hosts: []string{"query-api"},
	})
	require.NoError(t, err)
	a.Handle("POST /usage/flush", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	start(t, a.Run)
	addr := strings.TrimPrefix(a.URL(), "http://")
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	for _, c := range []struct{ method, path string }{
		{"GET", "/healthz"}, {"GET", "/readyz"}, {"GET", "/metrics"}, {"GET", "/debug/pprof/"},
		{"GET", "/debug/pprof/cmdline"}, {"POST", "/usage/flush"}, {"GET", "/missing"}, {"OPTIONS", "*"},
	} {
		for _, headers := range []string{
			"Host: evil.example",
			"Host: evil.example:" + port,
			"Host: " + addr + "\r\nOrigin: http://evil.example",
			"Host: " + addr + "\r\nOrigin: null",
		} {
			request := fmt.Sprintf("%s %s HTTP/1.1\r\n%s\r\nConnection: close\r\n\r\n", c.method, c.path, headers)
			resp, body := exchange(t, addr, request)
			require.Equal(t, http.StatusForbidden, resp.StatusCode, "%s %s %s", c.method, c.path, headers)
			requireDetail(t, resp, body, "")
		}
		for _, host := range []string{
			addr, "127.0.0.1", "[::1]:" + port, "localhost:" + port, "query-api:" + port, "10.0.0.7:" + port,
		} {
			request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", c.method, c.path, host)
			resp, _ := exchange(t, addr, request)
			require.NotEqual(t, http.StatusForbidden, resp.StatusCode, "%s %s %s", c.method, c.path, host)
		}
	}
	_, err = service.NewAdmin(t.Context(), service.AdminConfig{
		Addr: "127.0.0.1:0", Registry: prometheus.NewRegistry(), Hosts: []string{"http://x"},
	})
	require.ErrorContains(t, err, `"http://x"`)
}

func TestAdmin_AnswersErrorsInJSON(t *testing.T) {
	a, err := service.NewAdmin(t.Context(), service.AdminConfig{
		Addr: "127.0.0.1:0", Registry: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	a.Handle("GET /plain", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no \"luck\"", http.StatusBadGateway)
	}))
	a.Handle("GET /silent", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	}))
	require.NoError(t, a.AddCheck("broker", func(context.Context) error { return io.ErrUnexpectedEOF }))
	start(t, a.Run)
	addr := strings.TrimPrefix(a.URL(), "http://")
	for _, c := range []struct {
		method, path string
		status       int
		detail       string
	}{
		{"GET", "/missing", 404, "404 page not found"},
		{"DELETE", "/metrics", 405, "Method Not Allowed"},
		{"GET", "/debug/pprof/missing", 404, "Unknown profile"},
		{"GET", "/plain", 502, `no "luck"`},
		{"GET", "/silent", 409, "Conflict"},
		{"OPTIONS", "*", 400, "Bad Request"},
	} {
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", c.method, c.path)
		resp, body := exchange(t, addr, request)
		require.Equal(t, c.status, resp.StatusCode, c.path)
		requireDetail(t, resp, body, c.detail)
	}
	resp, body := exchange(t, addr, "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Contains(t, body, `"ready":false`, "a JSON body is unchanged")
}
