package bus_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
)

func TestRouterLogger_ErrorsAreRoutineOnceTheRouterStops(t *testing.T) {
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	logger := bus.RouterLogger(ctx, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	handler := logger.With(watermill.LogFields{"handler_name": "bulk"})
	failed := errors.New("connection refused")

	handler.Error("Handler returned error", failed, nil)
	require.Contains(t, log.String(), `level=ERROR msg="Handler returned error" handler_name=bulk error="connection refused"`)
	handler.Info("Router closed", nil)
	require.Contains(t, log.String(), "level=DEBUG msg=\"Router closed\"")
	log.Reset()
	stop()
	handler.Error("Handler returned error", failed, watermill.LogFields{"message_uuid": "1"})
	require.Contains(t, log.String(), "level=DEBUG")
	require.Contains(t, log.String(), `error="connection refused"`)
	require.NotContains(t, log.String(), "level=ERROR")
}
