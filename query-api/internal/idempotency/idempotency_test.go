package idempotency_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/idempotency/idempotencytest"
)

func TestMemory(t *testing.T) {
	idempotencytest.Run(t, func(_ *testing.T, n int) []idempotency.Store {
		m := idempotency.NewMemory(time.Now, 1<<20)
		out := make([]idempotency.Store, n)
		for i := range out {
			out[i] = m
		}
		return out
	})
}

func TestMemoryIsBounded(t *testing.T) {
	m := idempotency.NewMemory(time.Now, 100_000)
	for i := range 100 {
		name := fmt.Sprint(i)
		_, _, err := m.Begin(t.Context(), name, "f", "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, m.Complete(t.Context(), name, "a", make([]byte, 10_000), time.Hour))
	}
	for name, want := range map[string]idempotency.State{"99": idempotency.Stored, "95": idempotency.Stored, "0": idempotency.New} {
		state, _, err := m.Begin(t.Context(), name, "f", "b", time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, state, name)
	}
}

// recorder notes what a store is given.
type recorder struct {
	*idempotency.Memory
	given []string
}

// Complete implements idempotency.Store.
func (r *recorder) Complete(ctx context.Context, name, owner string, value []byte, kept time.Duration) error {
	r.given = append(r.given, name, string(value))
	return r.Memory.Complete(ctx, name, owner, value, kept)
}

func TestAnswers(t *testing.T) {
	store := &recorder{Memory: idempotency.NewMemory(time.Now, 1<<20)}
	key := bytes.Repeat([]byte{7}, idempotency.KeyBytes)
	answers, err := idempotency.NewAnswers(store, key)
	require.NoError(t, err)
	call := idempotency.Call{Organization: "o1", Method: "POST", Path: "/v1/x", Key: "k", Body: []byte(`{"a":1,"b":2}`), Owner: "r1", Lease: time.Minute}
	state, _, claim, err := answers.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.New, state)
	answer := idempotency.Answer{Status: 200, ContentType: "application/json", Body: []byte(`{"somebody":"private"}`)}
	require.NoError(t, claim.Complete(t.Context(), answer))

	require.Len(t, store.given, 2)
	for _, text := range store.given {
		require.NotContains(t, text, "private")
		require.NotContains(t, text, "o1")
	}

	call.Owner, call.Body = "r2", []byte(` {"b": 2, "a": 1.0} `)
	state, got, _, err := answers.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.Stored, state, "the same JSON is the same body")
	require.Equal(t, answer, got)
	call.Body = []byte(`{"a":1,"b":3}`)
	state, _, _, err = answers.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.Mismatch, state)
	call.Body = []byte(`{"a":1,"b":2}`)
	for _, change := range []func(*idempotency.Call){
		func(c *idempotency.Call) { c.Organization = "o2" }, func(c *idempotency.Call) { c.Method = "PUT" },
		func(c *idempotency.Call) { c.Path = "/v1/y" }, func(c *idempotency.Call) { c.Key = "l" },
		func(c *idempotency.Call) { c.Organization, c.Method = "o1P", "OST" },
	} {
		other := call
		change(&other)
		state, _, _, err := answers.Begin(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, idempotency.New, state)
	}

	// Another root secret finds nothing, and opens nothing.
	foreign, err := idempotency.NewAnswers(store, bytes.Repeat([]byte{8}, idempotency.KeyBytes))
	require.NoError(t, err)
	state, _, _, err = foreign.Begin(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, idempotency.New, state)
}
