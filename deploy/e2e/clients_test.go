//go:build clients

package e2e_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/query-api/client"
	"muster/schemas/event"
)

// The examples of the Go, Python and TypeScript clients run to completion: an enrichment that is rejected once and
// retried after Retry-After, a search walk, an error, a verified webhook.
func TestClients_ExamplesRun(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "100", "--webhook-allow", "127.0.0.0/8")
	var organizations []account
	p.musterJSON(t, &organizations, "account", "list", "--json")
	var secrets []struct {
		Secret string `json:"secret"`
	}
	p.musterJSON(t, &secrets, "account", "webhook-secret", "show", organizations[0].OrganizationID, "--json")
	const username = "octavia" // an example that is in the sample data
	python, pythonPath := pythonClient(t)
	for name, command := range map[string][]string{
		"Go":     {"go", "run", "muster/query-api/client/example", username},
		"Python": {python, filepath.Join("..", "..", "query-api", "client-py", "example", "example.py"), username},
		"TypeScript": {"node", filepath.Join("..", "..", "query-api", "client-ts", "dist", "example", "example.js"),
			username},
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			busy := tooBusyAtFirst(t, p.BaseURL)
			run.Env = append(environment(), "MUSTER_URL="+busy.url, "KEY="+p.APIKey, "SECRET="+secrets[0].Secret,
				pythonPath)
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
			for _, line := range []string{
				`(?m)^enrich: .*codehost.*network`, `(?m)^search: (\d+) of \d+$`, `(?m)^refused: .*400.*foreign host`,
				`(?m)^context: 202$`, `(?mi)^webhook: true`,
			} {
				require.Regexp(t, line, string(out))
			}
			require.NotContains(t, string(out), "search: 0 of")
			if name == "Python" {
				require.Contains(t, string(out), "\nasync: True False\n", "one person is known")
			}
			busy.mu.Lock()
			defer busy.mu.Unlock()
			require.Len(t, busy.tries, 2, "tries of the client")
			require.GreaterOrEqual(t, busy.tries[1].at.Sub(busy.tries[0].at), time.Second, "after Retry-After")
			require.NotEmpty(t, busy.tries[0].key)
			require.Equal(t, busy.tries[0].key, busy.tries[1].key, "a retry is charged once")
		})
	}
}

// Every operation of the API is called once with the Go client, and its response decoded.
func TestClients_GoCallsEveryOperation(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "300")
	called := map[string]bool{}
	key := keyWithScopes(t, p)
	api, err := client.New(p.BaseURL, key, client.Options{HTTPClient: &http.Client{Transport: roundTripper(
		func(r *http.Request) (*http.Response, error) {
			path := regexp.MustCompile(`^/v1/(context|usage)/.*`).ReplaceAllString(r.URL.Path, "/v1/$1/{request_id}")
			path = regexp.MustCompile(`^/v1/bulk/[^/]+`).ReplaceAllString(path, "/v1/bulk/{job_id}")
			path = regexp.MustCompile(`^/v1/webhook/deliveries/[^/]+`).ReplaceAllString(path,
				"/v1/webhook/deliveries/{delivery_id}")
			path = regexp.MustCompile(`^/v1/keys/[^/]+`).ReplaceAllString(path, "/v1/keys/{key_id}")
			called[strings.ToLower(r.Method)+" "+path] = true
			return http.DefaultTransport.RoundTrip(r)
		})}})
	require.NoError(t, err)
	ctx := t.Context()
	const username = "octavia" // an example that is in the sample data
	both := []client.WebsetName{client.WebsetNameCodehost, client.WebsetNameNetwork}
	requirePaid := func(t *testing.T, m client.Metadata, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, 200, m.Status)
		require.NotEmpty(t, m.RequestID)
		require.Positive(t, m.CreditsCharged)
		require.Positive(t, m.RateLimit.Limit)
		require.WithinDuration(t, time.Now(), m.RateLimit.Reset, time.Hour)
	}

	enriched, err := api.EnrichPerson(ctx, client.PersonEnrichRequest{Codehost: username, Websets: both},
		client.IdempotencyKey("every-operation"))
	require.NoError(t, err)
	requirePaid(t, enriched.Metadata, err)
	require.Equal(t, both, enriched.Value.WebsetsMatched)
	network := enriched.Value.Person.Network.NetworkUsername
	replayed, err := api.EnrichPerson(ctx, client.PersonEnrichRequest{Codehost: username, Websets: both},
		client.IdempotencyKey("every-operation"))
	require.NoError(t, err)
	require.True(t, replayed.Replayed)
	require.Equal(t, enriched.Value, replayed.Value)

	items, err := api.EnrichPerson(ctx, client.PersonEnrichRequest{Items: []client.PersonEnrichItem{
		{Reference: "a", Codehost: username}, {Reference: "b"},
	}})
	require.NoError(t, err)
	requirePaid(t, items.Metadata, err)
	require.Equal(t, enriched.Value.Person.Codehost.UserID, items.Value.Results[0].Person.Codehost.UserID)
	require.NotEmpty(t, items.Value.Results[1].Detail)

	rows, err := client.BulkRows(client.PersonEnrichItem{Reference: "a", Codehost: username},
		client.PersonEnrichItem{Reference: "b"})
	require.NoError(t, err)
	job, err := api.SubmitBulk(ctx, rows, client.BulkOptions{Operation: client.BulkOperationPersonEnrich})
	require.NoError(t, err)
	done, err := api.WaitBulk(ctx, job.Value.JobID, nil)
	require.NoError(t, err)
	require.Equal(t, client.BulkJobStatusDone, done.Value.Status)
	var results []client.BulkResult
	for result, err := range api.BulkResults(ctx, job.Value.JobID) {
		require.NoError(t, err)
		results = append(results, result)
	}
	require.Len(t, results, 2)
	require.Equal(t, enriched.Value.Person.Codehost.UserID, results[0].Person.Codehost.UserID)
	require.NotEmpty(t, results[1].Detail)

	company := ""
	search := client.SearchRequest{
		Query: map[string]any{"exists": map[string]any{"field": "experience.company_url"}}, Size: new(int64(2)),
		Sort: []any{map[string]any{"profile.connections": "desc"}}, Source: []string{"experience"},
	}
	page, err := api.SearchPeople(ctx, search)
	require.NoError(t, err)
	requirePaid(t, page.Metadata, err)
	require.Len(t, page.Value.Results, 2)
	require.Equal(t, int64(2), page.Value.CreditsCharged)
	require.Equal(t, page.Quota.Limit, page.Quota.Used+page.Quota.Remaining)
	for _, e := range page.Value.Results[0].Experience {
		company = cmp.Or(company, e.CompanyURL)
	}
	search.DryRun = true
	dry, err := api.SearchPeople(ctx, search)
	require.NoError(t, err)
	require.Equal(t, int64(2), dry.DryRun.MaxCredits)
	explained, err := api.ExplainSearch(ctx, client.SearchRequest{Query: search.Query})
	require.NoError(t, err)
	require.NotEmpty(t, explained.Value.Statements)

	polltest.Until(t, 5*time.Minute, func() bool { // the projector counts them
		values, err := api.SuggestValues(ctx, "profile.location.country.keyword", "", 1)
		require.NoError(t, err)
		return len(values.Value.Values) == 1 && values.Value.Values[0].Count >= 3
	}, "no country is suggested")

	firms := client.SearchRequest{Query: map[string]any{"exists": map[string]any{"field": "profile.name"}}, Size: new(int64(40))}
	companies := 0
	for firm, err := range api.Companies(ctx, firms) {
		require.NoError(t, err)
		require.NotEmpty(t, firm.Profile.Name)
		companies++
	}
	require.Greater(t, companies, 1)
	explainedFirms, err := api.ExplainCompanySearch(ctx, firms)
	require.NoError(t, err)
	require.Equal(t, int64(40), explainedFirms.Value.MaxCredits)

	found, err := api.EnrichCompany(ctx, client.CompanyEnrichRequest{NetworkURL: company})
	require.NoError(t, err)
	requirePaid(t, found.Metadata, err)
	require.NotEmpty(t, found.Value.Company.Profile.Name)

	discovered, err := api.DiscoverPerson(ctx, client.PersonDiscoverRequest{Codehost: username})
	require.NoError(t, err)
	require.Equal(t, client.SocialPlatformCodehost, discovered.Value.Socials[0].Platform)

	identified, err := api.IdentifyPerson(ctx, client.PersonIdentifyRequest{
		Name: enriched.Value.Person.Codehost.FullName, Email: username + "@users.noreply.codehost.example",
	})
	requirePaid(t, identified.Metadata, err)
	require.Equal(t, username, identified.Value.Matches[0].CodehostUsername)

	feedback, err := api.SubmitFeedback(ctx, client.FeedbackRequest{
		RequestID: identified.RequestID, Verdict: client.FeedbackRequestVerdictRight,
	})
	require.NoError(t, err)
	require.Equal(t, feedback.RequestID, feedback.Value.FeedbackID)

	created, err := api.CreateContext(ctx, client.ContextRequest{
		Person: map[string]any{"code": "https://codehost.example/" + username},
		Schema: map[string]client.ContextField{"languages": {
			Type: client.ContextFieldTypeArray, Items: &client.ContextField{Type: client.ContextFieldTypeString},
		}},
		Confidence: new(0.5),
	})
	require.NoError(t, err)
	require.NotEmpty(t, created.Value.Profile.Confidence)
	require.Contains(t, created.Value.Profile.Custom, "languages")
	again, err := api.GetContext(ctx, created.Value.RequestID)
	require.NoError(t, err)
	require.Equal(t, created.Value, again.Value)

	codehostAddons := client.NetworkAddons{client.NetworkAddonCodehost, client.NetworkAddonPersonalEmail}
	one, err := api.GetNetworkPerson(ctx, client.GetNetworkPersonParams{Network: network, Addons: codehostAddons,
		MustHave: client.NetworkMustHaves{client.NetworkMustHaveFullName, client.NetworkMustHaveSkills}})
	require.NoError(t, err)
	requirePaid(t, one.Metadata, err)
	require.Equal(t, username, one.Value.Codehost.Username)
	many, err := api.PostNetworkPerson(ctx, client.NetworkPersonRequest{
		Network: client.Identifiers{network, "no-such-person"}, Addons: codehostAddons})
	require.NoError(t, err)
	requirePaid(t, many.Metadata, err)
	require.Equal(t, []client.NetworkPerson{one.Value, {}}, many.Value)

	addons := client.CodehostAddons{client.CodehostAddonNetwork}
	account, err := api.GetCodehostPerson(ctx, client.GetCodehostPersonParams{Codehost: username, Addons: addons})
	require.NoError(t, err)
	requirePaid(t, account.Metadata, err)
	require.Equal(t, network, account.Value.Network.Username)
	accounts, err := api.PostCodehostPerson(ctx, client.CodehostPersonRequest{
		Codehost: client.Identifiers{username, "no-such-person"}, Addons: addons})
	require.NoError(t, err)
	require.Equal(t, []client.CodehostPerson{account.Value, {}}, accounts.Value)
	costs, err := api.GetCodehostPerson(ctx, client.GetCodehostPersonParams{Codehost: username, DryRun: true})
	require.NoError(t, err)
	require.Positive(t, costs.DryRun.MaxCredits)

	usage, err := api.GetUsage(ctx)
	require.NoError(t, err)
	require.Positive(t, usage.Value.Credits.Used)
	require.NotEmpty(t, usage.Value.Endpoints)
	var cost *client.Response[client.UsageEvent]
	polltest.Until(t, time.Minute, func() bool { // the projector writes it
		cost, err = api.GetUsageEvent(ctx, items.RequestID)
		return err == nil
	}, "the call is not in the ledger: %v", func() any { return err })
	require.Equal(t, items.CreditsCharged, cost.Value.Credits)
	require.Equal(t, client.UsageEventOutcomeCharged, cost.Value.Outcome)
	require.Equal(t, int64(1), cost.Value.Requests)
	callSettings(t, api, key)
	description, err := api.GetOpenAPI(ctx)
	require.NoError(t, err)
	var described struct {
		Paths map[string]map[string]jsontext.Value `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(description.Value, &described))
	operations := map[string]bool{}
	for path, methods := range described.Paths {
		for method := range methods {
			operations[method+" "+path] = true
		}
	}
	delete(operations, "get /docs") // a page for browsers
	delete(operations, "post /mcp") // for clients of the Model Context Protocol
	require.Equal(t, operations, called)
}

// callSettings calls the operations on settings. The key is rotated.
func callSettings(t *testing.T, api *client.Client, key string) {
	t.Helper()
	ctx := t.Context()
	const address = "https://hooks.example.org/muster"
	set, err := api.SetWebhook(ctx, address)
	require.NoError(t, err)
	require.Equal(t, address, set.Value.URL)
	rotated, err := api.RotateWebhookSecret(ctx, client.RotateWebhookSecretRequest{OverlapSec: new(int64(0))})
	require.NoError(t, err)
	require.Contains(t, rotated.Value.Secrets[0].Secret, "whsec_")
	queued, err := api.TestWebhook(ctx)
	require.NoError(t, err)
	var delivery *client.Response[client.WebhookDelivery]
	polltest.Until(t, time.Minute, func() bool { // the sender attempts it, and the projector writes it
		delivery, err = api.GetWebhookDelivery(ctx, queued.Value.DeliveryID)
		return err == nil
	}, "the delivery is not known: %v", func() any { return err })
	require.NotEmpty(t, delivery.Value.Log)
	var listed []string
	for d, err := range api.WebhookDeliveries(ctx, client.ListWebhookDeliveriesParams{Limit: 1}) {
		require.NoError(t, err)
		listed = append(listed, d.DeliveryID)
	}
	require.Contains(t, listed, queued.Value.DeliveryID)
	resent, err := api.ResendWebhookDelivery(ctx, queued.Value.DeliveryID)
	require.NoError(t, err)
	require.Equal(t, queued.Value, resent.Value)
	settings, err := api.GetWebhook(ctx)
	require.NoError(t, err)
	require.Equal(t, address, settings.Value.URL)
	removed, err := api.DeleteWebhook(ctx)
	require.NoError(t, err)
	require.Empty(t, removed.Value.URL)
	parsed, err := event.ParseAPIKey(key)
	require.NoError(t, err)
	successor, err := api.RotateKey(ctx, parsed.ID(), client.RotateKeyRequest{OverlapSec: new(int64(3600))})
	require.NoError(t, err)
	require.Equal(t, parsed.ID(), successor.Value.ReplacedKeyID)
}

// tests/live.py calls every operation with the synchronous and the asynchronous Python client; test_client.py checks
// that the clients have a method for each.
func TestClients_PythonCallsEveryOperation(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "300")
	python, pythonPath := pythonClient(t)
	run := exec.CommandContext(t.Context(), python, "-m", "pytest", "-p", "no:cacheprovider", "tests/live.py")
	run.Dir = filepath.Join("..", "..", "query-api", "client-py")
	run.Env = append(environment(), "MUSTER_URL="+p.BaseURL, "KEY="+keyWithScopes(t, p), pythonPath)
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `\b14 passed\b`, string(out))
}

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
