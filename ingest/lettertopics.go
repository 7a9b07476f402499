package ingest

import (
	"context"
	"fmt"

	"muster/ingest/internal/deadletter"
	"muster/platform/bus"
)

// LetterTopics returns the existing topics of rejected records and of dead letters.
func LetterTopics(ctx context.Context, cfg bus.Config) (rejected, dead []string, err error) {
	if rejected, err = deadletter.Topics(ctx, cfg, false); err == nil {
		dead, err = deadletter.Topics(ctx, cfg, true)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list dead-letter topics: %w", err)
	}
	return rejected, dead, nil
}
