package standalone

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The embedded broker has no retention timer, unlike an external Kafka.
func TestRetention_RunsEveryHourDespiteFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var applied []time.Duration
		begin, ended := time.Now(), make(chan error, 2)
		embedded := kafkaBackend{retain: func(context.Context) error {
			applied = append(applied, time.Since(begin))
			return errors.New("away")
		}}
		for _, b := range []kafkaBackend{embedded, {}} {
			go func() { ended <- b.runRetention(ctx, slog.New(slog.DiscardHandler)) }()
		}
		time.Sleep(150 * time.Minute)
		stop()
		require.NoError(t, errors.Join(<-ended, <-ended))
		require.Equal(t, []time.Duration{time.Hour, 2 * time.Hour}, applied)
	})
}
