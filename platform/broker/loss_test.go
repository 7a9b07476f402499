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

func TestStart_ReportsLostMessages(t *testing.T) {
	closed := t.TempDir()
	b, cfg := serve(t, closed)
	createTopic(t, cfg, map[string]string{"segment.bytes": "200"})
	createTopics(t, cfg, bus.Topic{Name: "empty", Partitions: 1})
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
		damage   func(t *testing.T, dir string)
		reason   string // of the LossError; "": the broker starts
		intact   bool   // nothing is lost or logged
		complete bool   // all messages are stored
		topic    string
	}{
		"the last segment is empty":  {damage: truncate(last, nothing), reason: "is empty"},
		"the first segment is empty": {damage: truncate(first, nothing), reason: "is empty"},
		"it ends at an earlier record": {
			damage: truncate(last, func(n int64) int64 { return n - lastBatch }), reason: "ends at offset",
		},
		"it ends within an earlier record": {
			damage: truncate(last, func(n int64) int64 { return n - lastBatch - 3 }), reason: "no readable message",
		},
		"it ends within its last record": {damage: truncate(last, func(n int64) int64 { return n - 3 })},
		"it ends within its last header": {damage: truncate(last, func(n int64) int64 { return n - lastBatch + 20 })},
		"a segment is missing": {
			damage: remove(filepath.Join("t-0", filepath.Base(data[1]))), reason: "is missing",
		},
		"the last segment is missing": {
			damage: remove(filepath.Join("t-0", filepath.Base(data[last]))), reason: "is missing",
		},
		"the directory is missing": {damage: remove("t-0"), reason: "directory is missing"},
		"the directory of a topic without messages is missing": {
			damage: remove("empty-0"), reason: "directory is missing", topic: "empty", complete: true,
		},
		"the snapshot is missing": {
			damage: remove(filepath.Join("t-0", "snapshot.json")), reason: "snapshot.json is missing", complete: true,
		},
		"all but the directory is missing": {damage: func(t *testing.T, dir string) {
			remove("t-0")(t, dir)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "log", "partitions", "t-0"), 0o700))
		}, reason: "snapshot.json is missing"},
		"the snapshot is empty": {damage: func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "log", "partitions", "t-0", "snapshot.json"), 0))
		}, reason: "cannot be read", complete: true},
		"the last segment is zeros": {damage: func(t *testing.T, dir string) {
			path := filepath.Join(dir, "log", "partitions", "t-0", filepath.Base(data[last]))
			require.NoError(t, os.WriteFile(path, make([]byte, size(path)), 0o600))
		}, reason: "no readable message"},
		"an index is missing": {
			damage: remove(filepath.Join("t-0", strings.TrimSuffix(filepath.Base(data[last]), ".dat")+".idx")),
			intact: true,
		},
		"nothing": {damage: func(*testing.T, string) {}, intact: true},
		"it is empty, and was not closed": {damage: func(t *testing.T, dir string) {
			for n := range data {
				truncate(n, nothing)(t, dir)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "closed")))
		}, reason: "is empty"},
		"its segments are missing, and it was not closed": {damage: func(t *testing.T, dir string) {
			for _, path := range data {
				remove(filepath.Join("t-0", filepath.Base(path)))(t, dir)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "closed")))
		}, reason: "segments are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := killed(t, closed)
			c.damage(t, dir)
			damaged := killed(t, dir)
			logged := 0
			config := broker.Config{DataDir: dir, Logger: slog.New(countErrors(&logged))}
			b, err := broker.Start(t.Context(), config)
			if c.reason != "" {
				var lost *broker.LossError
				require.ErrorAs(t, err, &lost)
				topic := "t"
				if c.topic != "" {
					topic = c.topic
				}
				require.Equal(t, []string{topic}, lost.Topics)
				require.ErrorContains(t, err, topic)
				require.ErrorContains(t, err, c.reason)
				_, err = broker.Start(t.Context(), config)
				require.ErrorAs(t, err, &lost, "second start")
				require.NoError(t, os.RemoveAll(dir))
				require.NoError(t, os.CopyFS(dir, os.DirFS(damaged)))

				config.AcceptLoss = func(t string) bool { return t == topic }
				b, err = broker.Start(t.Context(), config)
			}
			require.NoError(t, err)
			require.Equal(t, c.intact, logged == 0, "%d errors logged", logged)
			cfg := bus.Config{Brokers: b.Addrs()}
			before := stored(t, cfg)
			require.Equal(t, c.intact || c.complete, len(before) == 8)
			if c.complete || !strings.Contains(c.reason, "snapshot") && !strings.Contains(c.reason, "directory") {
				require.EqualValues(t, 8, offsets(t, b.Addrs()[0], "t")[0].End, "offsets are not reused")
			}
			send(t, cfg, message("b", "new"))
			require.Len(t, stored(t, cfg), len(before)+1)
			require.NoError(t, b.Close())
			b, _ = serve(t, dir) // the next start reports no loss
			require.Len(t, stored(t, bus.Config{Brokers: b.Addrs()}), len(before)+1)
		})
	}
}

// countErrors returns a log handler that counts errors.
func countErrors(n *int) slog.Handler {
	return slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		*n++
		return len(p), nil
	}), &slog.HandlerOptions{Level: slog.LevelError})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
