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

// limitFiles lets no file of a process grow beyond a size: a write that would
// writes what fits and then fails, as on a full disk.
func limitFiles(t *testing.T, cmd *exec.Cmd, bytes uint64) {
	t.Helper()
	require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil))
}

// newClient returns one with connections of its own, and none to a broker that has gone.
func newClient(cfg bus.Config) (client *kafka.Client, leave func()) {
	transport := &kafka.Transport{}
	return &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: transport, Timeout: 5 * time.Second}, transport.CloseIdleConnections
}

// requireFailed does something, again and again, until a child has ended because its
// broker failed.
func requireFailed(t *testing.T, cmd *exec.Cmd, do func(context.Context)) {
	t.Helper()
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer cancel()
		_ = cmd.Wait() // says the exit code as an error
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

// A compaction that cannot write its files has destroyed nothing.
func TestCompactionOnAFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd, addr := startChild(t, dir, "127.0.0.1:0", serving)
	cfg := bus.Config{Brokers: []string{addr}}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: "t", Partitions: 1, Config: map[string]string{"cleanup.policy": "compact"}}}))
	w := bus.NewWriter(cfg)
	w.Compression = 0
	for i := range 20 {
		var msgs []kafka.Message
		for k := range 100 {
			msgs = append(msgs, kafka.Message{Topic: "t", Key: fmt.Appendf(nil, "%d-%d", i, k), Value: []byte(strings.Repeat("x", 1000))})
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

// What the broker cannot write down it does not acknowledge, nor anything after
// it, and the next start goes on behind what is whole.
func TestAFullDiskLosesNothingAcknowledged(t *testing.T) {
	commit := func(ctx context.Context, cfg bus.Config, offset int64) error {
		client, leave := newClient(cfg)
		defer leave()
		answer, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
			GroupID: "g", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"t": {{Partition: 0, Offset: offset}}},
		})
		if err != nil {
			return err
		}
		return answer.Topics["t"][0].Error
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
		return w.WriteMessages(ctx, kafka.Message{Topic: "t", Key: fmt.Append(nil, n), Value: []byte(strings.Repeat("x", 100))})
	}
	stored := func(t *testing.T, cfg bus.Config) int64 { return int64(len(readAll(t, cfg, "t"))) }
	create := func(ctx context.Context, cfg bus.Config, n int64) error {
		return bus.EnsureTopics(ctx, cfg, []bus.Topic{{Name: fmt.Sprint("topic-", n), Partitions: 1}})
	}
	created := func(t *testing.T, cfg bus.Config) (n int64) {
		t.Helper()
		client, leave := newClient(cfg)
		defer leave()
		answer, err := client.Metadata(t.Context(), &kafka.MetadataRequest{})
		require.NoError(t, err)
		return int64(len(answer.Topics)) - 1
	}
	for name, test := range map[string]struct {
		grows string // the file, in the folder of the log
		there int64  // messages before
		do    func(context.Context, bus.Config, int64) error
		done  func(*testing.T, bus.Config) int64
	}{
		"offset commits": {"groups.log", 50, commit, committed},
		"records":        {"partitions/t-0/0.dat", 0, produce, stored},
		"topics":         {"topics.json", 0, create, created},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd, addr := startChild(t, dir, "127.0.0.1:0", serving)
			cfg := bus.Config{Brokers: []string{addr}}
			require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: "t", Partitions: 1}}))
			for n := range test.there {
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

			info, err := os.Stat(filepath.Join(dir, "log", test.grows))
			require.NoError(t, err)
			limitFiles(t, cmd, uint64(info.Size())+5)
			requireFailed(t, cmd, func(ctx context.Context) {
				if test.do(ctx, cfg, last+1) == nil {
					last++
				}
			})

			cmd, _ = startChild(t, dir, addr, serving)
			require.GreaterOrEqual(t, test.done(t, cfg), last)
			last = test.done(t, cfg) // one that was not acknowledged may have been kept
			acknowledge(20)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait() // reports the signal
			startChild(t, dir, addr, serving)
			require.Equal(t, last, test.done(t, cfg))
		})
	}
}
