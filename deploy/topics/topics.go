package topics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Ensure makes the topics that are missing and waits until they can be used.
// Those that exist with other settings are used as they are, with a warning.
// Several processes may do it at once.
func Ensure(ctx context.Context, kafka bus.Config, logger *slog.Logger) error {
	var topics []bus.Topic
	for _, t := range event.Topics() {
		topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Config: t.Config()})
	}
	err := bus.EnsureTopics(ctx, kafka, topics)
	var mismatch *bus.MismatchError
	if errors.As(err, &mismatch) {
		logger.WarnContext(ctx, "topics differ from what muster would create", "differences", mismatch.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the topics: %w", err)
	}
	return nil
}
