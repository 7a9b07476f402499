package ingest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/record"
)

const token = "mo_test"

// serve runs a service until the test ends.
func serve(t *testing.T, cfg ingest.Config, deps ingest.Deps) *ingest.Service {
	t.Helper()
	if cfg.Token == "" {
		cfg.Token = token
	}
	s, err := ingest.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Ready(t.Context()) == nil }, 20*time.Second, 10*time.Millisecond)
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// answer is a response to a push.
type answer struct {
	status       int
	header       http.Header
	Complete     bool   `json:"complete"`
	Detail       string `json:"detail"`
	Acknowledged struct {
		Lines int64 `json:"lines"`
		Bytes int64 `json:"bytes"`
	} `json:"acknowledged"`
	Counts []struct {
		Kind      string `json:"kind"`
		Read      int64  `json:"read"`
		Published int64  `json:"published"`
		Unchanged int64  `json:"unchanged"`
		Rejected  int64  `json:"rejected"`

		Conflicting int64 `json:"conflicting"`
	} `json:"counts"`
	Rejected []struct {
		Line   int64  `json:"line"`
		Offset int64  `json:"offset"`
		Path   string `json:"path"`
		Code   string `json:"code"`
		Reason string `json:"reason"`

		Defects []record.FieldError `json:"defects"`
	} `json:"rejected"`
	RejectedMore int64 `json:"rejected_more"`
}

func push(t *testing.T, s *ingest.Service, path string, body io.Reader, header ...string) answer {
	t.Helper()
	return pushBy(t, http.DefaultClient, s, path, body, header...)
}

func pushBy(
	t *testing.T, client *http.Client, s *ingest.Service, path string, body io.Reader, header ...string,
) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	a := answer{status: res.StatusCode, header: res.Header}
	require.NoError(t, json.Unmarshal(raw, &a), "%s", raw)
	if res.StatusCode >= 400 {
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.NotEmpty(t, a.Detail)
	}
	return a
}

const pushPath = "/ingest/v1/network-person"

func TestPush_PublishesAndReportsCounts(t *testing.T) {
	cfg := config(t)
	cfg.StateDir = t.TempDir()
	s := serve(t, cfg, ingest.Deps{})
	text := people(0, 1000)
	for name, c := range map[string]struct {
		body   []byte
		header []string
	}{
		"plain": {[]byte(text), nil},
		"gzip":  {gzipped(t, []byte(text)), []string{"Content-Encoding", "gzip"}},
		"zstd": {zstded(t, []byte(text)), []string{"Content-Encoding", "ZSTD", "Content-Type",
			"application/jsonl; charset=utf-8"}},
		"identity": {[]byte(text), []string{"Content-Encoding", "identity"}},
		"array": {[]byte("[" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", ",\n") + "]"),
			[]string{"Content-Type", "application/json"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := push(t, s, pushPath, bytes.NewReader(c.body), c.header...)
			require.Equal(t, http.StatusOK, a.status, a.Detail)
			require.True(t, a.Complete)
			require.Equal(t, int64(1000), a.Acknowledged.Lines)
			if name != "array" {
				require.Equal(t, int64(len(text)), a.Acknowledged.Bytes)
			}
			require.Len(t, a.Counts, 1)
			require.Equal(t, int64(1000), a.Counts[0].Published+a.Counts[0].Unchanged)
			require.Empty(t, a.Rejected)
		})
	}
	require.Len(t, values(t, cfg.Bus, record.KindNetworkPerson), 1000)
	a := push(t, s, pushPath, strings.NewReader(""))
	require.Equal(t, http.StatusOK, a.status)
	require.True(t, a.Complete)
	// The connection can be reused after a push.
	for range 200 {
		a = push(t, s, pushPath, strings.NewReader(people(0, 1)))
		require.Equal(t, http.StatusOK, a.status, a.Detail)
	}

	var bad strings.Builder
	bad.WriteString(people(0, 2) + "\n{\"profile_id\":\"x\",\"last_updated\":7}\n")
	for range 150 {
		bad.WriteString("nonsense\n")
	}
	a = push(t, s, pushPath, strings.NewReader(bad.String()))
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, int64(151), a.Counts[0].Rejected)
	require.Len(t, a.Rejected, 100)
	require.Equal(t, int64(51), a.RejectedMore)
	require.Equal(t, int64(4), a.Rejected[0].Line)
	require.Equal(t, int64(len(people(0, 2))+1), a.Rejected[0].Offset)
	require.Equal(t, "last_updated", a.Rejected[0].Path)
	require.Equal(t, record.CodeWrongType, a.Rejected[0].Code)
	require.Len(t, rejectedRecords(t, cfg.Bus), 151)
}

func TestPush_RejectsInvalidRequests(t *testing.T) {
	cfg := config(t)
	cfg.Push.MaxBytes = 100_000
	s := serve(t, cfg, ingest.Deps{})
	large := people(0, 5000)
	half := gzipped(t, []byte(people(0, 900)))
	for name, c := range map[string]struct {
		path   string
		body   string
		header []string
		status int
		detail string
	}{
		"unknown kind":    {"/ingest/v1/person", "", nil, 404, `Unknown kind "person"; kinds: network-person`},
		"internal kind":   {"/ingest/v1/codehost-list", "", nil, 404, "Unknown kind"},
		"another path":    {"/v1/person", "", nil, 404, "POST /ingest/v1/KIND"},
		"no token":        {pushPath, "", []string{"Authorization", ""}, 401, "operator token"},
		"wrong token":     {pushPath, "", []string{"Authorization", "Bearer mo_wrong"}, 401, "operator token"},
		"another scheme":  {pushPath, "", []string{"Authorization", "Basic " + token}, 401, "operator token"},
		"no content type": {pushPath, "{}", []string{"Content-Type", ""}, 415, "application/x-ndjson"},
		"form": {pushPath, "{}", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			"application/x-ndjson"},
		"brotli": {pushPath, "{}", []string{"Content-Encoding", "br"}, 415, "gzip, zstd or absent"},
		"not gzip": {pushPath, people(0, 1), []string{"Content-Encoding", "gzip"}, 400, "does not " +
			"match its Content-Encoding"},
		"not zstd": {pushPath, "", []string{"Content-Encoding", "zstd"}, 400, "does not match its " +
			"Content-Encoding"},
		"tar archive": {pushPath, tarred(t), nil, 400, "the input is a tar archive"},
		"zip file":    {pushPath, "PK\x03\x04", nil, 400, "the input is a zip archive"},
		"truncated gzip": {pushPath, string(half[:len(half)-100]), []string{"Content-Encoding", "gzip"}, 400,
			"corrupt after line"},
		"too large": {pushPath, large, nil, 413, "larger than 100.0 kB"},
		"too large, unzipped": {pushPath, string(gzipped(t, []byte(large))), []string{"Content-Encoding", "gzip"},
			413, "Everything up to acknowledged.lines is stored"},
		"an endless line": {pushPath, string(gzipped(t, bytes.Repeat([]byte("x"), 5<<20))),
			[]string{"Content-Encoding", "gzip"}, 413, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			a := push(t, s, c.path, strings.NewReader(c.body), c.header...)
			require.Equal(t, c.status, a.status)
			require.Contains(t, a.Detail, c.detail)
			require.False(t, a.Complete)
		})
	}
	// The size is not known beforehand: the stored lines are reported.
	a := push(t, s, pushPath, io.MultiReader(strings.NewReader(large)))
	require.Equal(t, 413, a.status)
	require.False(t, a.Complete)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+pushPath, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	require.Equal(t, "POST", res.Header.Get("Allow"))
}

// Clients that send no more of a rejected body, or do not read the response, are disconnected. No
// token is needed for that.
func TestPush_SilentClientIsDisconnected(t *testing.T) {
	cfg := config(t)
	cfg.Push.Idle = time.Second
	s := serve(t, cfg, ingest.Deps{})
	dial := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "http://"))
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		return conn
	}
	for path, status := range map[string]string{pushPath: "401", "/ingest/v1/person": "404", "/": "404"} {
		conn := dial()
		_, err := fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10\r\n\r\n", path)
		require.NoError(t, err)
		answered, err := io.ReadAll(conn)
		require.NoError(t, err, "%s: not ended", path)
		require.Contains(t, string(answered), "HTTP/1.1 "+status)
		require.NoError(t, conn.Close())
	}
	conn := dial()
	requests := bytes.Repeat([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 1000)
	var err error
	for err == nil {
		_, err = conn.Write(requests)
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "service waits for its response")
	require.NoError(t, conn.Close())
}

// Pushes beyond the limit are rejected; a silent one is ended.
func TestPush_LimitsConcurrency(t *testing.T) {
	cfg := config(t)
	cfg.Push.Concurrent, cfg.Push.Idle = 1, 5*time.Second
	s := serve(t, cfg, ingest.Deps{})
	slow := newGate()
	first := make(chan answer, 1)
	go func() { first <- push(t, s, pushPath, slow) }()
	_, err := io.WriteString(slow.w, people(0, 3))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(values(t, cfg.Bus, record.KindNetworkPerson)) == 3 },
		20*time.Second, 10*time.Millisecond)
	// It sends data until the other push has been rejected.
	rejected := make(chan struct{})
	var feed sync.WaitGroup
	feed.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(slow.w, " ")
			case <-rejected:
				return
			}
		}
	})
	a := push(t, s, pushPath, strings.NewReader(people(5, 6)))
	close(rejected)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	feed.Wait()
	a = <-first
	require.Equal(t, http.StatusRequestTimeout, a.status, a.Detail)
	require.Equal(t, int64(3), a.Acknowledged.Lines)
	require.NoError(t, slow.w.Close())
	a = push(t, s, pushPath, strings.NewReader(people(5, 6)))
	require.Equal(t, http.StatusOK, a.status)
}

// A push ends with the stored position if brokers are unavailable. A client that pushes the rest
// loses nothing.
func TestPush_OutageReportsStoredLines(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, dir, "127.0.0.1:0")
	addr := b.Addrs()[0]
	cfg := ingest.Config{Bus: bus.Config{Brokers: []string{addr}}}
	cfg.Push.Stall = 5 * time.Second
	s := serve(t, cfg, ingest.Deps{})
	body := newGate()
	first := make(chan answer, 1)
	go func() { first <- push(t, s, pushPath, body) }()
	_, err := io.WriteString(body.w, people(0, 500))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(values(t, cfg.Bus, record.KindNetworkPerson)) == 500 },
		20*time.Second, 10*time.Millisecond)
	require.NoError(t, b.Close())
	_, _ = io.WriteString(body.w, people(500, 900)) // the server may have disconnected
	a := <-first
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.Equal(t, int64(500), a.Acknowledged.Lines)
	require.Contains(t, a.Detail, "Everything up to acknowledged.lines is stored")
	_ = body.w.Close()

	b = startBroker(t, dir, addr)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.Eventually(t, func() bool {
		return push(t, s, pushPath, strings.NewReader(people(int(a.Acknowledged.Lines), 900))).status == http.StatusOK
	}, time.Minute, 100*time.Millisecond)
	got := values(t, cfg.Bus, record.KindNetworkPerson)
	for i := range 900 {
		require.Contains(t, got, fmt.Sprintf("p_%d", i))
	}
}

func tarred(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "people.ndjson", Mode: 0o600, Size: int64(len(people(0, 1)))}))
	_, err := w.Write([]byte(people(0, 1)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}
