package bus

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
)

// readWait is how long the broker may hold a fetch of [Read], which reads only stored messages.
const readWait = 250 * time.Millisecond

// Read passes the messages of a topic to handle, partition by partition in offset order. It reads from the given
// offsets (from the beginning for partitions without one) up to the ends of the partitions at the call, and returns
// those ends. It stops at an error of handle. It commits nothing, and waits for unavailable brokers until ctx ends.
func Read(
	ctx context.Context, cfg Config, topic string, from map[int]int64, handle func(kafka.Message) error,
) (map[int]int64, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	tr := cfg.transport(topic)
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	offsets, err := awaitOffsets(ctx, cfg, client, topic)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	ends := make(map[int]int64, len(offsets))
	for _, o := range offsets {
		ends[o.Partition] = o.End
		position := max(o.First, from[o.Partition])
		if position >= o.End {
			continue
		}
		if err := readPartition(ctx, client, o, position, cfg.logger(), handle); err != nil {
			return nil, fmt.Errorf("read %s, partition %d: %w", topic, o.Partition, err)
		}
	}
	return ends, nil
}

// awaitOffsets returns the bounds of a topic's partitions, retrying until ctx ends.
func awaitOffsets(ctx context.Context, cfg Config, client *kafka.Client, topic string) ([]PartitionOffsets, error) {
	wait := newBackoff(50*time.Millisecond, 2*time.Second)
	var last error
	for {
		offsets, err := partitionOffsets(ctx, cfg, client, []string{topic})
		if err == nil && len(offsets) > 0 {
			return offsets, nil
		}
		if err == nil {
			err = kafka.UnknownTopicOrPartition
		}
		if ctx.Err() == nil || last == nil { // an error of ctx hides the cause
			last = err
		}
		if !sleep(ctx, wait.NextBackOff()) {
			return nil, fmt.Errorf("%w (last: %w)", context.Cause(ctx), last)
		}
	}
}

func readPartition(
	ctx context.Context, client *kafka.Client, o PartitionOffsets, position int64, logger *slog.Logger,
	handle func(kafka.Message) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	done := false
	f := &fetcher{
		client: client, tp: topicPartition{o.Topic, o.Partition}, position: position,
		maxBytes: maxFetchBytes, maxWait: readWait, logger: slog.New(slog.DiscardHandler),
		onGap: func(ctx context.Context, g gap) { g.logCorrupt(ctx, logger) },
	}
	f.run(ctx, func(_ context.Context, c chunk) bool {
		for i := range c.messages {
			if c.messages[i].Offset >= o.End {
				break
			}
			if failed = handle(c.messages[i]); failed != nil {
				return false
			}
		}
		done = c.next >= o.End || c.drained
		return !done
	})
	if failed != nil {
		return failed
	}
	if !done {
		return fmt.Errorf("stopped at offset %d of %d: %w", f.position, o.End, context.Cause(ctx))
	}
	return nil
}
