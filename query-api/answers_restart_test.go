package queryapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
)

func TestIdempotency_AnswersSurviveRestart(t *testing.T) {
	var cfg queryapi.Config
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) { cfg, deps = *c, *d })
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	cfg.DataDir, deps.Registerer = t.TempDir(), nil
	// served runs a service on the directory, calls it once and stops it.
	served := func(body string) response {
		s, err := queryapi.New(t.Context(), cfg, deps)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		ready(t, s)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+enrichPath,
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+f.key)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k")
		return f.send(req)
	}
	const body = `{"network_username":"octavia","websets":["network"]}`
	first := served(body)
	require.Equal(t, 1, charged(t, first))
	again := served(body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, 0, charged(t, again))
	require.Equal(t, first.body, again.body)
	require.Equal(t, 422, served(`{"network_username":"juno"}`).status)
}
