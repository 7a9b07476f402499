package webhook_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// Receivers of every kind answer over real HTTP, concurrently.
func TestService_ResponseDecidesDeliveryState(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.createSecret(t, "org1")
	kinds := map[string]struct {
		answer http.HandlerFunc
		status event.WebhookStatus
		code   int
		fault  string
		wait   time.Duration // before the next attempt
	}{
		"200": {status(200), event.WebhookDelivered, 200, "", 0},
		"204": {status(204), event.WebhookDelivered, 204, "", 0},
		"301": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusMovedPermanently)
		}, event.WebhookPending, 301, "redirect", 5 * time.Second},
		"410": {status(410), event.WebhookDead, 410, "gone", 0},
		"429": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(429)
		}, event.WebhookPending, 429, "status", 2 * time.Minute},
		"500": {status(500), event.WebhookPending, 500, "status", 5 * time.Second},
		"nothing": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, event.WebhookPending, 0, "timeout", 5 * time.Second},
		"a_byte_a_second": {func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		}, event.WebhookDelivered, 200, "", 0},
		"10_MB": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			_, _ = io.WriteString(w, strings.Repeat("0123456789", 1<<20))
		}, event.WebhookDelivered, 200, "", 0},
		"a_reset": {func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		}, event.WebhookPending, 0, "reset", 5 * time.Second},
	}
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		kinds[req.Header.Get("webhook-id")].answer(w, req)
	})
	wrong := httptest.NewUnstartedServer(status(200))
	wrong.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	wrong.StartTLS() // its certificate is not trusted
	t.Cleanup(wrong.Close)

	// Long enough for an answer on a busy machine.
	c.start(t, func(cfg *webhook.Config) { cfg.Timeout = 10 * time.Second })
	var tasks []event.WebhookTask
	for name := range kinds {
		tasks = append(tasks, task(name, "org1", r.URL+"/"+name))
	}
	c.send(t, append(tasks, task("a_bad_certificate", "org1", wrong.URL))...)
	for name, want := range kinds {
		a := c.awaitAttempts(t, name, 1)[0]
		require.Equal(t, want.status, a.Status, name)
		require.Equal(t, want.code, a.HTTPStatus, name)
		require.Equal(t, want.fault, a.Error, name)
		require.LessOrEqual(t, len(a.Response), 600, name)
		if want.status == event.WebhookPending {
			ended := a.At.Add(time.Duration(a.DurationMicros) * time.Microsecond)
			wait := a.NextAt.Sub(ended)
			require.GreaterOrEqual(t, wait, want.wait*4/5, name)
			require.Less(t, wait, want.wait*6/5+10*time.Second, name)
		} else {
			require.True(t, a.NextAt.IsZero(), name)
		}
	}
	a := c.awaitAttempts(t, "a_bad_certificate", 1)[0]
	require.Equal(t, event.WebhookPending, a.Status)
	require.Equal(t, "tls", a.Error)
}

// The Standard Webhooks Go library accepts deliveries under both secrets during a rotation, and
// rejects tampered ones.
func TestService_StandardWebhooksGoAcceptsSignatures(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.createSecret(t, "org1")
	r := newReceiver(t, status(http.StatusOK))
	c.start(t, nil)
	c.send(t, task("before", "org1", r.URL))
	c.awaitAttempts(t, "before", 1)
	s, err := webhook.OpenSecrets(t.Context(), webhook.SecretsConfig{Bus: c.bus, Key: key()})
	require.NoError(t, err)
	rotated, err := s.Rotate(t.Context(), "org1", time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	rotationID := ""
	// Wait until the sender has the new secret.
	for n := 0; rotationID == ""; n++ {
		require.Less(t, n, 200, "the sender does not use the new secret")
		id := fmt.Sprintf("during-%d", n)
		c.send(t, task(id, "org1", r.URL))
		c.awaitAttempts(t, id, 1)
		if strings.Contains(r.requestsFor(id)[0].header.Get("webhook-signature"), " ") {
			rotationID = id
		}
	}
	verify := func(secret string, got received) error {
		w, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		return w.Verify(got.body, got.header)
	}
	before, rotating := r.requestsFor("before")[0], r.requestsFor(rotationID)[0]
	require.NoError(t, verify(first, before))
	require.Error(t, verify(rotated.Secret, before))
	require.NoError(t, verify(first, rotating))
	require.NoError(t, verify(rotated.Secret, rotating))
	require.Error(t, verify("whsec_"+strings.Repeat("A", 43)+"=", rotating))
	for name, change := range map[string]func(*received){
		"body":         func(g *received) { g.body[len(g.body)/2] ^= 1 },
		"shorter body": func(g *received) { g.body = g.body[:len(g.body)-1] },
		"id":           func(g *received) { g.header.Set("webhook-id", "another") },
		"timestamp": func(g *received) {
			g.header.Set("webhook-timestamp", fmt.Sprint(time.Now().Add(7*time.Second).Unix()))
		},
		"replayed": func(g *received) {
			g.header.Set("webhook-timestamp", fmt.Sprint(time.Now().Add(-time.Hour).Unix()))
		},
		"signature": func(g *received) { g.header.Set("webhook-signature", "v1,"+strings.Repeat("A", 43)+"=") },
		"none":      func(g *received) { g.header.Del("webhook-signature") },
	} {
		changed := received{rotating.header.Clone(), append([]byte(nil), rotating.body...)}
		change(&changed)
		require.Error(t, verify(rotated.Secret, changed), name)
	}
}
