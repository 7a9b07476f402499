package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

// oldestConcurrency is the number of partitions that are read concurrently.
const oldestConcurrency = 8

// errFound stops a read at the first message.
var errFound = errors.New("found")

// OldestTimestamps returns, by topic, the timestamp of the oldest message in lags that the group has not committed. It
// omits topics without such messages. It reads one message from each partition.
func OldestTimestamps(ctx context.Context, cfg Config, lags []PartitionLag) (map[string]time.Time, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("oldest messages: %w", err)
	}
	var mu sync.Mutex
	out := map[string]time.Time{}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(oldestConcurrency)
	tr := cfg.transport()
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	for _, l := range lags {
		if l.Lag == 0 {
			continue
		}
		reads.Go(func() error {
			bounds := PartitionOffsets{Topic: l.Topic, Partition: l.Partition, First: l.First, End: l.End}
			position := l.Next
			err := readPartition(ctx, client, bounds, position, cfg.logger(), func(m kafka.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if t, ok := out[l.Topic]; !ok || m.Time.Before(t) {
					out[l.Topic] = m.Time
				}
				return errFound
			})
			if err != nil && !errors.Is(err, errFound) {
				return fmt.Errorf("oldest message of %s, partition %d: %w", l.Topic, l.Partition, err)
			}
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
