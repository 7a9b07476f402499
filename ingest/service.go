package ingest

import (
	"context"
	"fmt"
	"time"

	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
)

// Service is the part of ingest that runs for as long as the platform does: it
// takes records that are pushed over HTTP. See [PushConfig] for its limits.
//
//	POST /ingest/v1/<kind>
//	Authorization: Bearer <operator token>
//	Content-Type: application/x-ndjson
//	Content-Encoding: gzip, zstd or none
//
// The body is a stream of records, one JSON object a line. The answer says what
// became of them, and up to which line all of them are stored: behind it a client
// resumes when a push was cut short. At least once.
type Service struct {
	cfg    Config
	deps   Deps
	server *service.Server
	meters *metrics
	pushes pushes
}

// New listens on the configured address and returns a service that answers once
// it runs. Whoever does not call Run calls Close.
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
		ReadTimeout: -1, // a body may take hours, but not be silent for long
		StopTimeout: cfg.DrainTimeout + time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	return s, nil
}

// URL is the address that is listened on, as an http URL without a path.
func (s *Service) URL() string { return s.server.URL() }

// Run makes sure that the topics of records exist and answers requests until ctx
// ends. It fails when the brokers do not answer within Config.ConnectTimeout.
func (s *Service) Run(ctx context.Context) error {
	if err := ensureTopics(ctx, s.cfg, s.deps.Logger); err != nil {
		if ctx.Err() != nil {
			return s.Close() // asked to stop before it had begun
		}
		return fmt.Errorf("ingest: %w", err)
	}
	return s.servePushes(ctx)
}

// Close stops listening, for a service whose Run is never called.
func (s *Service) Close() error { return s.server.Close() }

// Ready is nil when records can be published: the brokers answer and know the
// topics.
func (s *Service) Ready(ctx context.Context) error {
	offsets, err := bus.EndOffsets(ctx, s.cfg.Bus, []string{event.TopicRejected})
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	if len(offsets) == 0 {
		return fmt.Errorf("ingest: the topic %s does not exist yet", event.TopicRejected)
	}
	return nil
}
