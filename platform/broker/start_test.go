package broker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
)

// kfake would not start again with a topic whose name is not a valid directory name.
func TestCreateTopics_RejectsInvalidNames(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	names := map[string]bool{
		strings.Repeat("a", 249): true, "A-Z.a_z09": true,
		strings.Repeat("a", 250): false, ".": false, "..": false, "a/b": false, "a b": false, "ä": false,
		"bad\xff": false, "": false,
	}
	req := &kafka.CreateTopicsRequest{}
	for name := range names {
		req.Topics = append(req.Topics, kafka.TopicConfig{Topic: name, NumPartitions: 1, ReplicationFactor: 1})
	}
	res, err := client.CreateTopics(t.Context(), req)
	require.NoError(t, err)
	for name, good := range names {
		require.Equal(t, good, res.Errors[name] == nil, name)
	}
	require.NoError(t, b.Close())
	serve(t, dir)
}

// Without its topic metadata kfake would overwrite the log.
func TestStart_RequiresTopicMetadata(t *testing.T) {
	for _, name := range []string{"topics.json", "meta.json"} {
		dir := t.TempDir()
		b, cfg := serve(t, dir)
		createTopic(t, cfg, nil)
		send(t, cfg, message("a", "0"))
		require.NoError(t, b.Close())
		path := filepath.Join(dir, "log", name)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, damage := range []func() error{
			func() error { return os.Remove(path) },
			func() error { return os.WriteFile(path, nil, 0o600) },
			func() error { return os.RemoveAll(filepath.Join(dir, "log")) },
		} {
			intact := killed(t, dir)
			require.NoError(t, damage())
			_, err = broker.Start(t.Context(), broker.Config{DataDir: dir})
			require.Error(t, err)
			require.ErrorContains(t, err, filepath.Join(dir, "log"))
			require.ErrorContains(t, err, ".json")
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.CopyFS(dir, os.DirFS(intact)))
		}
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		_, cfg = serve(t, dir)
		require.Equal(t, map[int64]string{0: "0"}, stored(t, cfg))
	}
}

// After Close the last batch is complete, so damage in it is not an incomplete write.
func TestStart_DamagedLastBatchKeepsEndOffsetAfterClose(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopic(t, cfg, nil)
	send(t, cfg, message("a", "0"), message("a", "1"))
	require.NoError(t, b.Close())
	path := filepath.Join(dir, "log", "partitions", "t-0", "0.dat")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	raw[len(raw)-1]++
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	_, cfg = serve(t, dir)
	require.Equal(t, []bus.PartitionOffsets{{Topic: "t", First: 0, End: 2}}, offsets(t, cfg.Brokers[0], "t"))
	send(t, cfg, message("a", "2"))
	require.Equal(t, map[int64]string{0: "0", 2: "2"}, stored(t, cfg))
	originals, err := os.ReadDir(filepath.Join(dir, "damaged"))
	require.NoError(t, err)
	require.Len(t, originals, 1)
}

// A start reads partitions without a snapshot completely, which takes as much memory as they are large.
func TestKill_KeepsSnapshotsOfUnchangedPartitions(t *testing.T) {
	dir := t.TempDir()
	b, cfg := serve(t, dir)
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 1}, bus.Topic{Name: "still", Partitions: 1})
	w := bus.NewWriter(cfg)
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: "still", Value: []byte("x")}}))
	require.NoError(t, w.Close())
	send(t, cfg, message("a", "0"))
	require.NoError(t, b.Close())
	_, cfg = serve(t, dir)
	send(t, cfg, message("a", "1"))
	left := killed(t, dir)
	b = brokertest.StartConfig(t, broker.Config{DataDir: left})
	require.Equal(t, map[int64]string{0: "0", 1: "1"}, stored(t, bus.Config{Brokers: b.Addrs()}))
	require.NoFileExists(t, filepath.Join(left, "log", "partitions", "t-0", "snapshot.json"))
	require.FileExists(t, filepath.Join(left, "log", "partitions", "still-0", "snapshot.json"))
}
