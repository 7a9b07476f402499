package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"
)

// rewindTimeout is how long Rewind waits until the members of a killed process time out. Sessions last 10 s by default.
const rewindTimeout = time.Minute

// Rewind resets the committed offsets of a group to the log start, so that it reads everything again. It reports
// whether there was anything to reset. The group must have no members; it waits for those of a killed process to time
// out.
func Rewind(ctx context.Context, cfg Config, group string, topics []string) (rewound bool, err error) {
	lags, err := Lag(ctx, cfg, group, topics)
	if err != nil {
		return false, fmt.Errorf("rewind: %w", err)
	}
	resets := make(map[string][]kafka.OffsetCommit)
	for _, l := range lags {
		if l.Committed > l.First {
			resets[l.Topic] = append(resets[l.Topic], kafka.OffsetCommit{Partition: l.Partition, Offset: l.First})
		}
	}
	if len(resets) == 0 {
		return false, nil
	}
	tr := cfg.transport(topics...)
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	req := &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: resets}
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := commitOnce(ctx, client, req)
		var code kafka.Error
		hasMembers := errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.IllegalGeneration)
		if errors.As(err, &code) && !code.Temporary() && !hasMembers {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(newBackoff(100*time.Millisecond, 2*time.Second)), backoff.WithMaxElapsedTime(rewindTimeout))
	if err != nil {
		return false, fmt.Errorf("rewind group %s: %w", group, err)
	}
	return true, nil
}

func commitOnce(ctx context.Context, client *kafka.Client, req *kafka.OffsetCommitRequest) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := client.OffsetCommit(ctx, req)
	if err != nil {
		return err
	}
	for topic, partitions := range res.Topics {
		for _, p := range partitions {
			if p.Error != nil {
				return fmt.Errorf("%s/%d: %w", topic, p.Partition, p.Error)
			}
		}
	}
	return nil
}
