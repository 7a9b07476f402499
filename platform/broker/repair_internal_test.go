package broker

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
)

func TestCompact_AppliesOnlyRetentionIfDiskSpaceIsLow(t *testing.T) {
	b, err := Start(t.Context(), Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	cfg := bus.Config{Brokers: b.Addrs()}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{
		{Name: "compacted", Partitions: 1, Config: map[string]string{"cleanup.policy": "compact,delete"}},
		{Name: "retained", Partitions: 1, Config: map[string]string{"retention.ms": "1"}},
	}))
	stored := func(topic string) int64 {
		o, err := bus.EndOffsets(t.Context(), cfg, []string{topic})
		require.NoError(t, err)
		return o[0].End - o[0].First
	}
	fill(t, b, "retained", 1000)
	<-time.After(5 * time.Millisecond)
	b.free = func(string) (int64, error) { return reservedBytes, nil }
	require.NoError(t, b.Compact(t.Context()), "retention alone needs no disk space")
	require.Zero(t, stored("retained"))

	fill(t, b, "retained", 10)
	fill(t, b, "compacted", 100)
	<-time.After(5 * time.Millisecond)
	b.free = func(string) (int64, error) { return reservedBytes + 150_000, nil }
	require.ErrorIs(t, b.Compact(t.Context()), ErrInsufficientDiskSpace)
	require.NoDirExists(t, filepath.Join(b.dir, backupDir))
	require.Zero(t, stored("retained"))
	require.EqualValues(t, 100, stored("compacted"))
	fill(t, b, "compacted", 1) // the broker still accepts messages
	b.free = freeDiskBytes
	require.NoError(t, b.Compact(t.Context()))
	require.Less(t, stored("compacted"), int64(5))
}

// fill writes n records of 1 kB.
func fill(t *testing.T, b *Broker, topic string, n int) {
	t.Helper()
	w := bus.NewWriter(bus.Config{Brokers: b.Addrs()})
	w.Compression = 0
	m := kafka.Message{Topic: topic, Key: []byte("k"), Value: []byte(strings.Repeat("x", 1000))}
	for range n {
		require.NoError(t, w.WriteMessages(t.Context(), m))
	}
	require.NoError(t, w.Close())
}

func TestRepairLog_RemovesOnlyIncompleteWrites(t *testing.T) {
	dir := t.TempDir()
	b, err := Start(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	topics := []bus.Topic{{Name: "t", Partitions: 1}}
	require.NoError(t, bus.EnsureTopics(t.Context(), bus.Config{Brokers: b.Addrs()}, topics))
	fill(t, b, "t", 10)
	client := &kafka.Client{Addr: kafka.TCP(b.Addrs()...)}
	_, err = client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "g", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"t": {{Partition: 0, Offset: 7}}},
	})
	require.NoError(t, err)
	require.NoError(t, b.Close())

	groups := filepath.Join(dir, "log", "groups.log")
	segment := filepath.Join(partitionsDir(dir), "t-0", "0.dat")
	index := filepath.Join(partitionsDir(dir), "t-0", "0.idx")
	read := func() (out [3]string) {
		for i, path := range []string{groups, segment, index} {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			out[i] = string(raw)
		}
		return out
	}
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	repair := func() (cut int) {
		n, err := repairLog(dir, false, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return int(n)
	}
	whole := read()
	require.Len(t, whole[2], 10*indexEntryBytes)
	require.Zero(t, repair())
	require.Equal(t, whole, read())

	for n := 1; n < 40; n++ {
		write(groups, whole[0]+whole[0][:n])
		require.Equal(t, n, repair())
		require.Equal(t, whole, read())
	}
	damaged := []byte(whole[0])
	damaged[len(damaged)-1]++
	write(groups, string(damaged))
	require.NotZero(t, repair())
	require.Less(t, len(read()[0]), len(whole[0]))
	write(groups, whole[0])

	entry := strings.Repeat("\x00", indexEntryBytes)
	for n := range indexEntryBytes { // the last batch was not acknowledged
		write(index, whole[2][:9*indexEntryBytes+n])
		require.Equal(t, n, repair())
		require.Equal(t, whole[2][:9*indexEntryBytes]+entry, read()[2])
	}
	write(index, whole[2][:9*indexEntryBytes])
	write(segment, whole[1][:len(whole[1])-1]) // its batch is incomplete as well, unless Close has seen it
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(segment), snapshotFile)))
	require.Equal(t, len(whole[1])/10-1, repair())
	require.Equal(t, whole[1][:len(whole[1])/10*9], read()[1])
	require.Equal(t, whole[2][:9*indexEntryBytes], read()[2])
}
