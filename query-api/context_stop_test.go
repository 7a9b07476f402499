package queryapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
)

// Waiting calls get a response that says where the profile will be; the next process delivers it.
func TestContext_StopAnswersWaitingCalls(t *testing.T) { contextWhenTheServiceStops(t, nil) }

// contextWhenTheServiceStops gives each of the two services its own client of the shared Redis.
func contextWhenTheServiceStops(t *testing.T, share func(*queryapi.Deps)) {
	t.Helper()
	var cfg queryapi.Config
	var deps queryapi.Deps
	f, w := startSilent(t, func(c *queryapi.Config, d *queryapi.Deps) {
		if share != nil {
			share(d)
		}
		c.SetRedisTimeoutFactor(redisTimeoutFactor)
		cfg, deps = *c, *d
	})
	cfg.DataDir, cfg.StopTimeout, deps.Registerer = t.TempDir(), waitTimeout, nil
	if share != nil {
		share(&deps)
	}
	s, err := queryapi.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()
	ready(t, s)
	call := func(body string) <-chan response {
		answer := make(chan response, 1)
		go func() {
			defer close(answer) // also when the connection was cut
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/context",
				strings.NewReader(body))
			if err != nil {
				t.Error(err)
			}
			req.Header.Set("Authorization", "Bearer "+f.key)
			req.Header.Set("Content-Type", "application/json")
			answer <- f.send(req)
		}()
		return answer
	}
	silent := call(`{"person":"x"}`)
	id := w.onlyTask()
	hooked := call(`{"person":"y","webhook_url":"https://hooks.example/a"}`)
	second := w.onlyTask(id)
	stop()
	r := <-silent
	require.Equal(t, http.StatusGatewayTimeout, r.status, r.body)
	require.Equal(t, "the profile is not ready, and this server is stopping: fetch it with GET /v1/context/"+id,
		r.detail())
	require.Equal(t, second, requestID(<-hooked))
	require.NoError(t, <-stopped)

	w.finish(second, &event.Context{Status: event.ContextComplete, Profile: []byte(aProfile)})
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.deliveries[second]) > 0
	}, waitTimeout, 5*time.Millisecond, "the remaining service delivers it")
}
