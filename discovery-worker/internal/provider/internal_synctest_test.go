package provider

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

type echo struct{}

func (echo) Name() string                                    { return "echo" }
func (echo) Ask(_ context.Context, q string) (string, error) { return q, nil }

// Responses may contain personal data. Expired ones are removed by the next call.
func TestGuarded_RemovesExpiredResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMetrics(prometheus.NewRegistry())
		require.NoError(t, err)
		g, err := Guard(echo{}, Config{CacheFor: time.Minute}, func(q string) string { return q }, m,
			slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		for _, step := range []struct {
			q    string
			left []string
		}{
			{"a", []string{"a"}},
			{"b", []string{"a", "b"}},
			{"a", []string{"b", "a"}}, // a had expired
			{"b", []string{"a", "b"}},
		} {
			_, err := g.Ask(t.Context(), step.q)
			require.NoError(t, err)
			require.Equal(t, step.left, g.cache.Keys())
			time.Sleep(time.Minute / 2)
		}
		time.Sleep(time.Minute)
		_, err = g.Ask(t.Context(), "c")
		require.NoError(t, err)
		require.Equal(t, []string{"c"}, g.cache.Keys())
		time.Sleep(30 * time.Second)
		_, err = g.Ask(t.Context(), "d")
		require.NoError(t, err)
		// A use does not extend the time.
		_, err = g.Ask(t.Context(), "c")
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		_, err = g.Ask(t.Context(), "d")
		require.NoError(t, err)
		require.Equal(t, []string{"d"}, g.cache.Keys())
	})
}
