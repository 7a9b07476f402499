package metering_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/metering"
)

func TestCall_RenewsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBooks(t, &replies{})
		once := func(id string) (*metering.Call, error) {
			call := b.begin(id, false)
			call.Idempotent("key", "/x", []byte("{}"))
			return call, call.Once(t.Context())
		}
		first, err := once("1")
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		_, err = once("2")
		require.ErrorIs(t, err, metering.ErrRunning)
		require.NoError(t, first.End(t.Context(), http.StatusInternalServerError, metering.Whole))
		_, err = once("3")
		require.NoError(t, err)
		time.Sleep(time.Hour + time.Minute)
		last, err := once("4")
		require.NoError(t, err)
		require.NoError(t, last.End(t.Context(), http.StatusOK, metering.Whole))
	})
}
