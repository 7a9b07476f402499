package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"muster/platform/bus"
	"muster/schemas/event"
)

// EnsureTopics creates the missing topics with the given number of replicas, or the brokers' default if it is 0, and
// waits until they are usable. It logs a warning for existing topics with other settings, and for topics with a
// single replica in a cluster of several brokers, which is Apache Kafka's default. Several processes may call it
// concurrently. Existing topics are not changed: an operator configured them.
func EnsureTopics(ctx context.Context, kafka bus.Config, replication int, logger *slog.Logger) error {
	var topics []bus.Topic
	var names []string
	for _, t := range event.Topics() {
		topics = append(topics,
			bus.Topic{Name: t.Name, Partitions: t.Partitions, Replication: replication, Config: t.Config()})
		names = append(names, t.Name)
	}
	err := bus.EnsureTopics(ctx, kafka, topics)
	var mismatch *bus.MismatchError
	if errors.As(err, &mismatch) {
		logger.WarnContext(ctx, "topics: settings differ from what muster would create", "differences",
			mismatch.Error())
	} else if err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	single, err := bus.UnreplicatedTopics(ctx, kafka, names)
	if err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	if len(single) > 0 {
		logger.WarnContext(ctx, "topics: single replica in a cluster of several brokers, a lost broker loses data",
			"topics", single,
			"hint", "create topics with `muster migrate --replication 3`, or reassign existing ones "+
				"(kafka-reassign-partitions.sh)")
	}
	return nil
}
