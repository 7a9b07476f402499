package broker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"muster/platform/bus"
)

// limitFiles limits the size of a process's files: a write beyond it is cut short and fails, as on a full disk.
func limitFiles(t *testing.T, cmd *exec.Cmd, bytes uint64) {
	t.Helper()
	limit := &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
	require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_FSIZE, limit, nil))
}

// newClient returns a client with its own connections, so that none leads to an earlier broker.
func newClient(cfg bus.Config) (client *kafka.Client, closeIdle func()) {
	transport := &kafka.Transport{}
	client = &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: transport, Timeout: 5 * time.Second}
	return client, transport.CloseIdleConnections
}

// requireFailed calls do in a loop until the child has exited with the code of a failed broker.
func requireFailed(t *testing.T, cmd *exec.Cmd, do func(context.Context)) {
	t.Helper()
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer cancel()
		_ = cmd.Wait() // returns the exit code as an error
		close(ended)
	}()
	for ctx.Err() == nil {
		once, stop := context.WithTimeout(ctx, 3*time.Second)
		do(once)
		stop()
	}
	select {
	case <-ended:
		require.Equal(t, failed, cmd.ProcessState.ExitCode())
	default:
		t.Fatal("the process has not ended")
	}
}

func TestFullDisk_CompactionLosesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd, addr := startChild(t, dir, "127.0.0.1:0", serving)
	cfg := bus.Config{Brokers: []string{addr}}
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 1, Config: map[string]string{"cleanup.policy": "compact"}})
	w := bus.NewWriter(cfg)
	w.Compression = 0
	value := []byte(strings.Repeat("x", 1000))
	for i := range 20 {
		var msgs []kafka.Message
		for k := range 100 {
			msgs = append(msgs, kafka.Message{Topic: "t", Key: fmt.Appendf(nil, "%d-%d", i, k), Value: value})
		}
		require.NoError(t, bus.WriteAll(t.Context(), w, msgs))
	}
	require.NoError(t, w.Close())
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // reports the signal

	cmd, _ = startChild(t, dir, addr, compacting)
	limitFiles(t, cmd, 1<<20) // it writes 2 MB
	requireFailed(t, cmd, func(ctx context.Context) { <-ctx.Done() })

	startChild(t, dir, addr, serving)
	require.Len(t, readAll(t, cfg, "t"), 2000)
	require.NoDirExists(t, filepath.Join(dir, "compacting"))
}

func TestFullDisk_LosesNothingAcknowledged(t *testing.T) {
	commit := func(ctx context.Context, cfg bus.Config, offset int64) error {
		client, closeIdle := newClient(cfg)
		defer closeIdle()
		res, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
			GroupID: "g", GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{"t": {{Partition: 0, Offset: offset}}},
		})
		if err != nil {
			return err
		}
		return res.Topics["t"][0].Error
	}
	committed := func(t *testing.T, cfg bus.Config) int64 {
		t.Helper()
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{"t"})
		require.NoError(t, err)
		return lag[0].Committed
	}
	produce := func(ctx context.Context, cfg bus.Config, n int64) error {
		w := bus.NewWriter(cfg)
		defer w.Close() // always nil
		m := kafka.Message{Topic: "t", Key: fmt.Append(nil, n), Value: []byte(strings.Repeat("x", 100))}
		return w.WriteMessages(ctx, m)
	}
	stored := func(t *testing.T, cfg bus.Config) int64 { return int64(len(readAll(t, cfg, "t"))) }
	create := func(ctx context.Context, cfg bus.Config, n int64) error {
		return bus.EnsureTopics(ctx, cfg, []bus.Topic{{Name: fmt.Sprint("topic-", n), Partitions: 1}})
	}
	created := func(t *testing.T, cfg bus.Config) (n int64) {
		t.Helper()
		client, closeIdle := newClient(cfg)
		defer closeIdle()
		res, err := client.Metadata(t.Context(), &kafka.MetadataRequest{})
		require.NoError(t, err)
		return int64(len(res.Topics)) - 1
	}
	for name, test := range map[string]struct {
		file     string // the file that grows, in the log directory
		existing int64  // messages written before
		do       func(context.Context, bus.Config, int64) error
		done     func(*testing.T, bus.Config) int64
	}{
		"offset commits": {"groups.log", 50, commit, committed},
		"records":        {"partitions/t-0/0.dat", 0, produce, stored},
		"topics":         {"topics.json", 0, create, created},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd, addr := startChild(t, dir, "127.0.0.1:0", serving)
			cfg := bus.Config{Brokers: []string{addr}}
			createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 1})
			for n := range test.existing {
				require.NoError(t, produce(t.Context(), cfg, n))
			}
			var last int64 // acknowledged
			acknowledge := func(n int) {
				for range n {
					require.NoError(t, test.do(t.Context(), cfg, last+1))
					last++
				}
			}
			acknowledge(20)

			info, err := os.Stat(filepath.Join(dir, "log", test.file))
			require.NoError(t, err)
			limitFiles(t, cmd, uint64(info.Size())+5)
			requireFailed(t, cmd, func(ctx context.Context) {
				if test.do(ctx, cfg, last+1) == nil {
					last++
				}
			})

			cmd, _ = startChild(t, dir, addr, serving)
			require.GreaterOrEqual(t, test.done(t, cfg), last)
			last = test.done(t, cfg) // a write that was not acknowledged may be stored
			acknowledge(20)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // reports the signal
			startChild(t, dir, addr, serving)
			require.Equal(t, last, test.done(t, cfg))
		})
	}
}
