// Package brokertest starts embedded brokers for tests.
//
// Each broker has its own temporary directory and a free port on loopback, and is closed when its test ends.
package brokertest

import (
	"log/slog"
	"testing"

	"muster/platform/broker"
)

// Start runs a broker until tb ends.
func Start(tb testing.TB) *broker.Broker {
	tb.Helper()
	return StartConfig(tb, broker.Config{DataDir: tb.TempDir()})
}

// StartConfig runs a broker with cfg until tb ends. A nil Logger discards.
func StartConfig(tb testing.TB, cfg broker.Config) *broker.Broker {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b, err := broker.Start(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("start broker: %v", err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Errorf("close broker: %v", err)
		}
	})
	return b
}
