package bus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// Scan passes the stored messages of the topics to handle, one at a time and in offset order within a partition. It
// may include messages that are stored concurrently. It stops at an error of handle and returns it. Topics that do not
// exist are skipped. It waits for unavailable brokers until ctx ends.
func Scan(ctx context.Context, cfg Config, topics []string, handle func(kafka.Message) error) error {
	if len(topics) == 0 {
		return nil // an empty list would mean all topics
	}
	bounds, err := EndOffsets(ctx, cfg, topics)
	if err != nil {
		return fmt.Errorf("scan topics: %w", err)
	}
	var present []string
	stored := false
	for _, b := range bounds {
		present = append(present, b.Topic)
		stored = stored || b.End > b.First
	}
	if !stored {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failure error // written by the handler goroutine, read after it has ended
	f := Follow(ctx, cfg, FollowConfig{
		Topics: slices.Compact(present), MaxWait: 50 * time.Millisecond, Logger: cfg.Logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			if failure == nil && ctx.Err() == nil {
				failure = handle(m)
				cancelIf(failure, cancel)
			}
			return nil
		},
	})
	err = f.WaitReady(ctx)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if failure != nil {
		return failure
	}
	if err != nil {
		return fmt.Errorf("scan topics: %w", err)
	}
	return nil
}

// cancelIf cancels with err if it is not nil.
func cancelIf(err error, cancel context.CancelCauseFunc) {
	if err != nil {
		cancel(err)
	}
}

// TopicNames returns the names of the topics that begin with prefix, sorted.
func TopicNames(ctx context.Context, cfg Config, prefix string) ([]string, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("topic names: %w", err)
	}
	tr := cfg.transport()
	defer tr.CloseIdleConnections()
	res, err := cfg.client(tr).Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, fmt.Errorf("topic names: %w", err)
	}
	var names []string
	for _, t := range res.Topics {
		if strings.HasPrefix(t.Name, prefix) {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
