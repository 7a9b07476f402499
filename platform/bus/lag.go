package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"
)

// PartitionLag is the lag of a group in one partition.
type PartitionLag struct {
	Topic     string
	Partition int
	Committed int64 // -1: no commit
	First     int64 // log start offset
	End       int64 // offset of the next message
	// Next is the offset that the group reads next: Committed, or First if the log does not have Committed. A consumer
	// starts over if Committed is past the end, as in a recreated topic.
	Next int64
	// Lag is the number of offsets from Next to End. It includes offsets removed by compaction.
	Lag int64
	// Lost is the number of offsets that retention removed before the group read them. It is 0 if the topic is only
	// compacted: compaction loses nothing.
	Lost int64
}

// PartitionOffsets are the log bounds of one partition.
type PartitionOffsets struct {
	Topic     string
	Partition int
	First     int64 // log start offset
	End       int64 // offset of the next message
}

// GroupTopics is a consumer group and the topics it consumes.
type GroupTopics struct {
	Group  string
	Topics []string
}

// Lag returns the lag of group in every partition of topics, sorted by topic and partition. It omits topics that do not
// exist. It waits up to 10 s for the group coordinator, which may be unavailable after a start.
func Lag(ctx context.Context, cfg Config, group string, topics []string) ([]PartitionLag, error) {
	lags, err := Lags(ctx, cfg, []GroupTopics{{group, topics}})
	if err != nil {
		return nil, err
	}
	return lags[0], nil
}

// Lags returns the result of Lag for each of several groups. It requests the bounds of all topics together.
func Lags(ctx context.Context, cfg Config, groups []GroupTopics) ([][]PartitionLag, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("lag: %w", err)
	}
	var topics []string
	for _, g := range groups {
		topics = append(topics, g.Topics...)
	}
	topics = distinct(topics)
	tr := cfg.transport(topics...)
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	offsets, err := partitionOffsets(ctx, cfg, client, topics)
	if err != nil {
		return nil, fmt.Errorf("lag: %w", err)
	}
	lags := make([][]PartitionLag, len(groups))
	for i, g := range groups {
		var own []PartitionOffsets
		for _, o := range offsets {
			if slices.Contains(g.Topics, o.Topic) {
				own = append(own, o)
			}
		}
		if lags[i], err = groupLag(ctx, client, g.Group, own); err != nil {
			return nil, fmt.Errorf("lag of group %s: %w", g.Group, err)
		}
	}
	return lags, nil
}

// groupLag returns the lag of a group in partitions with the given bounds.
func groupLag(
	ctx context.Context, client *kafka.Client, group string, offsets []PartitionOffsets,
) ([]PartitionLag, error) {
	if len(offsets) == 0 {
		return nil, nil
	}
	req := &kafka.OffsetFetchRequest{GroupID: group, Topics: make(map[string][]int)}
	for _, o := range offsets {
		req.Topics[o.Topic] = append(req.Topics[o.Topic], o.Partition)
	}
	res, err := committedOffsets(ctx, client, req)
	if err != nil {
		return nil, fmt.Errorf("committed offsets: %w", err)
	}
	committed := make(map[topicPartition]int64)
	for topic, parts := range res.Topics {
		for _, p := range parts {
			if p.Error != nil {
				return nil, fmt.Errorf("committed offset of %s/%d: %w", topic, p.Partition, p.Error)
			}
			committed[topicPartition{topic, p.Partition}] = p.CommittedOffset
		}
	}
	if offsets, err = refreshPassed(ctx, client, offsets, committed); err != nil {
		return nil, err
	}
	policies := make(map[string]string)
	out := make([]PartitionLag, len(offsets))
	for i, o := range offsets {
		c, ok := committed[topicPartition{o.Topic, o.Partition}]
		if !ok {
			c = -1
		}
		next := max(c, o.First)
		if c > o.End {
			next = o.First
		}
		out[i] = PartitionLag{
			Topic: o.Topic, Partition: o.Partition, Committed: c, First: o.First, End: o.End, Next: next, Lag: o.End - next,
		}
		if c < 0 || c >= o.First {
			continue
		}
		policy, ok := policies[o.Topic]
		if !ok {
			if policy, err = cleanupPolicy(ctx, client, o.Topic); err != nil {
				return nil, err
			}
			policies[o.Topic] = policy
		}
		if policy != compactOnly {
			out[i].Lost = o.First - c
		}
	}
	return out, nil
}

// refreshPassed returns offsets with the current bounds of the partitions whose committed offset is past the end. The
// bounds were read before the committed offsets, which a log that grew meanwhile may have passed.
func refreshPassed(
	ctx context.Context, client *kafka.Client, offsets []PartitionOffsets, committed map[topicPartition]int64,
) ([]PartitionOffsets, error) {
	var passed []topicPartition
	for _, o := range offsets {
		if tp := (topicPartition{o.Topic, o.Partition}); committed[tp] > o.End {
			passed = append(passed, tp)
		}
	}
	current, err := listOffsets(ctx, client, passed)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(offsets) // other groups have the same
	for _, c := range current {
		i := slices.IndexFunc(out, func(o PartitionOffsets) bool {
			return o.Topic == c.Topic && o.Partition == c.Partition
		})
		out[i] = c
	}
	return out, nil
}

// coordinatorTimeout is how long committedOffsets waits for the group coordinator. A broker or cluster that has just
// started answers that it is not the coordinator.
const coordinatorTimeout = 10 * time.Second

func committedOffsets(
	ctx context.Context, client *kafka.Client, req *kafka.OffsetFetchRequest,
) (*kafka.OffsetFetchResponse, error) {
	return backoff.Retry(ctx, func() (*kafka.OffsetFetchResponse, error) {
		res, err := client.OffsetFetch(ctx, req)
		if err == nil {
			err = res.Error
		}
		var code kafka.Error
		switch {
		case err == nil:
			return res, nil
		case errors.Is(err, kafka.GroupIdNotFound): // the group has never had a member
			return &kafka.OffsetFetchResponse{}, nil
		case errors.As(err, &code) && code.Temporary():
			return nil, err // retried; wrapped by the caller
		}
		return nil, backoff.Permanent(err)
	}, backoff.WithMaxElapsedTime(coordinatorTimeout),
		backoff.WithBackOff(newBackoff(100*time.Millisecond, time.Second)))
}

// EndOffsets returns the bounds of every partition of topics, sorted by topic and partition. It omits topics that do
// not exist.
func EndOffsets(ctx context.Context, cfg Config, topics []string) ([]PartitionOffsets, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("end offsets: %w", err)
	}
	topics = distinct(topics)
	tr := cfg.transport(topics...)
	defer tr.CloseIdleConnections()
	out, err := partitionOffsets(ctx, cfg, cfg.client(tr), topics)
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w", err)
	}
	return out, nil
}

// distinct returns the topics sorted and without duplicates.
func distinct(topics []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(topics)))
}

func partitionOffsets(
	ctx context.Context, cfg Config, client *kafka.Client, topics []string,
) ([]PartitionOffsets, error) {
	meta, err := fetchTopics(ctx, cfg, topics)
	if err != nil {
		return nil, err
	}
	var tps []topicPartition
	for name, t := range meta {
		for _, p := range t.Partitions {
			tps = append(tps, topicPartition{name, p.ID})
		}
	}
	return listOffsets(ctx, client, tps)
}

type topicPartition struct {
	topic     string
	partition int
}
