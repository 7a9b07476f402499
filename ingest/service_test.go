package ingest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker"
	"muster/platform/bus"
)

func TestService_WithoutTokenDeniesPushes(t *testing.T) {
	cfg := config(t)
	s, err := ingest.New(t.Context(), cfg, ingest.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Ready(t.Context()) == nil }, 20*time.Second, 10*time.Millisecond)
	a := push(t, s, pushPath, strings.NewReader(""), "Authorization", "Bearer ")
	require.Equal(t, http.StatusUnauthorized, a.status)
	require.Contains(t, a.Detail, "No operator token is configured")
	cancel()
	require.NoError(t, <-done)
}

func TestService_WithoutBrokersFailsOrStops(t *testing.T) {
	_, err := ingest.New(t.Context(), ingest.Config{}, ingest.Deps{})
	require.ErrorContains(t, err, "no Kafka brokers")

	b, err := broker.Start(t.Context(), broker.Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	cfg := ingest.Config{Bus: bus.Config{Brokers: b.Addrs()}, ConnectTimeout: 200 * time.Millisecond}
	require.NoError(t, b.Close())
	s, err := ingest.New(t.Context(), cfg, ingest.Deps{})
	require.NoError(t, err)
	require.Error(t, s.Ready(t.Context()))
	require.ErrorContains(t, s.Run(t.Context()), "no response from the Kafka brokers within 200ms")
	require.NoError(t, s.Close())

	// A service that is stopped while it waits for brokers returns no error.
	cfg.ConnectTimeout = time.Hour
	s, err = ingest.New(t.Context(), cfg, ingest.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cancel()
	require.NoError(t, <-done)
}
