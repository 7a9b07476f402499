package metering

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/limits"
	"muster/query-api/internal/redisbreaker"
)

func TestRate_LogsTimeoutsOncePerMinute(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	m := New(Config{}, Deps{Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }})
	late, away := fmt.Errorf("rate limit: %w", limits.ErrTimeout),
		fmt.Errorf("rate limit: %w", redisbreaker.ErrUnavailable)
	for minute := range 3 {
		for range 100 {
			m.allowWithoutDecision(t.Context(), late)
			m.allowWithoutDecision(t.Context(), away)
			now = now.Add(time.Minute / 100)
		}
		require.Equal(t, minute+1, strings.Count(log.String(), "\n"), log.String())
	}
	require.NotContains(t, log.String(), "redis unavailable")
}
