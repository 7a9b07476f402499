package ingest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
)

// Service is the part of ingest that runs for as long as the platform does.
//
// It holds the address that records will be pushed to over HTTP. It takes none
// yet: every request is answered with 404 and the way that records do come in.
type Service struct {
	cfg    Config
	deps   Deps
	server *service.Server
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
	s.server, err = service.NewServer(ctx, service.ServerConfig{Addr: cfg.Addr, Handler: http.HandlerFunc(noPush), Logger: deps.Logger})
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	return s, nil
}

// Addr is the address that is listened on, as host:port.
func (s *Service) Addr() string { return s.server.Addr() }

// URL is Addr as an http URL without a path.
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
	return s.server.Run(ctx)
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

// noPush answers every request (RFC 9457).
func noPush(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{
		Type: "about:blank", Title: http.StatusText(http.StatusNotFound), Status: http.StatusNotFound,
		Detail: "Records are not taken over HTTP yet. Publish files with `muster ingest KIND FILE`, or write to the topics.",
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
