package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/event"
	"muster/schemas/record"
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

// An erasure as one JSON object has the limits of other pushes.
func TestPushErasure_LimitsSizeAndIdleTime(t *testing.T) {
	cfg := config(t)
	cfg.Push.Concurrent, cfg.Push.Idle = 1, 4*time.Second
	s := serve(t, cfg, erasures(t))
	object := []string{"Content-Type", "application/json"}
	order := "{\n \"identifiers\": [{\"type\": \"email\", \"value\": \"a@mail.example\"}],\n \"requested_at\": " +
		"\"2026-11-21\"\n}\n"

	silent := newGate()
	first := make(chan answer, 1)
	go func() { first <- push(t, s, erasurePath, silent, object...) }()
	_, err := io.WriteString(silent.w, order[:20])
	require.NoError(t, err)
	select {
	case a := <-first:
		require.Equal(t, http.StatusRequestTimeout, a.status, a.Detail)
		require.Contains(t, a.Detail, "No data received for 4s")
	case <-time.After(20 * time.Second):
		_ = silent.w.Close()
		require.Fail(t, "service waits for a silent client")
	}
	require.NoError(t, silent.w.Close())

	a := push(t, s, erasurePath, strings.NewReader(strings.Repeat(" ", 1<<20)+order), object...)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status, a.Detail)
	require.Contains(t, a.Detail, "larger than 1 MiB")
	a = push(t, s, erasurePath, strings.NewReader(order[:20]), object...)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "The body is not a JSON object.", a.Detail)
	require.Zero(t, endOffsetSum(t, cfg.Bus, event.TopicErasureRequest))

	// The deadline of a body must not affect its connection.
	for range 3 {
		a = push(t, s, erasurePath, strings.NewReader(order), object...)
		require.Equal(t, http.StatusOK, a.status, a.Detail)
		require.True(t, a.Complete)
		<-time.After(cfg.Push.Idle / 2)
	}
	require.NotZero(t, endOffsetSum(t, cfg.Bus, event.TopicErasureRequest))
}

func TestPushErasure_AcceptsAllEncodings(t *testing.T) {
	cfg := config(t)
	s := serve(t, cfg, erasures(t))
	order := func(name string) []byte {
		return fmt.Appendf(
			nil,
			"{\n \"identifiers\": [{\"type\": \"email\", \"value\": \"%s@mail.example\"}],\n \"requested_at\": "+
				"\"2026-11-21\"\n}\n",
			name,
		)
	}
	send := func(body []byte, header ...string) answer {
		return push(t, s, erasurePath, bytes.NewReader(body), header...)
	}
	for n, c := range []struct {
		encoding string
		body     []byte
	}{{"identity", order("identity")}, {"gzip", gzipped(t, order("gzip"))}, {"zstd", zstded(t, order("zstd"))}} {
		a := send(c.body, "Content-Type", "application/json", "Content-Encoding", c.encoding)
		require.Equal(t, http.StatusOK, a.status, a.Detail)
		require.Equal(t, int64(1), a.Counts[0].Published, c.encoding)
		require.Equal(t, int64(n+1), endOffsetSum(t, cfg.Bus, event.TopicErasureRequest), c.encoding)
	}
	a := send(bytes.ReplaceAll(order("lines"), []byte("\n"), nil), "Content-Encoding", "identity")
	require.Equal(t, int64(1), a.Counts[0].Published)

	huge := gzipped(t, append(bytes.Repeat([]byte(" "), record.MaxSize), order("huge")...))
	whole := gzipped(t, order("half"))
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		status   int
		detail   string
	}{
		"too large": {"gzip", huge, http.StatusRequestEntityTooLarge, "larger than 1 MiB"},
		"not gzip":  {"gzip", order("plain"), http.StatusBadRequest, "does not match its Content-Encoding"},
		"half":      {"gzip", whole[:len(whole)-10], http.StatusBadRequest, "does not match its Content-Encoding"},
		"two requests": {"gzip", gzipped(t, append(order("a"), order("b")...)), http.StatusBadRequest,
			"not a JSON object"},
	} {
		a := send(c.body, "Content-Type", "application/json", "Content-Encoding", c.encoding)
		require.Equal(t, c.status, a.status, name)
		require.Contains(t, a.Detail, c.detail, name)
	}
	require.Equal(t, int64(4), endOffsetSum(t, cfg.Bus, event.TopicErasureRequest))
}

// Erasures under another root secret would match no record, and would stop all other consumers.
func TestPushErasure_RequiresRootSecretOfInstance(t *testing.T) {
	cfg, deps := config(t), erasures(t)
	other, err := suppress.NewKey([]byte(strings.Repeat("o", 32)))
	require.NoError(t, err)
	require.NoError(t, deps.Suppressed.Apply([]byte(suppress.OwnerKey), other.OwnerRecord()))
	s := serve(t, cfg, deps)
	const order = `{"identifiers": [{"type": "email", "value": "a@mail.example"}], "requested_at": "2026-11-21"}`
	a := push(t, s, erasurePath, strings.NewReader(order), "Content-Type", "application/json")
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.Detail)
	require.Contains(t, a.Detail, "the root secret of this server differs")
	_, err = ingest.Erase(t.Context(), cfg, deps, record.Erasure{
		Identifiers: []record.ErasureIdentifier{{Type: "email", Value: "a@mail.example"}}, RequestedAt: "2026-11-21",
	})
	require.ErrorIs(t, err, suppress.ErrOtherKey)
	require.Zero(t, endOffsetSum(t, cfg.Bus, event.TopicErasure))
	require.Zero(t, endOffsetSum(t, cfg.Bus, event.TopicErasureRequest))
}

func TestPushErasure_StopDoesNotWaitForSilentClient(t *testing.T) {
	cfg := ingest.Config{Bus: config(t).Bus, Token: token, DrainTimeout: 20 * time.Second}
	cfg.Push.Concurrent = 1
	s, err := ingest.New(t.Context(), cfg, erasures(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Eventually(t, func() bool { return s.Ready(t.Context()) == nil }, 20*time.Second, 10*time.Millisecond)
	// Requests are accepted once the writer exists.
	require.Equal(t, http.StatusOK, push(t, s, pushPath, strings.NewReader("")).status)
	silent := newGate()
	first := make(chan answer, 1)
	requested := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	defer requested.CloseIdleConnections()
	go func() {
		first <- pushBy(t, requested, s, erasurePath, silent, "Content-Type", "application/json", "Expect",
			"100-continue")
	}()
	_, err = io.WriteString(silent.w, `{"identifiers":`) // returns when the service reads it
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, push(t, s, pushPath, strings.NewReader("")).status)
	began := time.Now()
	cancel()
	a := <-first
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.Detail)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.NoError(t, <-done)
	require.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, silent.w.Close())
	require.Zero(t, endOffsetSum(t, cfg.Bus, event.TopicErasureRequest))
}
