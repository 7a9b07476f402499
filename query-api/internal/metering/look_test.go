package metering_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/metering"
)

func TestClaimWork_KeepsWorkIfCheckFails(t *testing.T) {
	r := &replies{}
	m := openBooks(t, r)
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
	r.unsent = 2 // the check of the work; its caller has left
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
