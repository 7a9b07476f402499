package ingest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

const erasurePath = "/ingest/v1/erasure"

func erasures(t *testing.T) ingest.Deps {
	t.Helper()
	key, err := suppress.NewKey([]byte(strings.Repeat("k", 32)))
	require.NoError(t, err)
	set := suppress.NewSet(key)
	set.Loaded()
	return ingest.Deps{Suppressed: set}
}

// An erasure that is one JSON object is bounded as other pushes are: in size, and in
// how long its client may say nothing.
func TestPushErasure(t *testing.T) {
	cfg := config(t)
	cfg.Push.Concurrent, cfg.Push.Idle = 1, 4*time.Second
	s := serve(t, cfg, erasures(t))
	object := []string{"Content-Type", "application/json"}
	order := "{\n \"identifiers\": [{\"type\": \"email\", \"value\": \"a@mail.example\"}],\n \"requested_at\": \"2026-11-21\"\n}\n"

	silent := newGate()
	first := make(chan answer, 1)
	go func() { first <- push(t, s, erasurePath, silent, object...) }()
	_, err := io.WriteString(silent.w, order[:20])
	require.NoError(t, err)
	select {
	case a := <-first:
		require.Equal(t, http.StatusRequestTimeout, a.status, a.Detail)
		require.Contains(t, a.Detail, "Nothing came for 4s")
	case <-time.After(20 * time.Second):
		_ = silent.w.Close()
		require.Fail(t, "a client that says nothing is waited for")
	}
	require.NoError(t, silent.w.Close())

	a := push(t, s, erasurePath, strings.NewReader(strings.Repeat(" ", 1<<20)+order), object...)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status, a.Detail)
	require.Contains(t, a.Detail, "larger than 1 MiB")
	a = push(t, s, erasurePath, strings.NewReader(order[:20]), object...)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "The body is no JSON object.", a.Detail)
	require.Zero(t, ends(t, cfg.Bus, event.TopicErasureRequest))

	// The deadline of a body is not that of its connection.
	for range 3 {
		a = push(t, s, erasurePath, strings.NewReader(order), object...)
		require.Equal(t, http.StatusOK, a.status, a.Detail)
		require.True(t, a.Complete)
		<-time.After(cfg.Push.Idle / 2)
	}
	require.NotZero(t, ends(t, cfg.Bus, event.TopicErasureRequest))
}

// A service that stops does not wait for a client that says nothing.
func TestPushErasureStopped(t *testing.T) {
	cfg := ingest.Config{Bus: config(t).Bus, Token: token, DrainTimeout: 20 * time.Second}
	cfg.Push.Concurrent = 1
	s, err := ingest.New(t.Context(), cfg, erasures(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Ready(t.Context()) == nil }, 20*time.Second, 10*time.Millisecond)
	// Requests are taken once the writer is there.
	require.Equal(t, http.StatusOK, push(t, s, pushPath, strings.NewReader("")).status)
	silent := newGate()
	first := make(chan answer, 1)
	go func() { first <- push(t, s, erasurePath, silent, "Content-Type", "application/json") }()
	_, err = io.WriteString(silent.w, `{"identifiers":`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return push(t, s, pushPath, strings.NewReader("")).status == http.StatusTooManyRequests
	}, 20*time.Second, 10*time.Millisecond, "it is being read")
	began := time.Now()
	cancel()
	a := <-first
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.Detail)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.NoError(t, <-done)
	require.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, silent.w.Close())
	require.Zero(t, ends(t, cfg.Bus, event.TopicErasureRequest))
}
