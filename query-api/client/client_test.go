package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"muster/query-api/client"
)

// recorder is a server that records requests and sends prepared responses.
type recorder struct {
	*httptest.Server
	requests []*http.Request
	bodies   []string
}

func newRecorder(t *testing.T, responses ...http.HandlerFunc) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.requests, r.bodies = append(r.requests, req), append(r.bodies, string(body))
		responses[min(len(r.requests), len(responses))-1](w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// client returns a client of the recorder.
func (r *recorder) client(t *testing.T, options client.Options) *client.Client {
	t.Helper()
	api, err := client.New(r.URL, "mk_live_x", options)
	require.NoError(t, err)
	return api
}

// respond returns a handler that sends a status, a body and headers.
func respond(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "r1")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// failAfter returns a handler that sends a status and a Retry-After.
func failAfter(status int, retryAfter string) http.HandlerFunc {
	return respond(status, `{"detail":"wait"}`, "Retry-After", retryAfter)
}

func breakConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// truncate sends a part of a response.
func truncate(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Length", "100")
	respond(200, `{"websets_`)(w, req)
}

const noMatch = `{"websets_matched":[],"person":{}}`

func TestClient_RetriesTransientErrorsWithOneIdempotencyKey(t *testing.T) {
	ok := respond(200, noMatch)
	for name, tc := range map[string]struct {
		options   client.Options
		responses []http.HandlerFunc
		calls     int
		status    int // of the error, 0 if there is none
	}{
		"rate limit":            {responses: []http.HandlerFunc{failAfter(429, "0"), ok}, calls: 2},
		"overload":              {responses: []http.HandlerFunc{failAfter(503, "1"), ok}, calls: 2},
		"broken connection":     {responses: []http.HandlerFunc{breakConnection, ok}, calls: 2},
		"truncated response":    {responses: []http.HandlerFunc{truncate, ok}, calls: 2},
		"first call still runs": {responses: []http.HandlerFunc{breakConnection, failAfter(409, "0"), ok}, calls: 3},
		"wait until next month": {responses: []http.HandlerFunc{failAfter(429, "864000")}, calls: 1, status: 429},
		"invalid request":       {responses: []http.HandlerFunc{failAfter(422, "0")}, calls: 1, status: 422},
		"without Retry-After":   {responses: []http.HandlerFunc{respond(500, `{"detail":"oh"}`)}, calls: 1, status: 500},
		"too many retries":      {responses: []http.HandlerFunc{failAfter(503, "0")}, calls: 5, status: 503},
		"no retries": {options: client.Options{Retries: -1}, responses: []http.HandlerFunc{failAfter(503, "0")},
			calls: 1, status: 503},
		"wait longer than allowed": {options: client.Options{MaxWait: time.Second},
			responses: []http.HandlerFunc{failAfter(503, "2")}, calls: 1, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t, tc.responses...)
			_, err := r.client(t, tc.options).EnrichPerson(t.Context(), client.PersonEnrichRequest{Codehost: "octavia"})
			if tc.status == 0 {
				require.NoError(t, err)
			} else {
				problem, ok := errors.AsType[*client.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tc.status, problem.Status)
				require.Equal(t, "r1", problem.RequestID)
			}
			require.Len(t, r.requests, tc.calls)
			for i, req := range r.requests {
				require.Equal(t, "Bearer mk_live_x", req.Header.Get("Authorization"))
				require.Equal(t, "muster-go/"+client.Version, req.UserAgent())
				require.NotEmpty(t, req.Header.Get("Idempotency-Key"))
				require.Equal(t, r.requests[0].Header.Get("Idempotency-Key"), req.Header.Get("Idempotency-Key"))
				require.Equal(t, `{"codehost":"octavia"}`, r.bodies[i])
			}
		})
	}
}

func TestClient_RetriesOnlyCallsThatAreSafeToRepeat(t *testing.T) {
	r := newRecorder(t, failAfter(503, "0"))
	api := r.client(t, client.Options{Retries: 1, UserAgent: "example/1"})
	person := client.PersonEnrichRequest{Codehost: "octavia"}
	_, err := api.EnrichPerson(t.Context(), person, client.IdempotencyKey("order-1"))
	require.Error(t, err)
	require.Len(t, r.requests, 2)
	require.Equal(t, "order-1", r.requests[1].Header.Get("Idempotency-Key"))
	require.Equal(t, "example/1", r.requests[1].UserAgent())

	r.requests = nil
	_, err = api.EnrichPerson(t.Context(), person, client.IdempotencyKey(""))
	require.Error(t, err)
	require.Len(t, r.requests, 1, "a POST without a key")
	require.Empty(t, r.requests[0].Header.Get("Idempotency-Key"))

	r.requests = nil
	_, err = api.GetUsage(t.Context())
	require.Error(t, err)
	require.Len(t, r.requests, 2, "a GET")
}

func TestClient_RetryEndsWithItsContext(t *testing.T) {
	api := newRecorder(t, failAfter(503, "30")).client(t, client.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := api.GetUsage(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "last error: 503: wait")
}

func TestNew_RejectsInvalidBaseURLs(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8080", "localhost", "ftp://x", "http://", "http://a b"} {
		_, err := client.New(base, "k", client.Options{})
		require.Error(t, err, base)
	}
}

func TestClient_ReturnsMetadataOfResponses(t *testing.T) {
	r := newRecorder(t, respond(200, `{"total":0,"results":[],"next_cursor":null,"credits_charged":0}`,
		"X-Credits-Charged", "3", "X-RateLimit-Limit", "300", "X-RateLimit-Remaining", "299",
		"X-RateLimit-Reset", "1795223021", "X-Quota-Used", "120", "X-Quota-Limit", "10000",
		"X-Quota-Remaining", "9880", "X-Degraded", "web_search,language_model", "Age", "60",
		"X-Data-As-Of", "2026-11-29T08:20:00Z; lag=2", "Idempotent-Replayed", "true"))
	got, err := r.client(t, client.Options{}).SearchPeople(t.Context(), client.SearchRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, got.Header)
	got.Header = nil
	require.Equal(t, client.Metadata{
		Status: 200, RequestID: "r1", CreditsCharged: 3, Age: time.Minute, Replayed: true,
		RateLimit: client.RateLimit{Limit: 300, Remaining: 299, Reset: time.Unix(1795223021, 0)},
		Quota:     client.Quota{Used: 120, Limit: 10000, Remaining: 9880},
		Degraded:  []string{"web_search", "language_model"}, AsOf: time.Date(2026, 11, 29, 8, 20, 0, 0, time.UTC),
	}, got.Metadata)
}

func TestClient_ReturnsErrors(t *testing.T) {
	call := func(handler http.HandlerFunc) *client.Error {
		_, err := newRecorder(t, handler).client(t, client.Options{Retries: -1}).GetUsage(t.Context())
		problem, ok := errors.AsType[*client.Error](err)
		require.True(t, ok, "%v", err)
		return problem
	}
	slow := call(respond(429, `{"detail":"slower"}`, "Retry-After", "7", "X-RateLimit-Limit", "300"))
	require.EqualError(t, slow, "429: slower")
	require.Equal(t, 7*time.Second, slow.RetryAfter)
	require.Equal(t, int64(300), slow.RateLimit.Limit)
	require.EqualError(t, call(respond(502, "<html>")), "502: Bad Gateway", "a proxy")

	_, err := newRecorder(t, respond(200, "<html>")).client(t, client.Options{}).GetUsage(t.Context())
	require.ErrorContains(t, err, "decode response to GET /v1/usage")
}

func TestClient_KeepsFieldsThatTheDescriptionDoesNotName(t *testing.T) {
	r := newRecorder(t, respond(200, `{"websets_matched":["network"],"person":{"network":{"profile_id":"7",
		"shoe_size":39,"profile":{"full_name":"Octavia Lin","motto":"x"}}}}`))
	got, err := r.client(t, client.Options{}).EnrichPerson(t.Context(), client.PersonEnrichRequest{})
	require.NoError(t, err)
	network := got.Value.Person.Network
	require.Equal(t, "Octavia Lin", network.Profile.FullName)
	require.Equal(t, map[string]jsontext.Value{"shoe_size": jsontext.Value("39")}, network.AdditionalProperties)
	require.Equal(t, map[string]jsontext.Value{"motto": jsontext.Value(`"x"`)}, network.Profile.AdditionalProperties)
}

func TestClient_SendsZeroOnlyIfSet(t *testing.T) {
	r := newRecorder(t, respond(200, `{"dry_run":true,"max_credits":1,"credits_remaining":9}`))
	api := r.client(t, client.Options{})
	dry, err := api.SearchPeople(t.Context(), client.SearchRequest{
		Query: map[string]any{"match_all": map[string]any{}}, Size: new(int64(0)), Source: false, DryRun: true,
	})
	require.NoError(t, err)
	require.Equal(t, &client.DryRun{DryRun: true, MaxCredits: 1, CreditsRemaining: 9}, dry.DryRun)
	require.JSONEq(t, `{"query":{"match_all":{}},"size":0,"_source":false,"dry_run":true}`, r.bodies[0])

	record, err := api.GetNetworkPerson(t.Context(), client.GetNetworkPersonParams{Network: "a b/ü", DryRun: true,
		Fields:   client.RecordFields{"full_name", "skills.skill"},
		Addons:   client.NetworkAddons{client.NetworkAddonCodehost, client.NetworkAddonPersonalEmail},
		MustHave: client.NetworkMustHaves{client.NetworkMustHaveSkills}})
	require.NoError(t, err)
	require.Equal(t, int64(9), record.DryRun.CreditsRemaining)
	require.Equal(t, map[string][]string{"network": {"a b/ü"}, "addons": {"codehost,personal_email"},
		"must_have": {"skills"}, "fields": {"full_name,skills.skill"},
		"dry_run": {"true"}}, map[string][]string(r.requests[1].URL.Query()))
}

func TestClient_EnrichesItems(t *testing.T) {
	r := newRecorder(t, respond(200, `{"results":[{"reference":"row 1","websets_matched":["codehost"],
		"person":{"codehost":{"user_id":12}}},{"reference":"row 2","detail":"email is not an e-mail address"},
		{"websets_matched":[],"person":{},"miss_reason":"not_found"}]}`, "X-Credits-Charged", "1"))
	got, err := r.client(t, client.Options{}).EnrichPerson(t.Context(), client.PersonEnrichRequest{
		Items: []client.PersonEnrichItem{
			{Reference: "row 1", Codehost: "octavia"}, {Reference: "row 2", Email: "no"}, {},
		},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"items":[{"reference":"row 1","codehost":"octavia"},{"reference":"row 2","email":"no"},{}]}`,
		r.bodies[0])
	require.Equal(t, int64(1), got.CreditsCharged)
	require.Len(t, got.Value.Results, 3)
	require.Equal(t, int64(12), *got.Value.Results[0].Person.Codehost.UserID)
	require.Equal(t, "row 2", got.Value.Results[1].Reference)
	require.Equal(t, "email is not an e-mail address", got.Value.Results[1].Detail)
	require.Equal(t, "not_found", got.Value.Results[2].MissReason)
}

func TestPeople_FetchesPagesAsNeeded(t *testing.T) {
	page := func(next string, ids ...string) http.HandlerFunc {
		results := make([]string, len(ids))
		for i, id := range ids {
			results[i] = fmt.Sprintf(`{"profile_id":%q}`, id)
		}
		return respond(200, fmt.Sprintf(`{"total":3,"results":[%s],"next_cursor":%s,"credits_charged":%d}`,
			strings.Join(results, ","), next, len(ids)))
	}
	r := newRecorder(t, page(`"c1"`, "a", "b"), page("null", "c"))
	search := client.SearchRequest{Query: jsontext.Value(`{"match_all":{}}`)}
	var ids []string
	for person, err := range r.client(t, client.Options{}).People(t.Context(), search) {
		require.NoError(t, err)
		ids = append(ids, person.ProfileID)
	}
	require.Equal(t, []string{"a", "b", "c"}, ids)
	require.JSONEq(t, `{"query":{"match_all":{}}}`, r.bodies[0])
	require.JSONEq(t, `{"query":{"match_all":{}},"cursor":"c1"}`, r.bodies[1])
	require.NotEqual(t, r.requests[0].Header.Get("Idempotency-Key"), r.requests[1].Header.Get("Idempotency-Key"))

	r = newRecorder(t, page(`"c1"`, "a", "b"))
	for _, err := range r.client(t, client.Options{}).People(t.Context(), search) {
		require.NoError(t, err)
		break
	}
	require.Len(t, r.requests, 1, "no further page is fetched after break")

	r = newRecorder(t, page(`"c1"`), page("null"))
	search.Size, search.Cursor = new(int64(0)), "c1"
	for _, err := range r.client(t, client.Options{}).People(t.Context(), search) {
		require.Fail(t, "a result on a page of size 0", "%v", err)
	}
	require.Len(t, r.requests, 1, "iteration ends if the cursor does not advance")

	r = newRecorder(t, respond(400, `{"detail":"query: wrong"}`))
	errs := 0
	for _, err := range r.client(t, client.Options{}).People(t.Context(), search) {
		require.ErrorContains(t, err, "400: query: wrong")
		errs++
	}
	require.Equal(t, 1, errs)
}

func TestContext_ResultHasProfileOrRequestID(t *testing.T) {
	r := newRecorder(t, respond(202, `{"request_id":"r0","status":"processing"}`),
		respond(200, `{"full_name":"Octavia Lin","custom":{},"confidence":{"full_name":0.9}}`))
	api := r.client(t, client.Options{})
	created, err := api.CreateContext(t.Context(), client.ContextRequest{Person: "Octavia Lin"})
	require.NoError(t, err)
	require.Equal(t, client.ContextResult{RequestID: "r0"}, created.Value)
	got, err := api.GetContext(t.Context(), "r0/x")
	require.NoError(t, err)
	require.Equal(t, "/v1/context/r0%2Fx", r.requests[1].URL.EscapedPath())
	require.Equal(t, "r0/x", got.Value.RequestID)
	require.InDelta(t, 0.9, got.Value.Profile.Confidence["full_name"], 1e-6)
	require.JSONEq(t, `"Octavia Lin"`, string(got.Value.Profile.AdditionalProperties["full_name"]))
}

func TestClient_HasOneMethodPerOperation(t *testing.T) {
	description, err := os.ReadFile(filepath.Join("..", "openapi.yaml"))
	require.NoError(t, err)
	operations := regexp.MustCompile(`(?m)^ +operationId: (\w)(\w+)$`).FindAllSubmatch(description, -1)
	require.Greater(t, len(operations), 10)
	for _, o := range operations {
		name := string(bytes.ToUpper(o[1])) + string(o[2])
		_, ok := reflect.TypeFor[*client.Client]().MethodByName(name)
		require.True(t, ok || name == "GetDocs" || name == "CallMCP",
			"%s: only pages for browsers and the protocol of agents have no method", name)
	}
}

// The module builds in another one, with its source replaced and vendored, as deploy/docs/clients.md says.
func TestModule_BuildsInAnEmptyModule(t *testing.T) {
	source, err := filepath.Abs(".")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"context"
	"fmt"
	"os"

	"muster/query-api/client"
)

func main() {
	api, err := client.New(os.Args[1], "mk_live_x", client.Options{})
	if err != nil {
		panic(err)
	}
	person, err := api.EnrichPerson(context.Background(), client.PersonEnrichRequest{Codehost: "octavia"})
	if err != nil {
		panic(err)
	}
	fmt.Println(len(person.Value.WebsetsMatched), person.RequestID)
}
`), 0o600))
	r := newRecorder(t, respond(200, noMatch))
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s\n%s", args, out)
		return string(out)
	}
	run("mod", "init", "example.com/caller")
	run("mod", "edit", "-require=muster/query-api/client@v0.0.0", "-replace=muster/query-api/client="+source)
	run("mod", "tidy")
	require.Equal(t, "0 r1\n", run("run", ".", r.URL))
	require.NotContains(t, run("list", "-m", "all"), "muster/schemas")
	run("mod", "vendor")
	require.FileExists(t, filepath.Join(dir, "vendor", "muster", "query-api", "client", "client.go"))
	require.Equal(t, "0 r1\n", run("run", "-mod=vendor", ".", r.URL))
}

func TestVerifyWebhook_AcceptsOnlyFreshSignedDeliveries(t *testing.T) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes are good enough"))
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two other bytes, as good."))
	signed := func(body string, at time.Time) http.Header {
		w, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		signature, err := w.Sign("id1", at, []byte(body))
		require.NoError(t, err)
		h := http.Header{}
		h.Set("webhook-id", "id1")
		h.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
		h.Set("webhook-signature", signature)
		return h
	}
	profile := `{"full_name":"Octavia Lin","custom":{},"confidence":{"full_name":0.9}}`
	d, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile), other, secret)
	require.NoError(t, err)
	require.Equal(t, "id1", d.RequestID)
	require.InDelta(t, 0.9, d.Profile.Confidence["full_name"], 1e-6)
	d, err = client.VerifyWebhook(signed(`{"detail":"no"}`, time.Now()), []byte(`{"detail":"no"}`), secret)
	require.NoError(t, err)
	require.Equal(t, "no", d.Failure)
	require.Nil(t, d.Profile)
	for name, refused := range map[string]func() error{
		"another secret": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile), other)
			return err
		},
		"another body": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile+" "), secret)
			return err
		},
		"an old one": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now().Add(-time.Hour)), []byte(profile), secret)
			return err
		},
		"no secret": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile))
			return err
		},
	} {
		require.Error(t, refused(), name)
	}
}
