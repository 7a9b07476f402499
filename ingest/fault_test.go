package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker"
	"muster/platform/bus"
	"muster/schemas/record"
)

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// randomText returns text that does not compress well.
func randomText(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[r.IntN(64)]
	}
	return string(b)
}

// watcher is a Progress with which a test waits for a state of the run.
type watcher struct {
	mu       sync.Mutex
	last     ingest.Snapshot
	changed  chan struct{}
	finished int
}

func newWatcher() *watcher { return &watcher{changed: make(chan struct{}, 1)} }

func (w *watcher) Update(s ingest.Snapshot) {
	w.mu.Lock()
	w.last = s
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watcher) Finish(s ingest.Snapshot) {
	w.mu.Lock()
	w.finished++
	w.mu.Unlock()
	w.Update(s)
}

func (w *watcher) snapshot() ingest.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

func (w *watcher) await(t testing.TB, what string, cond func(ingest.Snapshot) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		s := w.snapshot()
		if cond(s) {
			return
		}
		select {
		case <-w.changed:
		case <-deadline:
			require.Fail(t, "timed out", "waiting until %s; the last state was %+v", what, s)
		}
	}
}

// gate is standard input written by a test.
type gate struct {
	*io.PipeReader
	w *io.PipeWriter
}

func newGate() gate {
	r, w := io.Pipe()
	return gate{r, w}
}

// startBroker starts a broker that the test must stop. The port may be taken by another process
// after a stop, so starting is retried.
func startBroker(t *testing.T, dir, addr string) *broker.Broker {
	t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-pause.C {
		b, err := broker.Start(t.Context(),
			broker.Config{DataDir: dir, Addr: addr, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			return b
		}
		require.True(t, time.Now().Before(deadline), "%v", err)
	}
}

// The broker is stopped twice during a run and restarted on its directory: no counted record is
// lost, and the last message of each identity is its newest version. Starting compacts topics, so
// older versions may be missing.
func TestIngest_OutageLosesNothing(t *testing.T) {
	const keys = 200
	dir := t.TempDir()
	b := startBroker(t, dir, "127.0.0.1:0")
	addr := b.Addrs()[0]
	stdin, progress := newGate(), newWatcher()
	cfg := ingest.Config{Bus: bus.Config{Brokers: []string{addr}}, DrainTimeout: time.Minute}

	type result struct {
		s   ingest.Summary
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{Stdin: stdin, Progress: progress},
			record.KindCodehostRepo, []string{"-"})
		done <- result{s, err}
	}()
	sent := 0
	text := randomText(200)
	feed := func(n int) {
		var buf bytes.Buffer
		for range n {
			fmt.Fprintf(&buf, `{"user_id":%d,"id":1,"updated_at":"2026-01-01","name":"v%d"}`+"\n", sent%keys, sent/keys)
			fmt.Fprintf(&buf, `{"user_id":1000,"id":%d,"updated_at":"2026-01-01","description":"%s"}`+"\n", sent, text)
			sent++
		}
		_, err := stdin.w.Write(buf.Bytes())
		require.NoError(t, err)
	}
	for outage := range 2 {
		feed(20 * keys)
		progress.await(t, "first records stored",
			func(s ingest.Snapshot) bool { return s.Published > int64(outage*20*keys) })
		feeding := make(chan struct{})
		go func() { // while data flows
			defer close(feeding)
			feed(40 * keys)
		}()
		require.NoError(t, b.Close())
		progress.await(t, "run waiting", func(s ingest.Snapshot) bool { return s.Stalled > 500*time.Millisecond })
		b = startBroker(t, dir, addr)
		<-feeding
		progress.await(t, "run continuing", func(s ingest.Snapshot) bool { return s.Stalled < 500*time.Millisecond })
	}
	feed(keys)
	require.NoError(t, stdin.w.Close())
	r := <-done
	require.NoError(t, r.err)
	require.Equal(t, ingest.Counts{Read: 2 * int64(sent), Published: 2 * int64(sent)},
		counts(r.s, record.KindCodehostRepo))
	require.True(t, r.s.Files[0].Complete)

	got := values(t, cfg.Bus, record.KindCodehostRepo)
	require.Equal(t, keys+sent, len(got), "missing record")
	newest := fmt.Sprintf(`"name":"v%d"`, sent/keys-1)
	for key := range keys {
		require.Contains(t, got[fmt.Sprintf("%d/1", key)], newest)
	}
	require.NoError(t, b.Close())
	require.Equal(t, 1, progress.finished)
}

func TestRun_InterruptReportsStoredPosition(t *testing.T) {
	cfg := config(t)
	cfg.DrainTimeout, cfg.Readers = time.Minute, 1
	ctx, cancel := context.WithCancel(t.Context())
	stdin, progress := newGate(), newWatcher()
	go func() {
		_, _ = io.WriteString(stdin.w, people(0, 700)+`{"profile_id":"half`)
	}()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		progress.await(t, "all records stored", func(s ingest.Snapshot) bool { return s.Published == 700 })
		cancel()
	}()
	s, err := ingest.Files(ctx, cfg, ingest.Deps{Stdin: stdin, Progress: progress}, record.KindNetworkPerson,
		[]string{"-", write(t, "next", nil)})
	<-stop
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, s.Interrupted)
	require.True(t, s.Reconciles())
	require.Equal(t, ingest.Counts{Read: 700, Published: 700}, counts(s, record.KindNetworkPerson))
	require.Equal(t, ingest.FileSummary{Path: "-", Lines: 700, Bytes: int64(len(people(0, 700)))}, s.Files[0])
	require.False(t, s.Files[1].Complete)
	require.Len(t, values(t, cfg.Bus, record.KindNetworkPerson), 700)
	require.Contains(t, s.String(), "- is stored up to line 700")
	require.NoError(t, stdin.w.Close())
}

func TestRun_InterruptStoresPrefixOfFile(t *testing.T) {
	cfg := config(t)
	cfg.DrainTimeout, cfg.Readers = time.Minute, 1 // regardless of the machine's speed
	const n = 60_000
	path := write(t, "people", []byte(people(0, n)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	progress := newWatcher()
	progressed := make(chan struct{})
	go func() {
		defer close(progressed)
		progress.await(t, "first records stored", func(s ingest.Snapshot) bool { return s.Published > 0 })
		cancel()
	}()
	s, err := ingest.Files(ctx, cfg, ingest.Deps{Progress: progress}, record.KindNetworkPerson, []string{path})
	<-progressed
	require.True(t, s.Reconciles())
	require.Zero(t, counts(s, record.KindNetworkPerson).Unfinished, "brokers were available")
	require.Equal(t, s.Files[0].Lines, counts(s, record.KindNetworkPerson).Published)
	require.Equal(t, s.Interrupted, err != nil, "a completed run is a success")
	require.Len(t, values(t, cfg.Bus, record.KindNetworkPerson), int(s.Files[0].Lines))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, s.Files[0].Lines, int64(bytes.Count(content[:s.Files[0].Bytes], []byte("\n"))))
}

// The run must not count records whose outcome is unknown.
func TestRun_InterruptDuringOutageEndsSoon(t *testing.T) {
	b := startBroker(t, t.TempDir(), "127.0.0.1:0")
	cfg := ingest.Config{Bus: bus.Config{Brokers: b.Addrs()}, DrainTimeout: 200 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	stdin, progress := newGate(), newWatcher()
	feeding := make(chan struct{})
	go func() {
		defer close(feeding)
		_, _ = io.WriteString(stdin.w, people(0, 100))
		progress.await(t, "first records stored", func(s ingest.Snapshot) bool { return s.Published == 100 })
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(stdin.w, people(100, 300))
		progress.await(t, "run waiting",
			func(s ingest.Snapshot) bool { return s.Read == 300 && s.Stalled > 300*time.Millisecond })
		cancel()
	}()
	s, err := ingest.Files(ctx, cfg, ingest.Deps{Stdin: stdin, Progress: progress}, record.KindNetworkPerson,
		[]string{"-"})
	<-feeding
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "timed out waiting for broker acknowledgments")
	require.Equal(t, ingest.Counts{Read: 300, Published: 100, Unfinished: 200}, counts(s, record.KindNetworkPerson))
	require.True(t, s.Reconciles())
	require.Equal(t, int64(100), s.Files[0].Lines)
	require.Less(t, s.Elapsed, 30*time.Second)
	require.NoError(t, stdin.w.Close())
}
