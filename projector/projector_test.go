package projector_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
)

// ClickHouse is available.
func TestCheck_FailsWithoutKafkaAssignment(t *testing.T) {
	h := projectortest.New(t)
	h.Kafka = bus.Config{Brokers: brokertest.Start(t).Addrs()} // without topics, so that the consumers cannot join
	cfg := projector.Config{Config: project.Config{Kafka: h.Kafka}, MaxOutsideGroup: 50 * time.Millisecond}
	p, err := projector.New(cfg, project.Deps{Conn: h.Conn, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, p.Check(t.Context()), "before Run")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()
	projectortest.Eventually(t, func(ctx context.Context) bool {
		err := p.Check(ctx)
		return err != nil && strings.Contains(err.Error(), "consumer group")
	}, "ready without an assignment")
	h.EnsureTopics()
	ready := func(ctx context.Context) bool { return p.Check(ctx) == nil }
	projectortest.Eventually(t, ready, "not ready after the topics exist")
}

func TestNew_RejectsInvalidConfiguration(t *testing.T) {
	s := projectortest.OpenStore(t)
	config := projector.Config{Config: project.Config{Kafka: bus.Config{Brokers: []string{"127.0.0.1:1"}}}}
	for name, make := range map[string]func() (projector.Config, project.Deps){
		"no connection": func() (projector.Config, project.Deps) {
			return config, project.Deps{}
		},
		"no logger": func() (projector.Config, project.Deps) {
			return config, project.Deps{Conn: s.Conn}
		},
		"no brokers": func() (projector.Config, project.Deps) {
			return projector.Config{}, project.Deps{Conn: s.Conn, Logger: slog.New(slog.DiscardHandler)}
		},
		"negative": func() (projector.Config, project.Deps) {
			return projector.Config{Config: project.Config{Kafka: config.Kafka, MaxMessages: -1}},
				project.Deps{Conn: s.Conn, Logger: slog.New(slog.DiscardHandler)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, deps := make()
			_, err := projector.New(cfg, deps)
			require.Error(t, err)
		})
	}
}
