package broker_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/bus"
)

func TestStart_RefusesALogThatEndsBeforeItsSnapshot(t *testing.T) {
	closed := t.TempDir()
	b, cfg := serve(t, closed)
	createTopic(t, cfg, map[string]string{"segment.bytes": "200"})
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: "empty", Partitions: 1}}))
	for range 4 {
		send(t, cfg, message("a", "x"), message("a", "y"))
	}
	require.NoError(t, b.Close())
	data, err := filepath.Glob(filepath.Join(closed, "log", "partitions", "t-0", "*.dat"))
	require.NoError(t, err)
	require.Greater(t, len(data), 2)
	size := func(path string) int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	lastBatch := int64(0) // of the last segment
	raw, err := os.ReadFile(data[len(data)-1])
	require.NoError(t, err)
	for rest := raw; len(rest) > 0; {
		lastBatch = 12 + int64(rest[8])<<24 + int64(rest[9])<<16 + int64(rest[10])<<8 + int64(rest[11])
		rest = rest[lastBatch:]
	}
	truncate := func(n int, keep func(size int64) int64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "log", "partitions", "t-0", filepath.Base(data[n]))
			require.NoError(t, os.Truncate(path, keep(size(path))))
		}
	}
	remove := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "log", "partitions", name)))
			}
		}
	}
	nothing := func(int64) int64 { return 0 }
	first, last := 0, len(data)-1
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		says  string // "": it starts
		all   bool   // without a loss
		full  bool   // all messages are there
		topic string
	}{
		"the last segment is empty":                         {spoil: truncate(last, nothing), says: "is empty"},
		"the first segment is empty":                        {spoil: truncate(first, nothing), says: "is empty"},
		"it ends at an earlier record":                      {spoil: truncate(last, func(n int64) int64 { return n - lastBatch }), says: "ends at offset"},
		"it ends within an earlier record":                  {spoil: truncate(last, func(n int64) int64 { return n - lastBatch - 3 }), says: "no message that can be read"},
		"it ends within its last record":                    {spoil: truncate(last, func(n int64) int64 { return n - 3 })},
		"it ends within its last header":                    {spoil: truncate(last, func(n int64) int64 { return n - lastBatch + 20 })},
		"a segment is missing":                              {spoil: remove(filepath.Join("t-0", filepath.Base(data[1]))), says: "is missing"},
		"the last segment is missing":                       {spoil: remove(filepath.Join("t-0", filepath.Base(data[last]))), says: "is missing"},
		"the folder is missing":                             {spoil: remove("t-0"), says: "folder is missing"},
		"the folder of a topic without messages is missing": {spoil: remove("empty-0"), says: "folder is missing", topic: "empty", full: true},
		"the snapshot is missing":                           {spoil: remove(filepath.Join("t-0", "snapshot.json")), says: "snapshot.json is missing", full: true},
		"all but the folder is missing": {spoil: func(t *testing.T, dir string) {
			remove("t-0")(t, dir)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "log", "partitions", "t-0"), 0o700))
		}, says: "snapshot.json is missing"},
		"the snapshot is empty": {spoil: func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "log", "partitions", "t-0", "snapshot.json"), 0))
		}, says: "cannot be read", full: true},
		"the last segment is zeros": {spoil: func(t *testing.T, dir string) {
			path := filepath.Join(dir, "log", "partitions", "t-0", filepath.Base(data[last]))
			require.NoError(t, os.WriteFile(path, make([]byte, size(path)), 0o600))
		}, says: "no message that can be read"},
		"an index is missing": {spoil: remove(filepath.Join("t-0", strings.TrimSuffix(filepath.Base(data[last]), ".dat")+".idx")), all: true},
		"nothing":             {spoil: func(*testing.T, string) {}, all: true},
		"it is empty, and was not closed": {spoil: func(t *testing.T, dir string) {
			for n := range data {
				truncate(n, nothing)(t, dir)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "closed")))
		}, says: "is empty"},
		"its segments are missing, and it was not closed": {spoil: func(t *testing.T, dir string) {
			for _, path := range data {
				remove(filepath.Join("t-0", filepath.Base(path)))(t, dir)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "closed")))
		}, says: "segments are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := killed(t, closed)
			c.spoil(t, dir)
			spoiled := killed(t, dir)
			complaints := 0
			config := broker.Config{DataDir: dir, Logger: slog.New(counting(&complaints))}
			b, err := broker.Start(t.Context(), config)
			if c.says != "" {
				var lost *broker.LossError
				require.ErrorAs(t, err, &lost)
				topic := "t"
				if c.topic != "" {
					topic = c.topic
				}
				require.Equal(t, []string{topic}, lost.Topics)
				require.ErrorContains(t, err, topic)
				require.ErrorContains(t, err, c.says)
				_, err = broker.Start(t.Context(), config)
				require.ErrorAs(t, err, &lost, "at every start")
				require.NoError(t, os.RemoveAll(dir))
				require.NoError(t, os.CopyFS(dir, os.DirFS(spoiled)))

				config.AcceptLoss = func(t string) bool { return t == topic }
				b, err = broker.Start(t.Context(), config)
			}
			require.NoError(t, err)
			require.Equal(t, c.all, complaints == 0, "%d complaints", complaints)
			cfg := bus.Config{Brokers: b.Addrs()}
			before := stored(t, cfg)
			require.Equal(t, c.all || c.full, len(before) == 8)
			if c.full || !strings.Contains(c.says, "snapshot") && !strings.Contains(c.says, "folder") {
				require.EqualValues(t, 8, offsets(t, b.Addrs()[0], "t")[0].End, "no offset is used twice")
			}
			send(t, cfg, message("b", "new"))
			require.Len(t, stored(t, cfg), len(before)+1)
			require.NoError(t, b.Close())
			b, _ = serve(t, dir) // for good
			require.Len(t, stored(t, bus.Config{Brokers: b.Addrs()}), len(before)+1)
		})
	}
}

// counting counts errors.
func counting(n *int) slog.Handler {
	return slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		*n++
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelError})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
