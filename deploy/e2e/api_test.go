package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/openapitest"
)

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// description validates every call of an api.
var description = sync.OnceValues(openapitest.New)

// api is a client of a running platform's HTTP API. A response that violates the API description is an error.
type api struct {
	base, key string
	client    *http.Client
	// bulk counts calls that are compared with the oracle byte by byte. There are too many to validate all of them: one
	// in 20 is validated against the description. If nil, all are validated.
	bulk *atomic.Int64
}

func (p *platform) api() *api { return &api{base: p.BaseURL, key: p.APIKey, client: newClient()} }

func newClient() *http.Client {
	return &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

// agrees validates an exchange against the description.
func agrees(req *http.Request, sent []byte, resp *http.Response, body []byte) error {
	checker, err := description()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(req.URL.Path, "/v1/") {
		return nil // not an address of the API
	}
	if err := checker.Check(req, sent, resp, body); err != nil {
		return fmt.Errorf("%s %s: %d: violates the description: %w", req.Method, req.URL.Path, resp.StatusCode, err)
	}
	return nil
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// detail returns the message of an error response.
func (a answer) detail(t *testing.T) string {
	t.Helper()
	var e struct {
		Detail string `json:"detail"`
	}
	require.NoError(t, json.Unmarshal(a.body, &e, json.RejectUnknownMembers(true)),
		"not an error {\"detail\": string}: %q", a.body)
	return e.Detail
}

func (a *api) do(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	read, err := io.ReadAll(resp.Body)
	if err == nil && (a.bulk == nil || a.bulk.Add(1)%20 == 1) {
		err = agrees(req, body, resp, read)
	}
	return answer{resp.StatusCode, resp.Header, read}, err
}

// post sends a value as JSON.
func (a *api) post(ctx context.Context, path string, body any) (answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	return a.do(ctx, http.MethodPost, path, nil, raw)
}

// mustPost is like post, but a transport error fails the test.
func (a *api) mustPost(t *testing.T, path string, body any) answer {
	t.Helper()
	got, err := a.post(t.Context(), path, body)
	require.NoError(t, err)
	return got
}

func (a *api) mustGet(t *testing.T, path string, query url.Values) answer {
	t.Helper()
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	got, err := a.do(t.Context(), http.MethodGet, path, nil, nil)
	require.NoError(t, err)
	return got
}

// sql runs a query as the service user and returns the lines of the result.
func (p *platform) sql(t *testing.T, query string) []string {
	t.Helper()
	u, err := url.Parse(p.ClickHouseURL)
	require.NoError(t, err)
	password, _ := u.User.Password()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+u.Host+"/?database="+strings.TrimPrefix(u.Path, "/"),
		strings.NewReader(query+" FORMAT TabSeparatedRaw"))
	require.NoError(t, err)
	req.SetBasicAuth(u.User.Username(), password)
	resp, err := newClient().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s\n%s", query, body)
	if len(body) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
}
