package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
)

// Topics runs the suite of EnsureTopics, Lag, Oldest, WriteAll and Follow.
func Topics(t *testing.T, c *Cluster) {
	for name, test := range map[string]func(*testing.T, *Cluster){
		"EnsureCreatesAndCompares":      ensureCreatesAndCompares,
		"EnsureConcurrently":            ensureConcurrently,
		"LagOfUnknownGroupOrTopic":      lagOfUnknownGroupOrTopic,
		"OldestUncommittedMessage":      oldestUncommittedMessage,
		"WriteKeepsOrderOfKeys":         writeKeepsOrderOfKeys,
		"WriteToUnknownTopicIsRejected": writeToUnknownTopicIsRejected,
		"FollowFromBeginning":           followFromBeginning,
		"FollowFromEnd":                 followFromEnd,
		"FollowRetries":                 followRetries,
		"FollowEmpty":                   followEmpty,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func ensureCreatesAndCompares(t *testing.T, c *Cluster) {
	ctx, cfg := t.Context(), c.Config
	compacted := bus.Topic{
		Name: newID("test"), Partitions: 3, Replication: 1,
		Config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
	}
	plain := bus.Topic{Name: newID("test"), Partitions: 2}
	require.NoError(t, bus.EnsureTopics(ctx, cfg, []bus.Topic{compacted}))
	require.NoError(t, bus.EnsureTopics(ctx, cfg, []bus.Topic{compacted, plain}), "one exists, one is missing")
	require.NoError(t, bus.EnsureTopics(ctx, cfg, []bus.Topic{compacted, plain}))
	compacted.Config["cleanup.policy"] = "delete, compact"
	require.NoError(t, bus.EnsureTopics(ctx, cfg, []bus.Topic{compacted}), "the order of lists does not matter")

	another := bus.Topic{Name: newID("test"), Partitions: 1}
	wrong := bus.Topic{
		Name: compacted.Name, Partitions: 4,
		Config: map[string]string{"cleanup.policy": "compact", "retention.ms": "86400000"},
	}
	var mismatch *bus.MismatchError
	require.ErrorAs(t, bus.EnsureTopics(ctx, cfg, []bus.Topic{wrong, another}), &mismatch)
	require.Equal(t, []bus.Mismatch{
		{Topic: compacted.Name, Setting: "partitions", Want: "4", Got: "3"},
		{Topic: compacted.Name, Setting: "cleanup.policy", Want: "compact", Got: "compact,delete"},
	}, mismatch.Mismatches)
	offsets, err := bus.EndOffsets(ctx, cfg, []string{compacted.Name, another.Name})
	require.NoError(t, err)
	require.Len(t, offsets, 4, "the existing topic is unchanged, the missing one is created")
	require.NoError(t, bus.EnsureTopics(ctx, cfg, nil))
	require.Error(t, bus.EnsureTopics(ctx, cfg, []bus.Topic{{Name: "no spaces allowed", Partitions: 1}}))
}

func ensureConcurrently(t *testing.T, c *Cluster) {
	var topics []bus.Topic
	for range 5 {
		topics = append(topics, bus.Topic{Name: newID("test"), Partitions: 2})
	}
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { errs[i] = bus.EnsureTopics(t.Context(), c.Config, topics) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func oldestUncommittedMessage(t *testing.T, c *Cluster) {
	topic, began := Topic(t, c.Config, 2, nil), time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	w := bus.NewWriter(c.Config)
	defer func() { require.NoError(t, w.Close()) }()
	for i := range 10 {
		at := began.Add(time.Duration(i) * time.Minute)
		m := kafka.Message{Topic: topic, Key: []byte("one"), Value: []byte("x"), Time: at}
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
	}
	ends, err := bus.EndOffsets(t.Context(), c.Config, []string{topic})
	require.NoError(t, err)
	var lags []bus.PartitionLag
	for _, e := range ends {
		committed := min(4, e.End)
		lags = append(lags, bus.PartitionLag{
			Topic: topic, Partition: e.Partition, Next: committed, End: e.End, Lag: e.End - committed,
		})
	}
	oldest, err := bus.OldestTimestamps(t.Context(), c.Config, lags)
	require.NoError(t, err)
	require.Len(t, oldest, 1)
	require.WithinDuration(t, began.Add(4*time.Minute), oldest[topic], time.Millisecond)
	for i := range lags {
		lags[i].Next, lags[i].Lag = lags[i].End, 0
	}
	oldest, err = bus.OldestTimestamps(t.Context(), c.Config, lags)
	require.NoError(t, err)
	require.Empty(t, oldest)
}

func lagOfUnknownGroupOrTopic(t *testing.T, c *Cluster) {
	topic := Topic(t, c.Config, 2, nil)
	Produce(t, Writer(t, c.Config), topic, 0, 10)
	lag, err := bus.Lag(t.Context(), c.Config, newID("group"), []string{topic, newID("missing")})
	require.NoError(t, err)
	require.Len(t, lag, 2)
	var sum int64
	for _, p := range lag {
		require.Equal(t, int64(-1), p.Committed)
		sum += p.Lag
	}
	require.Equal(t, int64(10), sum)
	lag, err = bus.Lag(t.Context(), c.Config, newID("group"), []string{newID("missing")})
	require.NoError(t, err)
	require.Empty(t, lag)
}

func writeKeepsOrderOfKeys(t *testing.T, c *Cluster) {
	topic := Topic(t, c.Config, 4, nil)
	w := Writer(t, c.Config, bus.WithBatch(50, 0))
	const keys, versions = 20, 100
	var msgs []kafka.Message
	for v := range versions {
		for k := range keys {
			msgs = append(msgs, kafka.Message{Topic: topic, Key: fmt.Append(nil, k), Value: fmt.Append(nil, v)})
		}
	}
	require.NoError(t, bus.WriteAll(t.Context(), w, msgs))
	next := make(map[string]int)
	check := func(_ context.Context, m kafka.Message) error {
		if want := fmt.Sprint(next[string(m.Key)]); want != string(m.Value) {
			t.Errorf("key %s: version %s, expected %s", m.Key, m.Value, want)
		}
		next[string(m.Key)]++
		return nil
	}
	f := bus.Follow(t.Context(), c.Config, bus.FollowConfig{Topics: []string{topic}, Handle: check})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	require.Len(t, next, keys)
}

func writeToUnknownTopicIsRejected(t *testing.T, c *Cluster) {
	if testing.Short() {
		t.Log("skipped in short mode: waits for the timeout of unknown topics")
		return
	}
	var rejected *bus.RejectedError
	err := bus.WriteAll(t.Context(), Writer(t, c.Config), Messages(newID("missing"), 0, 3))
	require.ErrorAs(t, err, &rejected)
	require.Len(t, rejected.Messages, 3)
	require.ErrorIs(t, err, kafka.UnknownTopicOrPartition)
	Eventually(t, func() bool {
		_, err := bus.EndOffsets(t.Context(), c.Config, []string{rejected.Messages[0].Topic})
		return err == nil
	}, "offsets of a missing topic")
}

func followFromBeginning(t *testing.T, c *Cluster) {
	topics := []string{
		Topic(t, c.Config, 3, map[string]string{"cleanup.policy": "compact"}), Topic(t, c.Config, 1, nil),
	}
	w := Writer(t, c.Config)
	Produce(t, w, topics[0], 0, 300)
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{
		{Topic: topics[1], Key: []byte("deleted")},
		{Topic: topics[1], Key: []byte{}, Value: []byte{}},
		{Topic: topics[1], Value: []byte("no key")},
	}))
	var n atomic.Int64
	var odd []kafka.Message
	collect := func(_ context.Context, m kafka.Message) error {
		n.Add(1)
		if m.Topic == topics[1] && len(odd) < 3 {
			odd = append(odd, m)
		}
		return nil
	}
	f := bus.Follow(t.Context(), c.Config, bus.FollowConfig{Topics: topics, Handle: collect})
	require.NoError(t, f.WaitReady(t.Context()))
	require.Equal(t, int64(303), n.Load(), "all messages are handled when ready")
	require.Nil(t, odd[0].Value, "a tombstone has a nil value, not an empty one")
	require.Equal(t, []byte{}, odd[1].Value)
	require.Equal(t, []byte{}, odd[1].Key)
	require.Nil(t, odd[2].Key)
	Produce(t, w, topics[0], 300, 10)
	Eventually(t, func() bool { return n.Load() == 313 }, "later messages")
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	select {
	case <-f.Done():
	default:
		t.Error("Done is open after Close")
	}
}

func followFromEnd(t *testing.T, c *Cluster) {
	topic := Topic(t, c.Config, 3, nil)
	w := Writer(t, c.Config)
	Produce(t, w, topic, 0, 100)
	got := make(chan string, 100)
	send := func(_ context.Context, m kafka.Message) error {
		got <- string(m.Value)
		return nil
	}
	f := bus.Follow(t.Context(), c.Config, bus.FollowConfig{Topics: []string{topic}, FromEnd: true, Handle: send})
	require.NoError(t, f.WaitReady(t.Context()))
	Produce(t, w, topic, 100, 1)
	require.Equal(t, "v100", <-got)
	require.NoError(t, f.Close())
	require.Empty(t, got)
}

func followRetries(t *testing.T, c *Cluster) {
	topic := Topic(t, c.Config, 1, nil)
	Produce(t, Writer(t, c.Config), topic, 0, 3)
	var seen []string
	handle := func(_ context.Context, m kafka.Message) error {
		seen = append(seen, string(m.Value))
		if len(seen) < 3 {
			return errors.New("not yet")
		}
		return nil
	}
	f := bus.Follow(t.Context(), c.Config, bus.FollowConfig{Topics: []string{topic}, Handle: handle})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	require.Equal(t, []string{"v0", "v0", "v0", "v1", "v2"}, seen)
}

func followEmpty(t *testing.T, c *Cluster) {
	topic := Topic(t, c.Config, 3, nil)
	ignore := func(context.Context, kafka.Message) error { return nil }
	f := bus.Follow(t.Context(), c.Config, bus.FollowConfig{Topics: []string{topic}, Handle: ignore})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	bad := bus.Follow(t.Context(), bus.Config{}, bus.FollowConfig{})
	require.Error(t, bad.WaitReady(t.Context()))
	require.Error(t, bad.Close())
}
