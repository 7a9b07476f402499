package ingest

import (
	"context"
	"fmt"
	"time"

	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
)

// Service accepts records pushed over HTTP for as long as the platform runs. See [PushConfig] for its limits.
//
//	POST /ingest/v1/<kind>
//	Authorization: Bearer <operator token>
//	Content-Type: application/x-ndjson
//	Content-Encoding: gzip, zstd or none
//
// The body is a stream of records, one JSON object per line. The response has the outcome counts
// and the line up to which everything is stored: after a push that was cut short, the client
// resumes after that line. Delivery is at least once.
type Service struct {
	cfg    Config
	deps   Deps
	server *service.Server
	meters *metrics
	pushes pushes
}

// New listens on the configured address and returns a service that responds after Run is called. A
// caller that does not call Run must call Close.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	deps = deps.withDefaults()
	s := &Service{cfg: cfg, deps: deps}
	if s.meters, err = newMetrics(deps.Registerer); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	s.pushes.init(cfg)
	s.server, err = service.NewServer(ctx, service.ServerConfig{
		Addr: cfg.Addr, Handler: s.routes(), Logger: deps.Logger,
		ReadTimeout: -1, // a body may take hours; PushConfig.Idle limits silence
		StopTimeout: cfg.DrainTimeout + time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	return s, nil
}

// URL returns the address of the listener, as an http URL without a path.
func (s *Service) URL() string { return s.server.URL() }

// Run creates missing topics and serves requests until ctx ends. It fails if the brokers do not
// respond within Config.ConnectTimeout.
func (s *Service) Run(ctx context.Context) error {
	if err := ensureTopics(ctx, s.cfg, s.deps.Logger); err != nil {
		if ctx.Err() != nil {
			return s.Close() // stopped before it started
		}
		return fmt.Errorf("ingest: %w", err)
	}
	return s.servePushes(ctx)
}

// Close stops listening. It is for a service whose Run is never called.
func (s *Service) Close() error { return s.server.Close() }

// Ready returns nil if records can be published: the brokers respond and have the topics.
func (s *Service) Ready(ctx context.Context) error {
	offsets, err := bus.EndOffsets(ctx, s.cfg.Bus, []string{event.TopicRejected})
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	if len(offsets) == 0 {
		return fmt.Errorf("ingest: topic %s does not exist", event.TopicRejected)
	}
	return nil
}
