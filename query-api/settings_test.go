package queryapi_test

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
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

func TestWebhook_ConcurrentFirstCallsShowValidSecrets(t *testing.T) {
	f := start(t, nil)
	shown := make([][]any, 4)
	var wg sync.WaitGroup
	for i := range shown {
		wg.Go(func() {
			got := f.put(webhookPath, `{"url":"https://hooks.example.org/"}`)
			var settings map[string]any
			if err := json.Unmarshal([]byte(got.body), &settings); err != nil {
				t.Errorf("response %q: %v", got.body, err)
			}
			shown[i], _ = settings["secrets"].([]any)
		})
	}
	wg.Wait()
	valid := make(map[any]bool)
	for _, s := range f.get(webhookPath).json()["secrets"].([]any) {
		valid[s.(map[string]any)["id"]] = true
	}
	texts := 0
	for _, secrets := range shown {
		for _, s := range secrets {
			if s := s.(map[string]any); s["secret"] != nil {
				texts++
				require.True(t, valid[s["id"]], "a secret that was shown is valid")
			}
		}
	}
	require.Equal(t, len(valid), texts, "each is shown once")
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
		"https://127.0.0.1/", "https://localhost/", "https://10.0.0.1/",
		"https://169.254.169.254/latest", "https://[::1]/",
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
	polltest.Until(t, waitTimeout, func() bool { return f.get(webhookPath).json()["url"] == state.URL }, "the settings")
	key, _, err := f.accounts.CreateKey(t.Context(), f.organization.ID, queryapi.KeyOptions{})
	require.NoError(t, err)
	for _, path := range []string{webhookPath + "/secret/rotate", webhookPath + "/test",
		"/v1/keys/" + key.ID + "/rotate"} {
		got := waitForStatus(t, http.StatusServiceUnavailable, func() response { return f.post(path, `{}`) })
		require.Equal(t, "2", got.header.Get("Retry-After"), path)
	}
	for method, body := range map[string]string{
		http.MethodPut: `{"url":"https://hooks.example.org/"}`, http.MethodDelete: "",
	} {
		got := waitForStatus(t, http.StatusServiceUnavailable, func() response {
			return f.do(method, webhookPath, body, nil)
		})
		require.Equal(t, "2", got.header.Get("Retry-After"))
		require.Contains(t, got.detail(), "settings cannot be changed at present")
	}
}

// publish writes a message to a topic.
func (f *fixture) publish(topic, key string, state any) {
	f.t.Helper()
	value, err := json.Marshal(state)
	require.NoError(f.t, err)
	w := bus.NewWriter(f.bus)
	m := kafka.Message{Topic: topic, Key: []byte(key), Value: value}
	require.NoError(f.t, bus.WriteAll(f.t.Context(), w, []kafka.Message{m}))
	require.NoError(f.t, w.Close())
}

func TestWebhookSecret_RotationKeepsTwoValid(t *testing.T) {
	f := start(t, nil)
	rotate := func(body string, header map[string]string) response {
		return f.do(http.MethodPost, webhookPath+"/secret/rotate", body, header)
	}
	secretOf := func(settings map[string]any, i int) map[string]any {
		return settings["secrets"].([]any)[i].(map[string]any)
	}
	first := rotate(`{}`, nil).json()
	require.Len(t, first["secrets"], 1, "the first one")
	require.NotEmpty(t, secretOf(first, 0)["secret"])

	second := rotate(`{"overlap_sec":3600}`, idempotent("k"))
	require.Equal(t, second.body, rotate(`{"overlap_sec":3600}`, idempotent("k")).body, "a repeated call")
	require.Equal(t, http.StatusUnprocessableEntity, rotate(`{"overlap_sec":0}`, idempotent("k")).status)
	both := second.json()
	require.Len(t, both["secrets"], 2)
	require.NotEqual(t, secretOf(first, 0)["secret"], secretOf(both, 0)["secret"])
	require.Equal(t, secretOf(first, 0)["id"], secretOf(both, 1)["id"])
	require.Nil(t, secretOf(both, 1)["secret"])
	ends, err := time.Parse(time.RFC3339Nano, secretOf(both, 1)["expires_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), ends, time.Minute)

	got := rotate(`{}`, nil)
	require.Equal(t, http.StatusConflict, got.status)
	require.Contains(t, got.detail(), "two webhook secrets are valid")
	last := rotate(`{"overlap_sec":0}`, nil).json()
	require.Len(t, last["secrets"], 1)
	for _, seconds := range []string{"-1", "604801"} {
		require.Equal(t, http.StatusBadRequest, rotate(`{"overlap_sec":`+seconds+`}`, nil).status)
	}
}

// tasks calls each with the queued deliveries.
func (f *fixture) tasks(each func(kafka.Message, event.WebhookTask)) {
	f.t.Helper()
	topics := []string{event.TopicWebhookTask}
	require.NoError(f.t, bus.Scan(f.t.Context(), f.bus, topics, func(m kafka.Message) error {
		var task event.WebhookTask
		if err := json.Unmarshal(m.Value, &task); err != nil {
			return err
		}
		each(m, task)
		return nil
	}))
}

// attempted stores a delivery on the topic of tasks and its attempts.
func (f *fixture) attempted(id, organization string, status event.WebhookStatus, created time.Time) {
	f.t.Helper()
	task := event.WebhookTask{
		DeliveryID: id, OrganizationID: organization, URL: "https://hooks.example.org/muster", RequestID: exampleJob,
		Body: []byte(`{"a":1}`), CreatedAt: created,
	}
	key, _, _, err := task.Message()
	require.NoError(f.t, err)
	f.publish(event.TopicWebhookTask, key, task)
	var partition int
	var offset int64
	f.tasks(func(at kafka.Message, stored event.WebhookTask) {
		if stored.DeliveryID == id {
			partition, offset = at.Partition, at.Offset
		}
	})
	to, err := task.Endpoint()
	require.NoError(f.t, err)
	var rows readmodel.WebhookBatch
	for n := range 2 {
		a := event.WebhookAttempt{
			DeliveryID: id, Attempt: n + 1, EndpointID: to.ID(), OrganizationID: organization,
			RequestID: task.RequestID, Address: to.Address, At: created.Add(time.Duration(n) * time.Second),
			DurationMicros: 12_500, HTTPStatus: 503,
			Status: event.WebhookPending, Error: "http_status", Response: "busy", NextAt: created.Add(time.Minute),
			CreatedAt: created, TaskPartition: partition, TaskOffset: offset,
		}
		if n == 1 {
			a.Status = status
		}
		if a.Status == event.WebhookDelivered {
			a.HTTPStatus, a.Error, a.Response, a.NextAt = 204, "", "", time.Time{}
		}
		rows.Add(&a, readmodel.Position{Topic: event.TopicWebhook, Offset: int64(n)})
	}
	require.NoError(f.t, readmodel.InsertWebhooks(f.t.Context(), f.conn, id, &rows))
}

func TestWebhookDeliveries_ArePagedReadAndSentAgain(t *testing.T) {
	f := start(t, nil)
	const deliveries = webhookPath + "/deliveries"
	now := time.Now().UTC().Truncate(time.Second)
	f.attempted("other", "another-organization", event.WebhookDead, now)
	for i, status := range []event.WebhookStatus{event.WebhookDelivered, event.WebhookDead, event.WebhookPending} {
		f.attempted("d-"+string(status), f.organization.ID, status, now.Add(-time.Duration(i)*time.Hour))
	}
	ids := func(query string) (out []string) {
		for range 10 {
			page := f.get(deliveries + "?" + query).json()
			for _, d := range page["deliveries"].([]any) {
				out = append(out, d.(map[string]any)["delivery_id"].(string))
			}
			if page["next_cursor"] == nil {
				return out
			}
			query = "limit=1&cursor=" + page["next_cursor"].(string)
		}
		t.Fatal("the pages do not end")
		return nil
	}
	require.Equal(t, []string{"d-delivered", "d-dead", "d-pending"}, ids("limit=1"))
	require.Equal(t, []string{"d-delivered", "d-dead", "d-pending"}, ids(""))
	require.Equal(t, []string{"d-dead"}, ids("status=dead"))
	for _, bad := range []string{"limit=0", "limit=101", "status=x", "cursor=x", "cursor=OTk5.", "cursor=" +
		base64.RawURLEncoding.EncodeToString([]byte("99999999999999999.a"))} {
		require.Equal(t, http.StatusBadRequest, f.get(deliveries+"?"+bad).status, bad)
	}

	got := f.get(deliveries + "/d-pending").json()
	log := got["log"].([]any)
	require.Len(t, log, 2)
	require.Equal(t, map[string]any{
		"attempt": 1., "at": log[0].(map[string]any)["at"], "duration_ms": 12.5, "http_status": 503.,
		"error": "http_status", "response": "busy",
	}, log[0])
	require.Equal(t, "https://hooks.example.org:443/muster", got["address"])
	require.Equal(t, 2., got["attempts"])

	resend := func(id string) response { return f.post(deliveries+"/"+id+"/resend", "") }
	path := deliveries + "/d-dead/resend"
	require.Equal(t, map[string]any{"delivery_id": "d-dead"}, f.do(http.MethodPost, path, "",
		idempotent("resend")).json())
	require.Equal(t, "true", f.do(http.MethodPost, path, "", idempotent("resend")).header.Get("Idempotent-Replayed"))
	var again []event.WebhookTask
	f.tasks(func(_ kafka.Message, task event.WebhookTask) {
		if task.Round != "" {
			again = append(again, task)
		}
	})
	require.Len(t, again, 1)
	require.Equal(t, "d-dead", again[0].DeliveryID)
	require.Equal(t, []byte(`{"a":1}`), again[0].Body)
	for _, id := range []string{"other", "absent", "a%20b"} {
		require.Equal(t, http.StatusNotFound, f.get(deliveries+"/"+id).status, id)
		require.Equal(t, http.StatusNotFound, resend(id).status, id)
	}

	var rows readmodel.WebhookBatch
	rows.Add(&event.WebhookAttempt{DeliveryID: "gone", Attempt: 1, OrganizationID: f.organization.ID, At: now,
		CreatedAt: now, Status: event.WebhookDead, TaskOffset: 1 << 40}, readmodel.Position{Topic: event.TopicWebhook})
	require.NoError(t, readmodel.InsertWebhooks(t.Context(), f.conn, "gone", &rows))
	gone := resend("gone")
	require.Equal(t, http.StatusNotFound, gone.status)
	require.Contains(t, gone.detail(), "no longer stored")
}

func TestWebhookTest_IsQueuedForTheEndpoint(t *testing.T) {
	f := start(t, nil)
	got := f.post(webhookPath+"/test", "")
	require.Equal(t, http.StatusConflict, got.status)
	require.Contains(t, got.detail(), "PUT /v1/webhook")
	f.put(webhookPath, `{"url":"https://hooks.example.org/"}`).json()
	for body, detail := range map[string]string{
		`{"a":1}`: `unknown field "a": none are allowed here`, `[]`: "must be an object", `{`: "not valid JSON",
	} {
		for _, path := range []string{webhookPath + "/test", webhookPath + "/deliveries/x/resend"} {
			refused := f.post(path, body)
			require.Equal(t, http.StatusBadRequest, refused.status, path)
			require.Contains(t, refused.detail(), detail, path)
		}
		require.Equal(t, http.StatusBadRequest, f.do(http.MethodDelete, webhookPath, body, nil).status)
	}
	id := f.do(http.MethodPost, webhookPath+"/test", "", idempotent("k")).json()["delivery_id"]
	require.Equal(t, id, f.do(http.MethodPost, webhookPath+"/test", "{}", idempotent("k")).json()["delivery_id"])
	var tasks []event.WebhookTask
	f.tasks(func(_ kafka.Message, task event.WebhookTask) { tasks = append(tasks, task) })
	require.Len(t, tasks, 1)
	require.Equal(t, id, tasks[0].DeliveryID)
	require.Equal(t, "https://hooks.example.org/", tasks[0].URL)
	var body map[string]any
	require.NoError(t, json.Unmarshal(tasks[0].Body, &body))
	require.Equal(t, "webhook.test", body["type"])
}

func TestRotateKey_KeepsTheOldKeyForTheOverlap(t *testing.T) {
	f := start(t, nil)
	expires := time.Now().Add(30 * 24 * time.Hour)
	create := func(options queryapi.KeyOptions) (event.Key, event.APIKey) {
		k, secret, err := f.accounts.CreateKey(t.Context(), f.organization.ID, options)
		require.NoError(t, err)
		waitForStatus(t, http.StatusForbidden, func() response { // the service has read the key
			header := map[string]string{"Authorization": "Bearer " + secret.Reveal()}
			return f.do(http.MethodGet, "/v1/usage", "", header)
		})
		return k, secret
	}
	rotate := func(id, body string, header map[string]string) response {
		return f.do(http.MethodPost, "/v1/keys/"+id+"/rotate", body, header)
	}
	k, secret := create(queryapi.KeyOptions{Name: "ci", Scopes: []string{event.ScopeEnrich}, ExpiresAt: expires})
	whole, private := secret.Reveal(), secret.Reveal()[len("mk_live_12345678_"):]
	for _, id := range []string{whole, whole[:40], private} {
		refused := rotate(id, `{}`, nil)
		require.Equal(t, http.StatusNotFound, refused.status)
		require.Contains(t, refused.detail(), strconv.Quote(id[:8]+"..."))
		require.NotContains(t, refused.body, private[8:16])
	}
	for _, path := range []string{"/v1/bulk/" + whole, "/v1/bulk/" + whole + "/results", "/v1/context/" + whole,
		"/v1/webhook/deliveries/" + whole, "/v1/usage/" + whole, "/v1/usage?" + whole + "=1"} {
		refused := f.get(path)
		require.GreaterOrEqual(t, refused.status, http.StatusBadRequest, path)
		require.NotContains(t, refused.body, private[:8], path)
	}
	require.NotContains(t, f.post("/v1/webhook/deliveries/"+whole+"/resend", "").body, private[:8])
	first := rotate(k.ID, `{"overlap_sec":3600}`, idempotent("k"))
	got := first.json()
	require.Equal(t, first.body, rotate(k.ID, `{"overlap_sec":3600}`, idempotent("k")).body, "a lost response")
	require.Equal(t, http.StatusUnprocessableEntity, rotate(k.ID, `{"overlap_sec":3601}`, idempotent("k")).status)
	require.Equal(t, k.ID, got["replaced_key_id"])
	require.Equal(t, []any{"enrich"}, got["scopes"])
	require.Equal(t, "ci", got["name"])
	at := func(name string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, got[name].(string))
		require.NoError(t, err)
		return at
	}
	require.WithinDuration(t, time.Now().Add(time.Hour), at("replaced_expires_at"), time.Minute)
	require.WithinDuration(t, expires, at("expires_at"), time.Second, "a rotation does not prolong a key")
	for _, key := range []string{secret.Reveal(), got["key"].(string)} {
		require.Equal(t, http.StatusOK, f.do(http.MethodPost, enrichPath, `{"codehost":"absent"}`,
			map[string]string{"Authorization": "Bearer " + key}).status)
	}
	again := rotate(k.ID, `{}`, nil)
	require.Equal(t, http.StatusConflict, again.status, "a leaked key cannot be rotated again and again")
	require.Contains(t, again.detail(), got["key_id"])

	// Another replica has just created a successor, and not yet replaced the key.
	k, _ = create(queryapi.KeyOptions{Scopes: []string{event.ScopeEnrich}})
	create(queryapi.KeyOptions{Scopes: []string{event.ScopeEnrich}, Replaces: k.ID})
	again = rotate(k.ID, `{}`, nil)
	require.Equal(t, http.StatusConflict, again.status, "%s", again.body)
	require.Contains(t, again.detail(), "another call rotates this key")

	// Another key with the scope keeps its access, and no one loses it at once.
	other, otherSecret := create(queryapi.KeyOptions{Scopes: []string{event.ScopeManage}})
	require.Equal(t, http.StatusForbidden, rotate(other.ID, `{}`, nil).status)
	require.Equal(t, http.StatusBadRequest, rotate(got["key_id"].(string), `{"overlap_sec":3599}`, nil).status)
	require.Equal(t, http.StatusBadRequest, rotate(got["key_id"].(string), `{"overlap_sec":2592001}`, nil).status)
	itself := map[string]string{"Authorization": "Bearer " + otherSecret.Reveal()}
	require.Equal(t, http.StatusOK, rotate(other.ID, `{}`, itself).status)

	// A rotation does not give a scope that the caller lacks.
	analyst, _ := create(queryapi.KeyOptions{Scopes: []string{event.ScopeAnalyze}})
	_, settings := create(queryapi.KeyOptions{Scopes: []string{event.ScopeManage}})
	plain := map[string]string{"Authorization": "Bearer " + settings.Reveal()}
	refused := rotate(analyst.ID, `{}`, plain)
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, refused.detail(), "the scope manage or analyze")
	_, both := create(queryapi.KeyOptions{Scopes: []string{event.ScopeManage, event.ScopeAnalyze}})
	plain["Authorization"] = "Bearer " + both.Reveal()
	require.Equal(t, http.StatusOK, rotate(analyst.ID, `{}`, plain).status)

	revoked, _ := create(queryapi.KeyOptions{Scopes: []string{event.ScopeEnrich}})
	_, err := f.accounts.RevokeKey(t.Context(), revoked.ID)
	require.NoError(t, err)
	waitForStatus(t, http.StatusNotFound, func() response { return rotate(revoked.ID, `{}`, nil) })
	foreign, err := f.accounts.CreateOrganization(t.Context(), "Other", event.PlanDevelopment)
	require.NoError(t, err)
	theirs, _, err := f.accounts.CreateKey(t.Context(), foreign.ID, queryapi.KeyOptions{})
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, rotate(theirs.ID, `{}`, nil).status)
	require.Equal(t, http.StatusNotFound, rotate("absent", `{}`, nil).status)
}
