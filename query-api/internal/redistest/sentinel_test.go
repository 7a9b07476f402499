//go:build redis

package redistest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/platform/tlsclient"
	"muster/platform/tlsclient/tlstest"
	"muster/query-api/internal/redisbreaker"
	"muster/query-api/internal/redistest"
)

// certificates returns the certificates of servers and clients, and the settings that name them.
func certificates(t *testing.T) (tlstest.Files, *tlsclient.Settings) {
	t.Helper()
	authority, err := tlstest.NewAuthority()
	require.NoError(t, err)
	files, err := authority.Write(t.TempDir(), "muster")
	require.NoError(t, err)
	vars := files.Env("REDIS")
	settings, err := tlsclient.FromEnv(func(name string) string { return vars[name] }, "REDIS")
	require.NoError(t, err)
	return files, settings
}

func TestOpen_UsesClientCertificate(t *testing.T) {
	files, settings := certificates(t)
	server := redistest.StartTLS(t, files)
	require.NoError(t, open(t, server.URL(), settings, patient()).Ping(t.Context()).Err())

	vars := map[string]string{"REDIS_TLS_CA_FILE": files.CA}
	anonymous, err := tlsclient.FromEnv(func(name string) string { return vars[name] }, "REDIS")
	require.NoError(t, err)
	err = open(t, server.URL(), anonymous, patient()).Ping(t.Context()).Err()
	require.ErrorIs(t, err, redisbreaker.ErrUnavailable)
	require.ErrorContains(t, err, "certificate required")
}

func TestOpen_FindsPrimaryAfterFailover(t *testing.T) {
	files, settings := certificates(t)
	primary, replica := redistest.StartTLS(t, files), redistest.StartTLS(t, files)
	replica.Follow(t, primary)
	sentinels := redistest.StartSentinels(t, "muster", primary, 1)
	client := open(t, sentinels.URL(), settings, patient())
	require.NoError(t, client.Set(t.Context(), "k", "before", 0).Err())
	require.Equal(t, "before", primary.Client(t).Get(t.Context(), "k").Val())

	sentinels.FailOver(t)
	replica.WaitRole(t, "master")
	var err error
	polltest.Until(t, waitTimeout, func() bool {
		err = client.Set(t.Context(), "k", "after", 0).Err()
		return err == nil && replica.Client(t).Get(t.Context(), "k").Val() == "after"
	}, "it is not found: %v", func() any { return err })

	require.NoError(t, sentinels.All()[0].Kill())
	require.NoError(t, open(t, sentinels.URL(), settings, patient()).Ping(t.Context()).Err(), "the others know it, too")

	err = open(t, strings.Replace(sentinels.URL(), "master_name=muster", "master_name=other", 1), settings,
		patient()).Ping(t.Context()).Err()
	require.ErrorIs(t, err, redisbreaker.ErrUnavailable)
	require.ErrorContains(t, err, "no primary for this master_name at any Sentinel")
}

func TestOpen_ToleratesSilentSentinel(t *testing.T) {
	primary := redistest.Start(t)
	sentinels := redistest.StartSentinels(t, "muster", primary, 0)
	client := open(t, sentinels.URL(), nil, redisbreaker.DefaultTimeouts())
	answers := func() {
		t.Helper()
		var err error
		polltest.Until(t, waitTimeout, func() bool {
			err = client.Ping(t.Context()).Err()
			return err == nil
		}, "it is not found: %v", func() any { return err })
	}
	answers()
	for _, one := range sentinels.All() {
		require.NoError(t, one.Pause())
		require.NoError(t, primary.Client(t).ClientKillByFilter(t.Context(), "TYPE", "normal").Err())
		answers()
		require.NoError(t, one.Resume())
	}
}
