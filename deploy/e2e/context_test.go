package e2e_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// receiver is a webhook endpoint that verifies signatures with a third-party library.
type receiver struct {
	*httptest.Server
	verify func([]byte, http.Header) error

	mu     sync.Mutex
	got    map[string][]string // bodies by webhook-id
	forged []error
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: make(map[string][]string)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil { // the sender was killed
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.verify(body, req.Header); err != nil {
			r.forged = append(r.forged, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		id := req.Header.Get("webhook-id")
		r.got[id] = append(r.got[id], string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) bodies(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[id]
}

// count returns the number of different deliveries.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// trust configures the receiver with the platform's secret.
func (r *receiver) trust(t *testing.T, p *platform) {
	t.Helper()
	var organizations []account
	p.musterJSON(t, &organizations, "account", "list", "--json")
	require.NotEmpty(t, organizations)
	var secrets []struct {
		Secret string `json:"secret"`
	}
	p.musterJSON(t, &secrets, "account", "webhook-secret", "show", organizations[0].OrganizationID, "--json")
	require.Len(t, secrets, 1, "muster up creates the development organization's secret")
	w, err := standardwebhooks.NewWebhook(secrets[0].Secret)
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify = w.Verify
}

type accepted struct {
	RequestID string `json:"request_id"`
	Status    string `json:"status"`
}

// One profile is returned at once, one arrives by a signed webhook, and so do many while the platform is killed at
// random points.
func TestContext_DeliversAllDespiteKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--sample", "200", "--webhook-allow", "127.0.0.0/8"}
	p := start(t, dir, args...)
	r := newReceiver(t)
	r.trust(t, p)
	username := strings.TrimSpace(p.sql(t,
		"SELECT codehost_username FROM codehost_people FINAL WHERE NOT deleted AND length(network_username_keys) > "+
			"0 ORDER BY user_id LIMIT 1")[0])
	api := p.api()

	person := "I met https://codehost.example/" + username + " yesterday."
	got := api.mustPost(t, "/v1/context",
		map[string]any{"person": person, "schema": map[string]any{"shoe_size": map[string]any{"type": "number"}}})
	require.Equal(t, http.StatusOK, got.status, "%s", got.body)
	require.Equal(t, "1", got.header.Get("X-Credits-Charged"))
	var profile struct {
		Codehost struct {
			Username string `json:"username"`
		} `json:"codehost"`
		Custom     map[string]any     `json:"custom"`
		Confidence map[string]float64 `json:"confidence"`
	}
	require.NoError(t, json.Unmarshal(got.body, &profile))
	require.Equal(t, username, profile.Codehost.Username)
	require.Equal(t, map[string]any{"shoe_size": nil}, profile.Custom)
	require.Contains(t, profile.Confidence, "custom.shoe_size")
	require.GreaterOrEqual(t, profile.Confidence["codehost.username"], 0.9)

	later := func(n int) (string, error) {
		a, err := api.post(t.Context(), "/v1/context", map[string]any{
			"person": fmt.Sprintf("%s Number %d.", person, n), "response_timeout_sec": 0,
			"webhook_url": r.URL + "/hook",
		})
		if err != nil {
			return "", err
		}
		var out accepted
		if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusAccepted {
			return "", fmt.Errorf("status %d: %s", a.status, a.body)
		}
		return out.RequestID, nil
	}
	id, err := later(0)
	require.NoError(t, err)
	eventually(t, 30*time.Second, func() (bool, string) { return len(r.bodies(id)) > 0, "no webhook for " + id })
	var stored answer
	eventually(t, 30*time.Second, func() (bool, string) { // the webhook may arrive before the outcome is stored
		stored = api.mustGet(t, "/v1/context/"+id, nil)
		return stored.status == http.StatusOK, fmt.Sprintf("status %d", stored.status)
	})
	require.Equal(t, string(stored.body), r.bodies(id)[0], "the body is the profile itself")

	// Everything is killed at once at random points, as in a machine failure.
	tasks, kills := 40, 1
	if !testing.Short() {
		tasks, kills = number(t, "MUSTER_E2E_CONTEXTS", 1000), 6
	}
	rng := rand.New(rand.NewPCG(seed(t), 3))
	var ids []string
	for k := range kills + 1 {
		before := r.count()
		for n := range tasks / (kills + 1) {
			id, err := later(n)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		if k == kills {
			break
		}
		// Kill after some of the deliveries.
		some := rng.IntN(tasks / (kills + 1))
		eventually(t, 5*time.Minute, func() (bool, string) {
			return r.count() >= before+some, fmt.Sprintf("%d of %d deliveries", r.count()-before, some)
		})
		p.kill()
		p = start(t, dir, args...)
		api = p.api()
	}
	missing := func() (n int) {
		for _, id := range ids {
			if len(r.bodies(id)) == 0 {
				n++
			}
		}
		return n
	}
	// Wait as long as it takes on this machine, but require progress.
	for left := missing(); left > 0; left = missing() {
		t.Logf("%d of %d deliveries missing", left, len(ids))
		eventually(t, time.Minute, func() (bool, string) {
			now := missing()
			return now <= max(0, left-50),
				fmt.Sprintf("%d of %d deliveries are missing, %d a minute ago", now, len(ids), left)
		})
	}
	r.mu.Lock()
	require.Empty(t, r.forged)
	require.Len(t, r.got, len(ids)+1, "duplicates have the same ID")
	again := 0
	for _, bodies := range r.got {
		again += len(bodies) - 1
	}
	r.mu.Unlock()
	t.Logf("%d deliveries, %d kills, %d duplicates", len(ids), kills, again)

	// Each is charged once, despite the kills.
	want := fmt.Sprint(len(ids) + 2)
	eventually(t, time.Minute, func() (bool, string) {
		var usage struct {
			Endpoints []struct {
				Endpoint string  `json:"endpoint"`
				Credits  float64 `json:"credits"`
			} `json:"endpoints"`
		}
		a := api.mustGet(t, "/v1/usage", nil)
		if err := json.Unmarshal(a.body, &usage); err != nil {
			return false, err.Error()
		}
		balance := 0
		for _, e := range usage.Endpoints {
			if e.Endpoint == "/v1/context" {
				balance += int(e.Credits)
			}
		}
		counted := strings.TrimSpace(p.sql(t,
			"SELECT sum(credits) FROM usage_events FINAL WHERE endpoint = '/v1/context'")[0])
		return counted == want && itoa(balance) == want,
			fmt.Sprintf("%s credits in the ledger, %d in the balance, %s expected", counted, balance, want)
	})
}
