package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
)

// childArg makes the test binary run a broker until it is killed.
const childArg = "broker-child"

// Modes of the child process.
const (
	serving    = "serving"
	compacting = "compacting" // compacts in a loop
)

// Exit codes of the child process.
const (
	failed    = 3 // the broker has failed
	portInUse = 4
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == childArg {
		os.Exit(child(os.Args[2], os.Args[3], os.Args[4] == compacting))
	}
	os.Exit(m.Run())
}

func child(dir, addr string, compact bool) int {
	b, err := broker.Start(context.Background(), broker.Config{DataDir: dir, Addr: addr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, syscall.EADDRINUSE) {
			return portInUse
		}
		return 1
	}
	fmt.Fprintln(os.Stdout, b.Addrs()[0])
	if compact {
		go func() {
			for {
				err := b.Compact(context.Background())
				if errors.Is(err, broker.ErrLogWriteFailed) {
					return
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				<-time.After(time.Millisecond)
			}
		}()
	}
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent exits
		close(orphaned)
	}()
	select {
	case <-orphaned:
		return 0
	case <-b.Failed():
		fmt.Fprintln(os.Stderr, b.Close())
		return failed
	}
}

// startChild runs a broker in a child process. It retries while the port is in use: an outgoing connection may take it
// while no broker listens.
func startChild(t *testing.T, dir, addr, mode string) (*exec.Cmd, string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		cmd, line, err := runChild(t, dir, addr, mode)
		if err == nil {
			return cmd, strings.TrimSpace(line)
		}
		_ = cmd.Wait() // returns the exit code as an error
		if cmd.ProcessState.ExitCode() != portInUse || time.Since(began) > 30*time.Second {
			require.NoError(t, err)
		}
	}
}

func runChild(t *testing.T, dir, addr, mode string) (*exec.Cmd, string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], childArg, dir, addr, mode)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // may have exited
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	return cmd, line, err
}

func TestKill_LosesNothingAcknowledged(t *testing.T) {
	for _, mode := range []string{serving, compacting} {
		t.Run(mode, func(t *testing.T) { testKills(t, mode) })
	}
}

// testKills kills the broker several times while eight writers and a committing group are active.
func testKills(t *testing.T, mode string) {
	dir := t.TempDir()
	cmd, addr := startChild(t, dir, "127.0.0.1:0", mode)
	cfg := bus.Config{Brokers: []string{addr}}
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 3, Config: map[string]string{"cleanup.policy": "compact"}})
	acked := make(map[string]bool)
	committed := make(map[int]int64)
	rounds, each := 3, 5000 // acknowledged messages
	if testing.Short() {
		rounds = 2
	}
	if mode == compacting {
		rounds, each = 2*rounds, 1000
	}
	for round := range rounds {
		var mu sync.Mutex
		ctx, cancel := context.WithCancel(t.Context())
		w := bus.NewWriter(cfg, bus.WithBatch(20, 2*time.Millisecond))
		var wg sync.WaitGroup
		enough := make(chan struct{}, 1)
		for g := range 8 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					msgs := make([]kafka.Message, 25)
					for k := range msgs {
						id := fmt.Sprintf("%d-%d-%d-%d", round, g, i, k)
						msgs[k] = kafka.Message{Topic: "t", Key: []byte(id), Value: []byte(strings.Repeat(id, 20))}
					}
					msgs[0].Key = fmt.Append(nil, "writer ", g) // compaction removes all but the last
					if bus.WriteAll(ctx, w, msgs) != nil {
						return
					}
					mu.Lock()
					for _, m := range msgs {
						acked[string(m.Key)] = true
					}
					if len(acked) > (round+1)*each {
						select {
						case enough <- struct{}{}:
						default:
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Go(func() { consumeAndCommit(ctx, t, cfg, &mu, committed) })
		<-enough
		if mode == compacting { // acknowledgements come between compactions
			<-time.After(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // reports the signal
		cancel()
		wg.Wait()
		require.NoError(t, w.Close())

		cmd, addr = startChild(t, dir, addr, mode) // the same port
		require.Equal(t, cfg.Brokers[0], addr)
		stored := readAll(t, cfg, "t")
		for id := range acked {
			if _, ok := stored[id]; !ok {
				t.Fatalf("%s was acknowledged in or before round %d and is missing", id, round)
			}
		}
		lag, err := bus.Lag(t.Context(), cfg, "g", []string{"t"})
		require.NoError(t, err)
		for _, p := range lag {
			require.GreaterOrEqual(t, p.Committed, committed[p.Partition], "committed offset of partition %d",
				p.Partition)
		}
		t.Logf("round %d: %d acknowledged, %d stored, committed %v", round, len(acked), len(stored), committed)
	}
}

// consumeAndCommit records the offsets whose commits the broker acknowledged.
func consumeAndCommit(ctx context.Context, t *testing.T, cfg bus.Config, mu *sync.Mutex, committed map[int]int64) {
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: "g", Brokers: cfg.Brokers, Topics: []string{"t"}, HeartbeatInterval: 200 * time.Millisecond,
		SessionTimeout: 2 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer cg.Close() // always nil
	for {
		gen, err := cg.Next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		for next := int64(1); ctx.Err() == nil; next++ {
			offsets := make(map[int]int64)
			for _, p := range gen.Assignments["t"] {
				offsets[p.ID] = max(p.Offset, 0) + next
			}
			if gen.CommitOffsets(map[string]map[int]int64{"t": offsets}) != nil {
				break
			}
			mu.Lock()
			for p, o := range offsets {
				committed[p] = max(committed[p], o)
			}
			mu.Unlock()
		}
	}
}

func readAll(t *testing.T, cfg bus.Config, topic string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	collect := func(_ context.Context, m kafka.Message) error {
		out[string(m.Key)] = string(m.Value)
		return nil
	}
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{Topics: []string{topic}, Handle: collect})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	return out
}

// createTopics creates topics, or checks the settings of those that exist.
func createTopics(t *testing.T, cfg bus.Config, topics ...bus.Topic) {
	t.Helper()
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, topics))
}

func TestRestart_KeepsMessagesTopicsAndAddress(t *testing.T) {
	cfg := broker.Config{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	b, err := broker.Start(t.Context(), cfg)
	require.NoError(t, err)
	cfg.Addr = b.Addrs()[0]
	client := bus.Config{Brokers: b.Addrs()}
	settings := map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}
	topic := bus.Topic{Name: "t", Partitions: 2, Config: settings}
	createTopics(t, client, topic)
	w := bus.NewWriter(client)
	var msgs []kafka.Message
	for i := range 1000 {
		msgs = append(msgs, kafka.Message{Topic: "t", Key: fmt.Append(nil, i%100), Value: fmt.Append(nil, i)})
	}
	for batch := range 10 {
		require.NoError(t, bus.WriteAll(t.Context(), w, msgs[batch*100:(batch+1)*100]))
	}
	require.NoError(t, w.Close())
	before := readAll(t, client, "t")
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "Close is idempotent")
	b, err = broker.Start(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.Equal(t, client.Brokers, b.Addrs(), "the same port")
	createTopics(t, client, topic)
	require.Equal(t, before, readAll(t, client, "t"))
	require.NoError(t, b.Compact(t.Context()))
	require.Equal(t, before, readAll(t, client, "t"), "compaction keeps the last message of a key")
	var stored int
	count := func(context.Context, kafka.Message) error { stored++; return nil }
	f := bus.Follow(t.Context(), client, bus.FollowConfig{Topics: []string{"t"}, Handle: count})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	require.Less(t, stored, 400, "superseded messages are removed")
}

func TestRetention_RemovesExpiredMessagesOfTopicsThatSetIt(t *testing.T) {
	for name, tc := range map[string]struct {
		apply func(*broker.Broker, context.Context) error
		first int64 // first of the three messages of one key that the compacted topic keeps
	}{
		"compact": {apply: (*broker.Broker).Compact, first: 1}, // kfake does not compact the last batch
		"retain":  {apply: (*broker.Broker).Retain, first: 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := brokertest.Start(t)
			cfg := bus.Config{Brokers: b.Addrs()}
			createTopics(t, cfg,
				bus.Topic{Name: "compacted", Partitions: 1, Config: map[string]string{"cleanup.policy": "compact"}},
				bus.Topic{Name: "short", Partitions: 1, Config: map[string]string{"retention.ms": "60000"}},
				bus.Topic{Name: "unset", Partitions: 1},
			)
			w := bus.NewWriter(cfg)
			defer func() { require.NoError(t, w.Close()) }()
			for _, at := range []time.Time{time.Now().Add(-2 * time.Hour), time.Now().Add(-time.Hour), time.Now()} {
				for _, topic := range []string{"compacted", "short", "unset"} {
					m := kafka.Message{Topic: topic, Key: []byte("k"), Value: []byte("x"), Time: at}
					require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
				}
			}
			require.NoError(t, tc.apply(b, t.Context()))
			o, err := bus.EndOffsets(t.Context(), cfg, []string{"compacted", "short", "unset"})
			require.NoError(t, err)
			require.Equal(t, []bus.PartitionOffsets{
				{
					Topic: "compacted",
					First: tc.first,
					End:   3,
				}, {Topic: "short", First: 2, End: 3}, {Topic: "unset", End: 3},
			}, o)
			require.NoError(t, b.Close())
			require.ErrorContains(t, tc.apply(b, t.Context()), "broker is closed")
		})
	}
}

func TestRetention_WritesEmptyBatchOnce(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.StartConfig(t, broker.Config{DataDir: dir})
	cfg := bus.Config{Brokers: b.Addrs()}
	createTopics(t, cfg, bus.Topic{Name: "t", Partitions: 1, Config: map[string]string{"retention.ms": "60000"}})
	w := bus.NewWriter(cfg)
	defer func() { require.NoError(t, w.Close()) }()
	expire := func() os.FileInfo {
		require.NoError(t, b.Retain(t.Context()))
		files, err := filepath.Glob(filepath.Join(dir, "log", "partitions", "t-0", "*.dat"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		end, err := os.Stat(files[0])
		require.NoError(t, err)
		return end
	}
	var before os.FileInfo
	for _, name := range []string{"0.dat", "1.dat"} {
		old := kafka.Message{Topic: "t", Value: []byte("x"), Time: time.Now().Add(-time.Hour)}
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{old}))
		end := expire()
		require.Equal(t, name, end.Name())
		if before != nil {
			require.False(t, os.SameFile(before, end))
		}
		before = expire()
		require.True(t, os.SameFile(end, before))
	}
}

func TestRetention_KeepsEndOffsetOfEmptyPartitions(t *testing.T) {
	for _, ended := range []string{"killed", "closed"} {
		t.Run(ended, func(t *testing.T) {
			dir := t.TempDir()
			topic := bus.Topic{Name: "a-t", Partitions: 2, Config: map[string]string{"retention.ms": "1"}}
			write := func(addr string, n int) {
				w := bus.NewWriter(bus.Config{Brokers: []string{addr}})
				for i := range n {
					m := kafka.Message{Topic: topic.Name, Key: fmt.Appendf(nil, "%d", i), Value: []byte("x")}
					require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{m}))
				}
				require.NoError(t, w.Close())
			}
			var cmd *exec.Cmd
			var b *broker.Broker
			var addr string
			if ended == "killed" {
				cmd, addr = startChild(t, dir, "127.0.0.1:0", compacting)
			} else {
				b = brokertest.StartConfig(t, broker.Config{DataDir: dir})
				addr = b.Addrs()[0]
			}
			createTopics(t, bus.Config{Brokers: []string{addr}}, topic)
			write(addr, 20)
			if cmd != nil {
				before := offsets(t, addr, topic.Name)
				require.Eventually(t, func() bool {
					notEmpty := func(o bus.PartitionOffsets) bool { return o.First < o.End }
					return !slices.ContainsFunc(offsets(t, addr, topic.Name), notEmpty)
				}, time.Minute, time.Millisecond)
				<-time.After(50 * time.Millisecond) // a few more compactions
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait() // reports the signal
				b = brokertest.StartConfig(t, broker.Config{DataDir: dir})
				require.Equal(t, ends(before), ends(offsets(t, b.Addrs()[0], topic.Name)))
			}
			before := offsets(t, b.Addrs()[0], topic.Name)
			<-time.After(5 * time.Millisecond)
			for range 3 { // the empty batches do not expire
				require.NoError(t, b.Compact(t.Context()))
				require.NoError(t, b.Close())
				b = brokertest.StartConfig(t, broker.Config{DataDir: dir})
				require.Equal(t, ends(before), ends(offsets(t, b.Addrs()[0], topic.Name)))
			}
			write(b.Addrs()[0], 20)
			require.NoError(t, b.Close())
			b = brokertest.StartConfig(t, broker.Config{DataDir: dir})
			n := 0
			count := func(kafka.Message) error { n++; return nil }
			_, err := bus.Read(t.Context(), bus.Config{Brokers: b.Addrs()}, topic.Name, nil, count)
			require.NoError(t, err)
			require.Equal(t, 20, n)
		})
	}
}

func offsets(t *testing.T, addr, topic string) []bus.PartitionOffsets {
	t.Helper()
	o, err := bus.EndOffsets(t.Context(), bus.Config{Brokers: []string{addr}}, []string{topic})
	require.NoError(t, err)
	return o
}

func ends(offsets []bus.PartitionOffsets) (out []int64) {
	for _, o := range offsets {
		out = append(out, o.End)
	}
	return out
}

func TestProduce_DoesNotCreateTopics(t *testing.T) {
	b := brokertest.Start(t)
	w := bus.NewWriter(bus.Config{Brokers: b.Addrs()})
	defer func() { require.NoError(t, w.Close()) }()
	err := w.WriteMessages(t.Context(), kafka.Message{Topic: "unknown", Value: []byte("x")})
	require.ErrorIs(t, err, kafka.UnknownTopicOrPartition)
}

func TestStart_RejectsInvalidConfig(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.StartConfig(t, broker.Config{DataDir: dir})
	_, err := broker.Start(t.Context(), broker.Config{DataDir: dir})
	require.ErrorIs(t, err, broker.ErrDataDirInUse)
	for name, cfg := range map[string]broker.Config{
		"no directory":  {},
		"no port":       {DataDir: t.TempDir(), Addr: "127.0.0.1"},
		"port in use":   {DataDir: t.TempDir(), Addr: b.Addrs()[0]},
		"bad mechanism": {DataDir: t.TempDir(), Users: []broker.User{{Mechanism: "ROT13", Name: "a", Password: "b"}}},
		"a file":        {DataDir: os.Args[0]},
	} {
		_, err := broker.Start(t.Context(), cfg)
		require.Error(t, err, name)
	}
	free := t.TempDir()
	_, err = broker.Start(t.Context(), broker.Config{DataDir: free, Addr: b.Addrs()[0]})
	require.Error(t, err)
	brokertest.StartConfig(t, broker.Config{DataDir: free}) // a failed start unlocks the directory
}

func TestClose_ClosesConnections(t *testing.T) {
	b := brokertest.Start(t)
	conn, err := net.Dial("tcp", b.Addrs()[0])
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	createTopics(t, bus.Config{Brokers: b.Addrs()}, bus.Topic{Name: "t", Partitions: 1}) // accepted after conn
	require.NoError(t, b.Close())
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
}

func TestConnection_InvalidBytesCloseOnlyTheirConnection(t *testing.T) {
	_, addr := startChild(t, t.TempDir(), "127.0.0.1:0", serving)
	for name, sent := range map[string]string{
		"HTTP":            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"TLS":             "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00",
		"an unknown kind": "\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff",
		"a negative kind": "\x00\x00\x00\x0a\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff",
		"too large":       "\x06\x40\x00\x01\x00\x03\x00\x00\x00\x00\x00\x01",
		"too small":       "\x00\x00\x00\x07\x00\x03\x00\x00\x00\x00\x00\x01",
		"nothing":         "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, err = conn.Write([]byte(sent))
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1))
			require.Error(t, err)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is still open")
			createTopics(t, bus.Config{Brokers: []string{addr}}, bus.Topic{Name: "t", Partitions: 1})
		})
	}
}
