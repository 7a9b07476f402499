package discovery

import (
	"context"

	"muster/discovery-worker/internal/profile"
	"muster/schemas/event"
)

// Build makes a profile within the time that ctx leaves.
func (s *Service) Build(ctx context.Context, task *event.ContextTask) (*profile.Result, error) {
	return s.build(ctx, task)
}
