package ingest

import (
	"context"
	"fmt"

	"muster/ingest/internal/letters"
	"muster/platform/bus"
)

// LetterTopics names the topics that hold rejected records, and those that hold
// dead letters, as far as they exist.
func LetterTopics(ctx context.Context, cfg bus.Config) (rejected, dead []string, err error) {
	if rejected, err = letters.Topics(ctx, cfg, false); err == nil {
		dead, err = letters.Topics(ctx, cfg, true)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the topics of letters: %w", err)
	}
	return rejected, dead, nil
}
