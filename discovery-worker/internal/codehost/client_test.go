package codehost_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/codehost"
	"muster/discovery-worker/internal/provider"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// host is a code host with users, rate limits by token and ETags by token.
type host struct {
	mu                sync.Mutex
	bios              map[string]string
	left              map[string]int // remaining requests by token
	bad               map[string]bool
	reset             time.Time
	secondary         bool
	served, unchanged int
	tokens            []string
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	h.tokens = append(h.tokens, token)
	respond := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"message":%q,"documentation_url":"https://docs.example/rest"}`, text)
	}
	if r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("User-Agent") == "" {
		respond(http.StatusForbidden, "Request forbidden by administrative rules.")
		return
	}
	if h.bad[token] {
		respond(http.StatusUnauthorized, "Bad credentials")
		return
	}
	if h.secondary {
		h.secondary = false
		w.Header().Set("Retry-After", "30")
		respond(http.StatusForbidden, "You have exceeded a secondary rate limit.")
		return
	}
	name, social := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v3/users/"), "/social_accounts")
	bio, known := h.bios[strings.ToLower(name)]
	etag := fmt.Sprintf(`W/"%s-%x-%x"`, token, name, bio)
	limits := func() {
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(h.left[token]))
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(h.reset.Unix(), 10))
	}
	// Not counted against the rate limit.
	if known && r.Header.Get("If-None-Match") == etag {
		h.unchanged++
		limits()
		w.Header().Set("ETag", etag)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if h.left[token] == 0 {
		limits()
		respond(http.StatusForbidden, "API rate limit exceeded")
		return
	}
	h.left[token]--
	h.served++
	limits()
	switch {
	case !known:
		respond(http.StatusNotFound, "Not Found")
	case social:
		w.Header().Set("ETag", etag)
		_, _ = io.WriteString(w,
			`[{"provider":"linkedin","url":"https://www.linkedin.com/in/juno-abara"},{"provider":"generic",`+
				`"url":"https://juno.example"}]`)
	default:
		w.Header().Set("ETag", etag)
		kind := "User"
		if name == "quenlix" {
			kind = "Organization"
		}
		_, _ = fmt.Fprintf(w, `{"login":"JunoA","id":77,"node_id":"x","avatar_url":"https://a.example/77?v=4",
			"type":%q,"site_admin":false,"name":"Juno Abara",
			"company":"@quenlix","blog":"juno.example","location":"Oslo","email":null,"hireable":null,"bio":%q,
			"twitter_username":"juno_writes",
			"public_repos":3,"public_gists":0,"followers":12,"following":3,"created_at":"2012-03-01T00:00:00Z",
			"updated_at":"2026-01-01T00:00:00Z"}`, kind, bio)
	}
}

func start(t *testing.T, tokens ...string) (*host, *codehost.Client, *time.Time) {
	t.Helper()
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	h := &host{bios: map[string]string{"junoa": "Compilers", "quenlix": ""}, left: map[string]int{"": 60},
		bad: map[string]bool{}, reset: now.Add(time.Hour)}
	for _, token := range tokens {
		h.left[token] = 10
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := codehost.New(codehost.Config{URL: server.URL + "/api/v3", Tokens: tokens}, provider.NewClient(),
		identity.Default(), func() time.Time { return now })
	require.NoError(t, err)
	return h, c, &now
}

func TestClient_LooksUpProfile(t *testing.T) {
	h, c, _ := start(t, "one")
	p, err := c.Ask(t.Context(), "junoa")
	require.NoError(t, err)
	require.Equal(t, "JunoA", p.Username)
	require.Equal(t, "77", p.Identity)
	require.Equal(t, []string{"quenlix"}, p.Employers)
	require.True(t, p.Person)
	require.Equal(t, []event.Account{{Platform: "network", Username: "juno-abara"},
		{Platform: "microblog", Username: "juno_writes"}}, p.Declared)

	// Unchanged responses come from the cache.
	for range 3 {
		again, err := c.Ask(t.Context(), "junoa")
		require.NoError(t, err)
		require.Equal(t, p, again)
	}
	require.Equal(t, 2, h.served)
	require.Equal(t, 6, h.unchanged)
	h.mu.Lock()
	h.bios["junoa"] = "Kernels"
	h.mu.Unlock()
	p, err = c.Ask(t.Context(), "JunoA")
	require.NoError(t, err)
	require.Equal(t, "Kernels", p.Bio)

	missing, err := c.Ask(t.Context(), "unknown/../admin")
	require.NoError(t, err)
	require.Nil(t, missing)
	organization, err := c.Ask(t.Context(), "quenlix")
	require.NoError(t, err)
	require.False(t, organization.Person)
}

func TestClient_RotatesTokens(t *testing.T) {
	h, c, now := start(t, "one", "two", "three")
	h.bad["two"] = true
	for range 10 {
		_, err := c.Ask(t.Context(), "unknown")
		require.NoError(t, err)
	}
	require.Equal(t, 10, h.served)
	used := map[string]int{}
	for _, token := range h.tokens {
		used[token]++
	}
	require.LessOrEqual(t, used["two"], 1, "a rejected token is paused")
	require.InDelta(t, used["one"], used["three"], 2)

	h.mu.Lock()
	h.secondary = true
	h.mu.Unlock()
	_, err := c.Ask(t.Context(), "unknown")
	require.NoError(t, err, "another token succeeds")

	for range 9 {
		_, err = c.Ask(t.Context(), "unknown")
		if err != nil {
			break
		}
	}
	for err == nil {
		_, err = c.Ask(t.Context(), "unknown")
	}
	var retry *provider.RetryError
	require.ErrorAs(t, err, &retry)
	require.LessOrEqual(t, retry.After, time.Hour)
	calls := len(h.tokens)
	_, err = c.Ask(t.Context(), "unknown")
	require.ErrorAs(t, err, &retry)
	require.Len(t, h.tokens, calls, "an exhausted token is not used")

	*now = now.Add(61 * time.Minute)
	h.mu.Lock()
	h.left["one"], h.left["three"], h.reset = 10, 10, now.Add(time.Hour)
	h.mu.Unlock()
	_, err = c.Ask(t.Context(), "unknown")
	require.NoError(t, err)
}

func TestClient_RejectsInvalidResponses(t *testing.T) {
	for body, status := range map[string]int{`{"login":`: 200, `{}`: 200, `[]`: 200, `busy`: 502} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		c, err := codehost.New(codehost.Config{URL: server.URL}, provider.NewClient(), identity.Default(), time.Now)
		require.NoError(t, err)
		_, err = c.Ask(t.Context(), "junoa")
		require.Error(t, err, body)
		server.Close()
	}
	_, err := codehost.New(codehost.Config{URL: "ftp://x"}, nil, identity.Default(), time.Now)
	require.Error(t, err)
}

// A host that mistakenly names a time far ahead is called again when its window must have ended.
func TestClient_LimitsTokenPause(t *testing.T) {
	for name, respond := range map[string]func(http.Header) int{
		"seconds": func(h http.Header) int { h.Set("Retry-After", "2147483647"); return http.StatusTooManyRequests },
		"a date": func(h http.Header) int {
			h.Set("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT")
			return http.StatusForbidden
		},
		"a reset": func(h http.Header) int {
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", "9999999999")
			return http.StatusForbidden
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				status := http.StatusNotFound
				if requests.Add(1) == 1 {
					status = respond(w.Header())
				}
				w.WriteHeader(status)
			}))
			t.Cleanup(server.Close)
			now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
			c, err := codehost.New(codehost.Config{URL: server.URL}, provider.NewClient(), identity.Default(),
				func() time.Time { return now })
			require.NoError(t, err)
			_, err = c.Ask(t.Context(), "junoa")
			require.ErrorContains(t, err, "the rate limit of every token is exhausted")
			now = now.Add(time.Hour)
			_, err = c.Ask(t.Context(), "junoa")
			require.ErrorContains(t, err, "the rate limit of every token is exhausted")
			now = now.Add(10 * time.Minute)
			_, err = c.Ask(t.Context(), "junoa")
			require.NoError(t, err)
			require.EqualValues(t, 2, requests.Load())
		})
	}
}
