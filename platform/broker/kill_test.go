package broker_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
)

// killed copies a data directory, as a kill at this moment would leave it.
func killed(t *testing.T, dir string) string {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	require.NoError(t, os.CopyFS(left, os.DirFS(dir)))
	return left
}

func serve(t *testing.T, dir string) (*broker.Broker, bus.Config) {
	t.Helper()
	b := brokertest.StartConfig(t, broker.Config{DataDir: dir})
	return b, bus.Config{Brokers: b.Addrs()}
}

func createTopic(t *testing.T, cfg bus.Config, config map[string]string) {
	t.Helper()
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 1, Config: config})
}

// send writes each message as a separate batch. A message without a value deletes its key.
func send(t *testing.T, cfg bus.Config, messages ...kafka.Message) {
	t.Helper()
	w := bus.NewWriter(cfg)
	defer func() { require.NoError(t, w.Close()) }()
	for _, m := range messages {
		m.Topic = "t"
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
	}
}

func message(key, value string) kafka.Message {
	return kafka.Message{Key: []byte(key), Value: []byte(value)}
}

// stored returns the values of topic t by offset.
func stored(t *testing.T, cfg bus.Config) map[int64]string {
	t.Helper()
	out := make(map[int64]string)
	_, err := bus.Read(t.Context(), cfg, "t", nil, func(m kafka.Message) error {
		out[m.Offset] = string(m.Value)
		return nil
	})
	require.NoError(t, err)
	return out
}

// A compaction may leave a segment of the size that it had at the last Close, with later messages in it.
func TestKill_AfterCompactionThatKeepsSegmentSize(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopic(t, cfg, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "1"})
	roll := func() {
		<-time.After(2 * time.Millisecond)
		send(t, cfg, kafka.Message{Key: []byte("roll")})
		require.NoError(t, b.Compact(t.Context()))
	}
	send(t, cfg, message("a", "person"))
	roll()
	require.NoError(t, b.Close())
	b, cfg = serve(t, dir)
	roll()
	roll()
	_, cfg = serve(t, killed(t, dir))
	require.Equal(t, map[int64]string{0: "person", 3: ""}, stored(t, cfg))
	send(t, cfg, message("b", "new"))
	require.Equal(t, map[int64]string{0: "person", 3: "", 4: "new"}, stored(t, cfg))
}

// The log start offset within a segment is saved only by Close.
func TestClose_SavesLogStartOffset(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopic(t, cfg, nil)
	send(t, cfg, message("a", "0"), message("a", "1"))
	require.NoError(t, b.Cluster().DeleteRecords("t", 0, 1))
	require.NoError(t, b.Close())
	other := brokertest.Start(t)
	_, err := broker.Start(t.Context(), broker.Config{DataDir: dir, Addr: other.Addrs()[0]})
	require.Error(t, err, "the port is in use")
	_, cfg = serve(t, dir)
	require.Equal(t, map[int64]string{1: "1"}, stored(t, cfg))
	_, cfg = serve(t, killed(t, dir))
	send(t, cfg, message("a", "2"))
	require.Equal(t, "2", stored(t, cfg)[2])
}

func TestKill_TopicDeletedDuringCompactionStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopic(t, cfg, nil)
	send(t, cfg, message("a", "old, and longer"), message("b", "old"))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "compacting"), os.DirFS(filepath.Join(dir, "log", "partitions"))))
	require.NoError(t, b.Cluster().DeleteTopic("t"))
	dir = killed(t, dir)
	_, cfg = serve(t, dir)
	createTopic(t, cfg, nil)
	send(t, cfg, message("c", "new"))
	require.Equal(t, map[int64]string{0: "new"}, stored(t, cfg))
	_, cfg = serve(t, killed(t, dir))
	require.Equal(t, map[int64]string{0: "new"}, stored(t, cfg))
}

func TestRetention_DefaultKeepsOldMessages(t *testing.T) {
	b, cfg := serve(t, t.TempDir())
	createTopic(t, cfg, map[string]string{"cleanup.policy": "compact"})
	old := message("a", "old")
	old.Time = time.Now().AddDate(0, 0, -8)
	send(t, cfg, old, message("b", "new"))
	require.NoError(t, b.Compact(t.Context()))
	require.Equal(t, map[int64]string{0: "old", 1: "new"}, stored(t, cfg))
}

func TestStart_DamagedBatchLosesOnlyItsMessages(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopic(t, cfg, nil)
	send(t, cfg, message("a", "0"), message("a", "1"), message("a", "2"))
	require.NoError(t, b.Close())
	path := filepath.Join(dir, "log", "partitions", "t-0", "0.dat")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	raw[len(raw)/2] ^= 1
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	for range 2 {
		b, cfg = serve(t, dir)
		require.Equal(t, map[int64]string{0: "0", 2: "2"}, stored(t, cfg))
		require.NoError(t, b.Close())
	}
}

func TestProduce_CompactedTopicRejectsMessagesWithoutKey(t *testing.T) {
	_, cfg := serve(t, t.TempDir())
	keyed := bus.Topic{Name: "t", Partitions: 1, Config: map[string]string{"cleanup.policy": "compact,delete"}}
	createTopics(t, cfg, keyed, bus.Topic{Name: "plain", Partitions: 1})
	for codec := range kafka.Compression(2) {
		w := bus.NewWriter(cfg)
		w.Compression = codec
		keyless := kafka.Message{Topic: "t", Value: []byte("lost")}
		require.ErrorIs(t, bus.WriteAll(t.Context(), w, []kafka.Message{keyless}), kafka.InvalidRecord)
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{
			{Topic: "plain", Value: []byte("kept")}, {Topic: "t", Key: []byte{}, Value: []byte("kept")},
		}))
		require.NoError(t, w.Close())
	}
	require.Equal(t, map[int64]string{0: "kept", 1: "kept"}, stored(t, cfg))
}

// A message with an old timestamp does not remove earlier messages, also after a restart, and one with a future
// timestamp does not retain later messages.
func TestRetention_TimestampsOutOfOrder(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopic(t, cfg, map[string]string{"retention.ms": "86400000"})
	at := func(value string, days int) kafka.Message {
		m := message("a", value)
		m.Time = time.Now().AddDate(0, 0, days)
		return m
	}
	send(t, cfg, at("expired", -2), at("new", 0), at("old", -2))
	require.NoError(t, b.Close())
	b, cfg = serve(t, dir)
	send(t, cfg, at("older", -3))
	require.NoError(t, b.Compact(t.Context()))
	require.Equal(t, map[int64]string{1: "new", 2: "old", 3: "older"}, stored(t, cfg))

	createTopics(t, cfg, bus.Topic{Name: "short", Partitions: 1, Config: map[string]string{"retention.ms": "1"}})
	w := bus.NewWriter(cfg)
	defer func() { require.NoError(t, w.Close()) }()
	for _, m := range []kafka.Message{at("future", 400), at("now", 0)} {
		m.Topic = "short"
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
	}
	<-time.After(5 * time.Millisecond)
	require.NoError(t, b.Compact(t.Context()))
	want := []bus.PartitionOffsets{{Topic: "short", First: 2, End: 2}}
	require.EqualValues(t, want, offsets(t, b.Addrs()[0], "short"))
}
