package metering_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
)

// unsent fails the n-th Begin before it is sent, like a client whose context has ended.
type unsent struct {
	idempotency.Store
	fail int
}

func (s *unsent) Begin(
	ctx context.Context, name, fingerprint, owner string, lease time.Duration,
) (idempotency.State, []byte, error) {
	if s.fail--; s.fail == 0 {
		return 0, nil, context.Canceled
	}
	return s.Store.Begin(ctx, name, fingerprint, owner, lease)
}

func TestClaimWork_KeepsWorkIfCheckFails(t *testing.T) {
	rates, err := limits.NewMemory(time.Now)
	require.NoError(t, err)
	outbox, err := ledger.Open(ledger.Config{Dir: t.TempDir(), Linger: -1})
	require.NoError(t, err)
	disk, err := idempotency.OpenDisk(idempotency.DiskConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	defer disk.Close()
	store := &unsent{Store: disk}
	answers, err := idempotency.NewAnswers(store, make([]byte, idempotency.KeyBytes))
	require.NoError(t, err)
	m := metering.New(metering.Config{Lease: time.Hour}, metering.Deps{
		Credits: credits.NewMemory(time.Now), Limits: rates, Ledger: outbox, Answers: answers,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	begin := func(id string) *metering.Call {
		c := m.Begin(metering.Request{ID: id, Method: "POST", Endpoint: "/v1/context"})
		c.Idempotent("k", "/x", []byte(`{}`))
		return c
	}
	over := func(metering.Work) (bool, error) { return false, nil }
	first := begin("1")
	w, err := first.ClaimWork(t.Context(), over)
	require.NoError(t, err)
	require.Nil(t, w)
	require.NoError(t, first.BindWork(t.Context(), metering.Work{ID: "1", Published: true}))
	require.NoError(t, first.End(t.Context(), http.StatusGatewayTimeout, metering.Whole))

	second := begin("2")
	store.fail = 2 // the check of the work; its caller has left
	_, err = second.ClaimWork(t.Context(), over)
	require.ErrorIs(t, err, metering.ErrUnavailable)
	require.NoError(t, second.End(t.Context(), http.StatusServiceUnavailable, metering.Nothing))

	third := begin("3")
	w, err = third.ClaimWork(t.Context(), over)
	require.NoError(t, err)
	require.NotNil(t, w, "the third call starts new work: a second profile is created and charged")
}

func TestUnbindWork_LetsARepeatedCallStartNewWork(t *testing.T) {
	m := openBooks(t, &replies{})
	none := func(metering.Work) (bool, error) { return false, nil }
	for _, id := range []string{"1", "2"} {
		call := m.Begin(metering.Request{ID: id, Method: "POST", Endpoint: "/v1/bulk"})
		call.Idempotent("k", "/x", []byte(`{}`))
		w, err := call.ClaimWork(t.Context(), none)
		require.NoError(t, err)
		require.Nil(t, w, "the work of the first call was not started")
		require.NoError(t, call.BindWork(t.Context(), metering.Work{ID: id}))
		call.UnbindWork()
		require.NoError(t, call.End(t.Context(), http.StatusServiceUnavailable, metering.Whole))
	}
}
