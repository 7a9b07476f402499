package discovery

import (
	"context"

	"muster/discovery-worker/internal/profile"
	"muster/schemas/event"
)

// Build builds a profile until ctx ends.
func (s *Service) Build(ctx context.Context, task *event.ContextTask) (*profile.Result, error) {
	return s.build(ctx, task)
}
