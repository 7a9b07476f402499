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

// oldestAtOnce is how many partitions are asked at a time.
const oldestAtOnce = 8

// errFound ends a fetch that has what it was for.
var errFound = errors.New("found")

// Oldest returns, by topic, the timestamp of the oldest message that a group has
// not committed, of those partitions of lags that have any. Topics that
// have none, or nothing but gaps, are left out. It reads one message a partition.
func Oldest(ctx context.Context, cfg Config, lags []PartitionLag) (map[string]time.Time, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("oldest messages: %w", err)
	}
	var mu sync.Mutex
	out := map[string]time.Time{}
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(oldestAtOnce)
	tr := cfg.transport()
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	for _, l := range lags {
		if l.Lag == 0 {
			continue
		}
		asking.Go(func() error {
			position := max(l.Committed, l.First)
			err := readPartition(ctx, client, PartitionOffsets{Topic: l.Topic, Partition: l.Partition, First: l.First, End: l.End}, position, cfg.logger(),
				func(m kafka.Message) error {
					mu.Lock()
					defer mu.Unlock()
					if t, known := out[l.Topic]; !known || m.Time.Before(t) {
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
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
