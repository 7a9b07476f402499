package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"
)

// rewindWait is how long members of a group whose process was killed are waited for: sessions last 10 s by default.
const rewindWait = time.Minute

// Rewind commits the beginning of every partition that a group has committed beyond it, so that the group reads
// everything again, and reports whether there was one. The group must have no members; those of a killed process are
// waited for.
func Rewind(ctx context.Context, cfg Config, group string, topics []string) (rewound bool, err error) {
	lags, err := Lag(ctx, cfg, group, topics)
	if err != nil {
		return false, fmt.Errorf("rewind: %w", err)
	}
	back := make(map[string][]kafka.OffsetCommit)
	for _, l := range lags {
		if l.Committed > l.First {
			back[l.Topic] = append(back[l.Topic], kafka.OffsetCommit{Partition: l.Partition, Offset: l.First})
		}
	}
	if len(back) == 0 {
		return false, nil
	}
	tr := cfg.transport(topics...)
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	req := &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: back}
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := commitOnce(ctx, client, req)
		var code kafka.Error
		members := errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.IllegalGeneration)
		if errors.As(err, &code) && !code.Temporary() && !members {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(newBackoff(100*time.Millisecond, 2*time.Second)), backoff.WithMaxElapsedTime(rewindWait))
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
