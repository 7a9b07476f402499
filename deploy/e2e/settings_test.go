package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// An organization sets its endpoint, tests it and rotates its secret. It is told when a person whose record it received
// is erased, also if muster is killed before it could tell.
func TestErase_NotifiesReceiversDespiteKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := append(fixedPorts(t), "--sample", "200", "--webhook-allow", "127.0.0.0/8")
	p := start(t, dir, args...)
	r := newReceiver(t)
	r.trust(t, p)
	api := p.api()
	api.key = keyWithScopes(t, p)
	settings := func(method, path, body string) answer {
		t.Helper()
		got, err := api.do(t.Context(), method, path, nil, []byte(body))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		return got
	}
	settings(http.MethodPut, "/v1/webhook", `{"url":"`+r.URL+`/events?token=t"}`)

	// With two secrets, deliveries have a signature of each.
	var rotated struct {
		Secrets []struct{ Secret string } `json:"secrets"`
	}
	require.NoError(t, json.Unmarshal(settings(http.MethodPost, "/v1/webhook/secret/rotate",
		`{"overlap_sec":3600}`).body, &rotated, json.MatchCaseInsensitiveNames(true)))
	require.Len(t, rotated.Secrets, 2)
	added, err := standardwebhooks.NewWebhook(rotated.Secrets[0].Secret)
	require.NoError(t, err)
	r.mu.Lock()
	old := r.verify
	r.verify = func(body []byte, h http.Header) error {
		return errors.Join(old(body, h), added.Verify(body, h))
	}
	r.mu.Unlock()
	// The sender may not have read the new secret yet.
	var tests []string
	eventuallyEvery(t, time.Minute, 500*time.Millisecond, func() (bool, string) {
		for _, id := range tests {
			if bodies := r.bodies(id); len(bodies) > 0 {
				require.Contains(t, bodies[0], `"type":"webhook.test"`)
				return true, ""
			}
		}
		var queued struct {
			DeliveryID string `json:"delivery_id"`
		}
		require.NoError(t, json.Unmarshal(settings(http.MethodPost, "/v1/webhook/test", "{}").body, &queued))
		tests = append(tests, queued.DeliveryID)
		return false, "no test event with both signatures"
	})

	first := api.mustPost(t, "/v1/person/enrich", map[string]any{"codehost": "octavia", "websets": []string{"codehost",
		"network"}})
	page := api.mustPost(t, "/v1/person/search", map[string]any{"query": map[string]any{"match_all": map[string]any{}},
		"size": 3})
	require.Equal(t, http.StatusOK, first.status, "%s", first.body)
	request := first.header.Get("X-Request-Id")
	projected := func(id string) {
		t.Helper()
		eventually(t, time.Minute, func() (bool, string) {
			rows := p.sql(t, "SELECT count() > 0 FROM disclosures WHERE request_id = '"+id+"'")
			return rows[0] == "1", "the disclosure is not stored"
		})
	}
	projected(request)
	out := p.muster(t, "erase", "codehost_username=octavia")
	require.Contains(t, out, "organizations notified: 1\n")
	eventually(t, time.Minute, func() (bool, string) { return len(erasedRequests(t, r)) > 0, "no notification" })
	require.Contains(t, erasedRequests(t, r), request)
	requireForgotten(t, p, request)
	r.mu.Lock()
	for _, bodies := range r.got {
		require.NotContains(t, strings.Join(bodies, ""), "octavia")
	}
	require.LessOrEqual(t, len(r.forged), 50, "deliveries before the sender knew the new secret")
	r.mu.Unlock()

	// muster is killed while the receiver is down, and delivers when both are back.
	var results struct {
		Results []struct {
			ProfileID string `json:"profile_id"`
		} `json:"results"`
	}
	require.NoError(t, json.Unmarshal(page.body, &results))
	request = page.header.Get("X-Request-Id")
	projected(request)
	r.mu.Lock()
	verify := r.verify
	r.verify = func([]byte, http.Header) error { return errors.New("down") }
	r.mu.Unlock()
	before := erasedRequests(t, r)
	p.muster(t, "erase", "profile_id="+results.Results[1].ProfileID, "--timeout", "0")
	p.kill()
	r.mu.Lock()
	r.verify = verify
	r.mu.Unlock()
	p = start(t, dir, args...)
	eventually(t, 2*time.Minute, func() (bool, string) {
		return len(erasedRequests(t, r)) > len(before), "no notification after the kill"
	})
	require.Contains(t, erasedRequests(t, r), request)
	// Of the three requests, the first is that of the sample data.
	eventuallyEvery(t, 2*time.Minute, time.Second, func() (bool, string) {
		var all []struct {
			State    string   `json:"state"`
			Notified []string `json:"notified"`
		}
		p.musterJSON(t, &all, "erase", "list", "--json")
		return len(all) == 3 && all[2].State == "suppressed" && len(all[2].Notified) == 1, fmt.Sprintf("%+v", all)
	})
	p.stop(t)
}

// keyWithScopes creates a key of the only organization, with all scopes, and waits until the service accepts it.
func keyWithScopes(t *testing.T, p *platform) string {
	t.Helper()
	var organizations []account
	p.musterJSON(t, &organizations, "account", "list", "--json")
	var created account
	p.musterJSON(t, &created, "account", "key", "create", organizations[0].OrganizationID, "--json", "--scopes",
		strings.Join(event.Scopes(), ","))
	require.NotEmpty(t, created.Key)
	a := p.api()
	a.key = created.Key
	eventually(t, time.Minute, func() (bool, string) {
		return a.mustGet(t, "/v1/usage", nil).status == http.StatusOK, "the key is not accepted yet"
	})
	return created.Key
}

// erasedRequests returns the request IDs of all notifications of erasures, each once.
func erasedRequests(t *testing.T, r *receiver) (requests []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, bodies := range r.got {
		for _, body := range bodies {
			var e struct {
				Type string `json:"type"`
				Data struct {
					RequestIDs []string `json:"request_ids"`
				} `json:"data"`
			}
			require.NoError(t, json.Unmarshal([]byte(body), &e), body)
			if e.Type != event.WebhookPersonErased {
				continue
			}
			require.True(t, strings.HasPrefix(id, "erased-"), id)
			requests = append(requests, e.Data.RequestIDs...)
		}
	}
	slices.Sort(requests)
	return slices.Compact(requests)
}

// requireForgotten requires that no stored disclosure leads from a call to an erased person.
func requireForgotten(t *testing.T, p *platform, request string) {
	t.Helper()
	rows := p.sql(t, "SELECT count() FROM disclosures WHERE request_id = '"+request+"'")
	require.Equal(t, "0", rows[0])
}
