package broker_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/internal/recordbatch"
)

// handle consumes as a group until it has handled and committed n messages.
func handle(t *testing.T, cfg bus.Config, n int) (values []string) {
	t.Helper()
	full := make(chan struct{})
	c, err := bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: cfg, Group: "g", Topics: []string{"t"}, MaxAge: time.Millisecond,
		Handle: func(_ context.Context, b bus.Batch) error {
			for _, m := range b.Messages {
				values = append(values, string(m.Value))
			}
			if len(values) == n {
				close(full)
			}
			return nil
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	select {
	case <-full:
	case <-time.After(time.Minute): // the caller compares the values
	}
	stop()
	require.NoError(t, <-ended)
	return values
}

// loseEnd removes the last n batches of a partition, as a power loss before they are flushed.
func loseEnd(t *testing.T, dir string, n int) {
	t.Helper()
	path := filepath.Join(dir, "log", "partitions", "t-0", "0.dat")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var begins []int
	for rest := raw; len(rest) > 0; {
		begins = append(begins, len(raw)-len(rest))
		_, rest, err = recordbatch.Next(rest)
		require.NoError(t, err)
	}
	require.NoError(t, os.Truncate(path, int64(begins[len(begins)-n])))
}

// After a power loss a commit may be on disk and the messages before it may not. The messages that get their offsets
// must be handled.
func TestPowerLoss_GroupsDoNotSkipNewMessages(t *testing.T) {
	tests := map[string]struct {
		lose   func(t *testing.T, dir string)
		logged string
		kept   []string
	}{
		"some messages": {func(t *testing.T, dir string) { loseEnd(t, dir, 2) }, "g t/0: 4 to 2", []string{"0", "1"}},
		"all messages":  {func(t *testing.T, dir string) { loseEnd(t, dir, 4) }, "g t/0: 4 to 0", nil},
		"the partition": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "log", "partitions", "t-0")))
		}, "g t/0: 4 to 0", nil},
		"nothing": {func(*testing.T, string) {}, "", []string{"0", "1", "2", "3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, cfg := serve(t, dir)
			createTopic(t, cfg, nil)
			send(t, cfg, message("a", "0"), message("a", "1"), message("a", "2"), message("a", "3"))
			require.Equal(t, []string{"0", "1", "2", "3"}, handle(t, cfg, 4))
			left := killed(t, dir)
			test.lose(t, left)

			var log bytes.Buffer
			b := brokertest.StartConfig(t,
				broker.Config{DataDir: left, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			cfg = bus.Config{Brokers: b.Addrs()}
			if test.logged == "" {
				require.NotContains(t, log.String(), "the end of the log is lost")
			} else {
				require.Contains(t, log.String(), "the end of the log is lost")
				require.Contains(t, log.String(), test.logged)
			}
			fresh := []string{"new 0", "new 1", "new 2", "new 3", "new 4"} // more than were lost
			for _, v := range fresh {
				send(t, cfg, message("n", v))
			}
			values := stored(t, cfg)
			for i, v := range slices.Concat(test.kept, fresh) {
				require.Equal(t, v, values[int64(i)])
			}
			require.Equal(t, fresh, handle(t, cfg, len(fresh)))
			require.NoError(t, b.Close())
		})
	}
}
