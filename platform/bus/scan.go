package bus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// Scan gives every message that the topics hold now to handle, one at a time, in
// offset order within a partition, and returns then. Messages stored meanwhile may
// be given too. An error of handle ends the scan and is returned. Topics that do
// not exist hold nothing. Failures of the brokers that may pass are waited out
// until ctx ends.
func Scan(ctx context.Context, cfg Config, topics []string, handle func(kafka.Message) error) error {
	if len(topics) == 0 {
		return nil // asking for none would be asking for all
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
	var failure error // written by the one goroutine that handles, read once it has ended
	f := Follow(ctx, cfg, FollowConfig{
		Topics: slices.Compact(present), MaxWait: 50 * time.Millisecond, Logger: cfg.Logger,
		Handle: func(ctx context.Context, m kafka.Message) error {
			if failure == nil && ctx.Err() == nil {
				failure = handle(m)
				cancelOn(failure, cancel)
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

// cancelOn cancels with an error, if there is one.
func cancelOn(err error, cancel context.CancelCauseFunc) {
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
