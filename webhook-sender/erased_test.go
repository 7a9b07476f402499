package webhook_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
	webhook "muster/webhook-sender"
)

func erase(t *testing.T, set *suppress.Set, typ suppress.Type, value string) {
	t.Helper()
	entry, err := json.Marshal(suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026", Key: set.Key().ID()})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(typ, value).String()), entry))
}

// A delivery that waits for a retry when its person is erased is dead-lettered without its body and
// not sent again. So is one that arrives later.
func TestService_DeadLettersErasedPersonWithoutBody(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusInternalServerError))
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	c.startWith(t, webhook.Deps{Suppressed: set}, nil)
	about := func(id, email string) event.WebhookTask {
		out := task(id, "org1", r.URL)
		out.Body = []byte(`{"full_name": "Jane Doe", "personal_email": "` + email + `"}`)
		return out
	}
	// These bodies name no person; the task lists the identities of their sources. They use another
	// endpoint, so that no breaker opens.
	builtFrom := func(id string, records ...string) event.WebhookTask {
		out := task(id, "org1", r.URL+"/made")
		out.Body, out.Identities = []byte(`{"custom": {"team": "Harbour"}}`), records
		return out
	}
	c.send(t, about("waits", "ada@example.com"), about("stays", "bob@example.com"),
		builtFrom("made", "codehost-person 7", "network-person p1"),
		builtFrom("made-stays", "codehost-person 1", "network-person 7", "company p1"))
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "waits", 1)[0].Status)
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "made", 1)[0].Status)
	erase(t, set, suppress.Email, "ada@example.com")
	erase(t, set, suppress.ProfileID, "p1")
	c.send(t, about("comes", "Ada@example.com"), builtFrom("made-comes", "network-person p1"))

	for id, n := range map[string]int{"waits": 2, "made": 2, "comes": 1, "made-comes": 1} {
		last := c.awaitAttempts(t, id, n)[n-1]
		require.Equal(t, event.WebhookDead, last.Status, id)
		require.Equal(t, "subject_erased", last.Error, id)
	}
	require.Len(t, r.requestsFor("waits"), 1)
	require.Len(t, r.requestsFor("made"), 1)
	require.Empty(t, r.requestsFor("comes"))
	require.Empty(t, r.requestsFor("made-comes"))
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "made-stays", 1)[0].Status)
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "stays", 1)[0].Status)
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 4 }, 20*time.Second, 5*time.Millisecond)
	for _, m := range c.deadLetters() {
		require.Equal(t, "subject_erased", headerValue(m, event.HeaderDeadPrefix+"code"))
		_, hit := set.FindInDocument(identity.Default(), m.Value)
		require.False(t, hit)
		var task event.WebhookTask
		if json.Unmarshal(m.Value, &task) == nil {
			require.Empty(t, task.Body)
		}
	}
}

// Both waiting and arriving deliveries of a stopped endpoint have dead letters without a body, if
// the person was erased.
func TestService_StoppedEndpointDeadLetterOfErasedPersonHasNoBody(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	var gone atomic.Bool
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	c.startWith(t, webhook.Deps{Suppressed: set}, nil)
	about := func(id, email string) event.WebhookTask {
		out := task(id, "org1", r.URL)
		out.Body = []byte(`{"full_name": "Jane Doe", "personal_email": "` + email + `"}`)
		return out
	}
	c.send(t, about("waits", "ada@example.com"))
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "waits", 1)[0].Status)
	erase(t, set, suppress.Email, "ada@example.com")
	gone.Store(true)
	c.send(t, about("gone", "bob@example.com"))
	require.Equal(t, "endpoint_stopped", c.awaitAttempts(t, "waits", 2)[1].Error)
	c.send(t, about("comes", "ada@example.com"))
	require.Equal(t, "endpoint_stopped", c.awaitAttempts(t, "comes", 1)[0].Error)
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 3 }, 20*time.Second, 5*time.Millisecond)
	withBody := 0
	for _, m := range c.deadLetters() {
		if len(m.Value) == 0 {
			continue
		}
		withBody++
		var task event.WebhookTask
		require.NoError(t, json.Unmarshal(m.Value, &task))
		require.Equal(t, "gone", task.DeliveryID)
	}
	require.Equal(t, 1, withBody)
}

func TestService_InactiveOrganizationGetsNothing(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	set := func(active bool) {
		o := event.Organization{ID: "org1", Name: "One", Active: active, CreatedAt: time.Now()}
		value, err := json.Marshal(o)
		require.NoError(t, err)
		require.NoError(t, bus.WriteAll(t.Context(), c.writer,
			[]kafka.Message{{Topic: event.TopicAccount, Key: []byte(o.EventKey()), Value: value}}))
	}
	r := newReceiver(t, status(http.StatusInternalServerError))
	c.start(t, nil)
	c.send(t, task("waits", "org1", r.URL))
	require.Equal(t, event.WebhookPending, c.awaitAttempts(t, "waits", 1)[0].Status)
	set(false)
	last := c.awaitAttempts(t, "waits", 2)[1]
	require.Equal(t, event.WebhookDead, last.Status)
	require.Equal(t, "organization_inactive", last.Error)
	require.Len(t, r.requestsFor("waits"), 1)
	require.Eventually(t, func() bool { return len(c.deadLetters()) == 1 }, 20*time.Second, 5*time.Millisecond)
	require.Empty(t, c.deadLetters()[0].Value)
	require.Equal(t, "organization_inactive", headerValue(c.deadLetters()[0], event.HeaderDeadPrefix+"code"))

	op := webhook.NewOperator(webhook.OperatorConfig{Bus: c.bus})
	attempt, err := op.Test(t.Context(), "org1", r.URL)
	require.NoError(t, err)
	require.Equal(t, "organization_inactive", attempt.Error)

	// The task is still in the log, so it can be resent after reactivation.
	set(true)
	require.Eventually(t, func() bool {
		attempt, err := op.Test(t.Context(), "org1", r.URL+"/other")
		return err == nil && attempt.Error == "status"
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, op.Resend(t.Context(), "waits", last.TaskPartition, last.TaskOffset))
	require.Equal(t, "status", c.awaitAttempts(t, "waits", 3)[2].Error)
}
