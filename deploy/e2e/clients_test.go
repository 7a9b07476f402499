//go:build clients

package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The examples of the Go and TypeScript clients run to completion: an enrichment that is rejected once and retried
// after Retry-After, a search walk, an error, a verified webhook.
func TestClients_ExamplesRun(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "100", "--webhook-allow", "127.0.0.0/8")
	var organizations []account
	p.musterJSON(t, &organizations, "account", "list", "--json")
	var secrets []struct {
		Secret string `json:"secret"`
	}
	p.musterJSON(t, &secrets, "account", "webhook-secret", "show", organizations[0].OrganizationID, "--json")
	const username = "octavia" // an example that is in the sample data
	for name, command := range map[string][]string{
		"Go": {"go", "run", "muster/query-api/client/example", username},
		"TypeScript": {"node", filepath.Join("..", "..", "query-api", "client-ts", "dist", "example", "example.js"),
			username},
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			busy := tooBusyAtFirst(t, p.BaseURL)
			run.Env = append(environment(), "MUSTER_URL="+busy.url, "KEY="+p.APIKey, "SECRET="+secrets[0].Secret)
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
			for _, line := range []string{
				`(?m)^enrich: .*codehost.*network`, `(?m)^search: (\d+) of \d+$`, `(?m)^refused: .*400.*foreign host`,
				`(?m)^context: 202$`, `(?m)^webhook: true`,
			} {
				require.Regexp(t, line, string(out))
			}
			require.NotContains(t, string(out), "search: 0 of")
			busy.mu.Lock()
			defer busy.mu.Unlock()
			require.Len(t, busy.tries, 2, "tries of the client")
			require.GreaterOrEqual(t, busy.tries[1].at.Sub(busy.tries[0].at), time.Second, "after Retry-After")
			require.NotEmpty(t, busy.tries[0].key)
			require.Equal(t, busy.tries[0].key, busy.tries[1].key, "a retry is charged once")
		})
	}
}

// tooBusy is a proxy of the API that answers the first enrichment with 429.
type tooBusy struct {
	url string

	mu    sync.Mutex
	tries []try
}

// try is an enrichment request.
type try struct {
	at  time.Time
	key string // Idempotency-Key
}

func tooBusyAtFirst(t *testing.T, base string) *tooBusy {
	t.Helper()
	to, err := url.Parse(base)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	b := &tooBusy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/person/enrich" {
			b.mu.Lock()
			b.tries = append(b.tries, try{time.Now(), r.Header.Get("Idempotency-Key")})
			first := len(b.tries) == 1
			b.mu.Unlock()
			if first {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"detail": "too many requests"}`)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}
