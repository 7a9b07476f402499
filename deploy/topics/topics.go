package topics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Ensure makes the topics that are missing and waits until they can be used, with the number of
// replicas that is given or, if that is 0, that the brokers have as default.
// Those that exist with other settings are used as they are, with a warning. So are those of which one broker of
// several has the only copy: that is Apache Kafka's default.
// Several processes may do it at once.
func Ensure(ctx context.Context, kafka bus.Config, replication int, logger *slog.Logger) error {
	var topics []bus.Topic
	var names []string
	for _, t := range event.Topics() {
		topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Replication: replication, Config: t.Config()})
		names = append(names, t.Name)
	}
	err := bus.EnsureTopics(ctx, kafka, topics)
	var mismatch *bus.MismatchError
	if errors.As(err, &mismatch) {
		logger.WarnContext(ctx, "topics differ from what muster would create", "differences", mismatch.Error())
	} else if err != nil {
		return fmt.Errorf("make the topics: %w", err)
	}
	single, err := bus.SingleCopies(ctx, kafka, names)
	if err != nil {
		return fmt.Errorf("make the topics: %w", err)
	}
	if len(single) > 0 {
		logger.WarnContext(ctx, "one broker has the only copy of these topics, and what it loses is lost: make them with `muster migrate --replication 3`, "+
			"or reassign those that are there (kafka-reassign-partitions.sh)", "topics", single)
	}
	return nil
}
