package queryapi_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// withLimits changes the limits of the fixture's organization.
func (f *fixture) withLimits(change func(*event.Limits)) {
	f.t.Helper()
	limits := event.DefaultLimits()
	limits.RequestsPerMinute = 60_000
	change(&limits)
	_, err := f.accounts.SetPlan(f.t.Context(), f.organization.ID, queryapi.Plan{Name: "test", Limits: limits})
	require.NoError(f.t, err)
	var got any
	polltest.Until(f.t, waitTimeout, func() bool {
		got = f.get("/v1/usage").json()["credits"].(map[string]any)["limit"]
		return got == float64(limits.Credits)
	}, "the limit is %v and not %d", func() any { return got }, limits.Credits)
}

func charged(t testing.TB, got response) int {
	t.Helper()
	require.Equal(t, 200, got.status, got.body)
	n, err := strconv.Atoi(got.header.Get("X-Credits-Charged"))
	require.NoError(t, err)
	return n
}

func (f *fixture) usage() (requests, credits float64) {
	f.t.Helper()
	u := f.get("/v1/usage").json()
	return u["requests"].(map[string]any)["used"].(float64), u["credits"].(map[string]any)["used"].(float64)
}

func TestCharges_CountReturnedRecords(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01", `"codehost_username":"octa"`))
	f.insert(record.KindCodehostPerson, codehostPerson(7, "octa", "2026-01-01"))
	f.insert(record.KindNetworkCompany,
		`{"company_id":"c1","last_updated":"2026-01-01","network_slug":"acme","name":"Acme"}`)
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = 100, 50 })
	for _, tc := range []struct {
		what     string
		got      response
		credits  int
		requests int
	}{
		{"a match in two websets", f.post(enrichPath, `{"codehost":"octa","websets":["codehost","network"]}`), 1, 1},
		{"a miss", f.post(enrichPath, `{"codehost":"missing"}`), 0, 1},
		{"a company", f.post(companyPath, `{"network_slug":"acme"}`), 1, 1},
		{"no company", f.post(companyPath, `{"network_slug":"nope"}`), 0, 1},
		{"a record", f.get(networkPath + "?network=octavia"), 1, 0},
		{"no record", f.get(networkPath + "?network=missing"), 0, 0},
		{"a list", f.post(codehostPath, `{"codehost":["octa","missing","7"]}`), 2, 0},
		{"a dry run", f.get(networkPath + "?network=octavia&dry_run=true"), 0, 0},
	} {
		require.Equal(t, tc.credits, charged(t, tc.got), tc.what)
	}
	requests, credits := f.usage()
	require.InDelta(t, 4, requests, 0)
	require.InDelta(t, 5, credits, 0)
	got := f.post(codehostPath, `{"codehost":["octa","missing"],"dry_run":true}`).json()
	require.Equal(t, map[string]any{"dry_run": true, "max_credits": 2., "credits_remaining": 95.}, got)
	require.Equal(t, 400, f.get(networkPath+"?network=octavia&dry_run=perhaps").status)
	require.Equal(t, 400, f.get(networkPath+"?network=https://evil.example/x&dry_run=true").status)
}

func TestRejections_ChargeNothing(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = 3, 2 })
	got := f.post(networkPath, `{"network":["octavia","a","b","c"]}`)
	require.Equal(t, 429, got.status)
	require.Contains(t, got.detail(), "3 credits are held")
	require.Contains(t, got.detail(), "up to 4")
	require.Contains(t, got.detail(), "upgrade the plan")
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Equal(t, 1, charged(t, f.post(networkPath, `{"network":["octavia","a","b"]}`)))
	for range 2 {
		require.Equal(t, 0, charged(t, f.post(enrichPath, `{"codehost":"missing"}`)))
	}
	got = f.post(enrichPath, `{"codehost":"missing"}`)
	require.Equal(t, 429, got.status)
	require.Contains(t, got.detail(), "monthly request limit exceeded")
	require.Equal(t, 422, f.post(enrichPath, `{}`).status, "input is checked first")
	require.Equal(t, 200, f.get(networkPath+"?network=octavia").status)
	requests, credits := f.usage()
	require.InDelta(t, 2, requests, 0)
	require.InDelta(t, 2, credits, 0)

	// A larger plan applies immediately, and the usage is kept.
	f.withLimits(func(l *event.Limits) { l.Credits, l.MonthlyRequests = 5, 3 })
	require.Equal(t, 200, f.post(enrichPath, `{"codehost":"missing"}`).status)
	_, credits = f.usage()
	require.InDelta(t, 2, credits, 0)

	f.withLimits(func(l *event.Limits) { l.RequestsPerMinute, l.Credits = 3, 6 })
	var refused response
	for i := range 4 {
		refused = f.get(networkPath + "?network=missing")
		require.Equal(t, "3", refused.header.Get("X-Ratelimit-Limit"))
		if refused.status == 429 {
			require.Positive(t, i)
			break
		}
	}
	require.Equal(t, 429, refused.status)
	require.Equal(t, "0", refused.header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, `"default";q=3;w=60`, refused.header.Get("Ratelimit-Policy"))
	require.Contains(t, refused.detail(), "3 requests a minute")
	wait, err := strconv.Atoi(refused.header.Get("Retry-After"))
	require.NoError(t, err)
	require.LessOrEqual(t, wait, 20)
	reset, err := strconv.ParseInt(refused.header.Get("X-Ratelimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, time.Now().Unix()+60, reset, 25)
	require.Equal(t, 429, f.get(networkPath).status, "the rate is checked before the input")
	require.Equal(t, 404, f.get("/v1/nothing").status)
}

func idempotent(key string) map[string]string { return map[string]string{"Idempotency-Key": key} }

func TestIdempotencyKey(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"),
		networkPerson("p2", "juno", "2026-01-01"))
	body := `{"network_username":"octavia","websets":["network"]}`
	first := f.do("POST", enrichPath, body, idempotent("k1"))
	require.Equal(t, 1, charged(t, first))
	require.Empty(t, first.header.Get("Idempotent-Replayed"))
	for _, again := range []string{body, ` {"websets": ["network"], "network_username": "octavia"}`} {
		got := f.do("POST", enrichPath, again, idempotent("k1"))
		require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
		require.Equal(t, 0, charged(t, got), "not charged again")
		require.Equal(t, first.body, got.body)
		require.NotEqual(t, first.header.Get("X-Request-Id"), got.header.Get("X-Request-Id"))
	}
	_, credits := f.usage()
	require.InDelta(t, 1, credits, 0)

	got := f.do("POST", enrichPath, `{"network_username":"juno","websets":["network"]}`, idempotent("k1"))
	require.Equal(t, 422, got.status)
	require.Contains(t, got.detail(), "another body or other parameters")
	require.Equal(t, 1, charged(t, f.do("POST", networkPath, `{"network":"octavia"}`, idempotent("k1"))),
		"another path")
	require.Equal(t, 422, f.do("POST", enrichPath, `{}`, idempotent("k2")).status)
	require.Equal(t, 1, charged(t, f.do("POST", enrichPath, body, idempotent("k2"))), "invalid input uses up no key")
	for _, bad := range []string{"two words", strings.Repeat("x", 256), "ü"} {
		require.Equal(t, 422, f.do("POST", enrichPath, body, idempotent(bad)).status, bad)
	}

	// Another organization with the same key and body: its own call.
	other, err := f.accounts.CreateOrganization(t.Context(), "Other", "default")
	require.NoError(t, err)
	_, secret, err := f.accounts.CreateKey(t.Context(), other.ID, queryapi.KeyOptions{})
	require.NoError(t, err)
	header := idempotent("k1")
	header["Authorization"] = "Bearer " + secret.Reveal()
	polltest.Until(t, waitTimeout, func() bool {
		got = f.do("POST", enrichPath, `{"network_username":"juno","websets":["network"]}`, header)
		return got.status != 401
	}, "the key is unknown")
	require.Equal(t, 1, charged(t, got))
	require.Contains(t, got.body, "juno")
	require.NotContains(t, got.body, "octavia")
	again := f.do("POST", enrichPath, `{"network_username":"juno","websets":["network"]}`, header)
	require.Equal(t, got.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))

	// Rejections are not stored.
	f.withLimits(func(l *event.Limits) { l.Credits = 3 })
	require.Equal(t, 429, f.do("POST", enrichPath, body, idempotent("k3")).status)
	f.withLimits(func(l *event.Limits) { l.Credits = 100 })
	require.Equal(t, 1, charged(t, f.do("POST", enrichPath, body, idempotent("k3"))))
}

func TestIdempotencyKey_ConcurrentCallsRunOnce(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	var wg sync.WaitGroup
	answers := make(chan response, 32)
	for range cap(answers) {
		wg.Go(func() {
			answers <- f.do("POST", networkPath, `{"network":"octavia"}`, idempotent("same"))
		})
	}
	wg.Wait()
	close(answers)
	total := 0
	for got := range answers {
		switch got.status {
		case 200:
			n, err := strconv.Atoi(got.header.Get("X-Credits-Charged"))
			require.NoError(t, err)
			total += n
		case 409:
			require.NotEmpty(t, got.header.Get("Retry-After"))
		default:
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	require.Equal(t, 1, total)
	_, credits := f.usage()
	require.InDelta(t, 1, credits, 0)
}
