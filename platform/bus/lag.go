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

// PartitionLag is how far a group is behind in one partition.
type PartitionLag struct {
	Topic     string
	Partition int
	Committed int64 // next offset to read; -1: the group never committed
	First     int64 // oldest offset still stored
	End       int64 // the offset the next message will get
	// Lag is the number of offsets between what was committed (or, without a
	// commit, what is oldest) and the end. Offsets removed by compaction count.
	Lag int64
	// Lost is how many offsets the group never read and never will, because
	// retention has overtaken what it committed. Compaction loses nothing: on a
	// topic that is only compacted this is 0.
	Lost int64
}

// PartitionOffsets are the bounds of one partition's log.
type PartitionOffsets struct {
	Topic     string
	Partition int
	First     int64 // oldest offset still stored
	End       int64 // the offset the next message will get
}

// GroupTopics are a consumer group and topics that it consumes.
type GroupTopics struct {
	Group  string
	Topics []string
}

// Lag returns the lag of group in every partition of topics, ordered by topic and
// partition. Topics that do not exist are left out. A coordinator that is not found
// yet, as after a start, is waited for, 10 s at most.
func Lag(ctx context.Context, cfg Config, group string, topics []string) ([]PartitionLag, error) {
	lags, err := Lags(ctx, cfg, []GroupTopics{{group, topics}})
	if err != nil {
		return nil, err
	}
	return lags[0], nil
}

// Lags returns what Lag does for each of several groups. The brokers are asked for the
// bounds of all topics at once.
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
		var theirs []PartitionOffsets
		for _, o := range offsets {
			if slices.Contains(g.Topics, o.Topic) {
				theirs = append(theirs, o)
			}
		}
		if lags[i], err = lagOf(ctx, client, g.Group, theirs); err != nil {
			return nil, fmt.Errorf("lag of group %s: %w", g.Group, err)
		}
	}
	return lags, nil
}

// lagOf is how far a group is behind in partitions with these bounds.
func lagOf(ctx context.Context, client *kafka.Client, group string, offsets []PartitionOffsets) ([]PartitionLag, error) {
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
	policies := make(map[string]string)
	out := make([]PartitionLag, len(offsets))
	for i, o := range offsets {
		c, ok := committed[topicPartition{o.Topic, o.Partition}]
		if !ok {
			c = -1
		}
		out[i] = PartitionLag{Topic: o.Topic, Partition: o.Partition, Committed: c, First: o.First, End: o.End}
		out[i].Lag = max(0, o.End-max(c, o.First))
		if c < 0 || c >= o.First {
			continue
		}
		policy, known := policies[o.Topic]
		if !known {
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

// coordinatorWait is how long a group's coordinator may take to be found: a cluster
// that has just started, or a broker, answers meanwhile that it is not the one.
const coordinatorWait = 10 * time.Second

func committedOffsets(ctx context.Context, client *kafka.Client, req *kafka.OffsetFetchRequest) (*kafka.OffsetFetchResponse, error) {
	return backoff.Retry(ctx, func() (*kafka.OffsetFetchResponse, error) {
		res, err := client.OffsetFetch(ctx, req)
		if err == nil {
			err = res.Error
		}
		var code kafka.Error
		switch {
		case err == nil:
			return res, nil
		case errors.Is(err, kafka.GroupIdNotFound): // nobody has joined it yet
			return &kafka.OffsetFetchResponse{}, nil
		case errors.As(err, &code) && code.Temporary():
			return nil, err // wrapped by the caller
		}
		return nil, backoff.Permanent(err)
	}, backoff.WithBackOff(newBackoff(100*time.Millisecond, time.Second)), backoff.WithMaxElapsedTime(coordinatorWait))
}

// EndOffsets returns the bounds of every partition of topics, ordered by topic and
// partition. Topics that do not exist are left out.
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

// distinct are the topics, each once: several consumers may ask for one.
func distinct(topics []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(topics)))
}

func partitionOffsets(ctx context.Context, cfg Config, client *kafka.Client, topics []string) ([]PartitionOffsets, error) {
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
