package queryapi_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
)

const webhookPath = "/v1/webhook"

func (f *fixture) put(path, body string) response {
	f.t.Helper()
	return f.do(http.MethodPut, path, body, nil)
}

func TestWebhook_IsSetReadAndRemoved(t *testing.T) {
	f := start(t, nil)
	require.Equal(t, map[string]any{"url": nil, "secrets": []any{}}, f.get(webhookPath).json())

	const url = "https://hooks.example.org/muster?token=x"
	got := f.put(webhookPath, `{"url":"`+url+`"}`).json()
	require.Equal(t, url, got["url"])
	secrets := got["secrets"].([]any)
	require.Len(t, secrets, 1)
	require.True(t, strings.HasPrefix(secrets[0].(map[string]any)["secret"].(string), "whsec_"))

	delete(secrets[0].(map[string]any), "secret")
	require.Equal(t, got, f.get(webhookPath).json(), "the secret is shown once")
	again := f.put(webhookPath, `{"url":"https://other.example.org/"}`).json()
	require.Equal(t, secrets, again["secrets"], "an organization with a secret keeps it")
	require.Equal(t, "https://other.example.org/", again["url"])

	f.stop()
	restarted, err := queryapi.New(t.Context(), queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()},
		queryapi.Deps{Secret: testSecret(t), ClickHouse: f.conn, Bus: f.bus})
	require.NoError(t, err)
	f.service = restarted
	run(t, restarted)
	require.Equal(t, again, f.get(webhookPath).json(), "after a restart")

	removed := f.do(http.MethodDelete, webhookPath, "", nil).json()
	require.Equal(t, map[string]any{"url": nil, "secrets": secrets}, removed)
	require.Equal(t, removed, f.do(http.MethodDelete, webhookPath, "", nil).json())
	require.Equal(t, removed, f.get(webhookPath).json())
}

func TestWebhook_IsOfOwnOrganizationAndNeedsManage(t *testing.T) {
	f := start(t, nil)
	f.put(webhookPath, `{"url":"https://hooks.example.org/"}`).json()
	other, err := f.accounts.CreateOrganization(t.Context(), "Other", event.PlanDevelopment)
	require.NoError(t, err)
	_, key, err := f.accounts.CreateKey(t.Context(), other.ID, queryapi.KeyOptions{Scopes: []string{event.ScopeManage}})
	require.NoError(t, err)
	foreign := map[string]string{"Authorization": "Bearer " + key.Reveal()}
	got := waitForStatus(t, http.StatusOK, func() response { return f.do(http.MethodGet, webhookPath, "", foreign) })
	require.Equal(t, map[string]any{"url": nil, "secrets": []any{}}, got.json())

	plain := map[string]string{"Authorization": "Bearer " + f.newKey(queryapi.KeyOptions{Name: "default scopes"})}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		got := waitForStatus(t, http.StatusForbidden, func() response {
			return f.do(method, webhookPath, `{"url":"https://hooks.example.org/"}`, plain)
		})
		require.Contains(t, got.detail(), "lacks the scope manage")
	}
}

func TestWebhook_RejectsAddressesThatAreNotPublic(t *testing.T) {
	f := start(t, nil)
	for _, address := range []string{
		"", "hooks", "http://hooks.example.org/", "ftp://hooks.example.org/", "https://user@hooks.example.org/",
		"https://127.0.0.1/", "https://localhost/", "https://10.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/",
		"https://[::ffff:10.0.0.1]/", "https://2130706433/", "https://hooks.example.org/#x",
		"https://hooks.example.org/" + strings.Repeat("x", event.MaxWebhookURL),
	} {
		got := f.put(webhookPath, `{"url":"`+address+`"}`)
		require.Equal(t, http.StatusBadRequest, got.status, address)
		require.True(t, strings.HasPrefix(got.detail(), "url "), got.detail())
	}
	require.Equal(t, http.StatusBadRequest, f.put(webhookPath, `{}`).status)
	require.Nil(t, f.get(webhookPath).json()["url"])

	f = start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) {
		cfg.WebhookAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	f.put(webhookPath, `{"url":"http://127.0.0.1:9/"}`).json()
	require.Equal(t, http.StatusBadRequest, f.put(webhookPath, `{"url":"http://10.0.0.1/"}`).status)
}

func TestWebhook_FailedChangeGivesRetryAfter(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) { cfg.RequestTimeout = time.Nanosecond })
	state := event.WebhookSettings{OrganizationID: f.organization.ID, URL: "https://hooks.example.org/"}
	f.publish(event.TopicAccount, state.EventKey(), state) // else there is nothing to remove
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		got := waitForStatus(t, http.StatusServiceUnavailable, func() response {
			return f.do(method, webhookPath, `{"url":"https://hooks.example.org/"}`, nil)
		})
		require.Equal(t, "2", got.header.Get("Retry-After"))
		require.Contains(t, got.detail(), "settings cannot be changed at present")
	}
	require.Equal(t, state.URL, f.get(webhookPath).json()["url"])
}

// publish writes a message to a topic.
func (f *fixture) publish(topic, key string, state any) {
	f.t.Helper()
	value, err := json.Marshal(state)
	require.NoError(f.t, err)
	w := bus.NewWriter(f.bus)
	require.NoError(f.t, bus.WriteAll(f.t.Context(), w, []kafka.Message{{Topic: topic, Key: []byte(key), Value: value}}))
	require.NoError(f.t, w.Close())
}
