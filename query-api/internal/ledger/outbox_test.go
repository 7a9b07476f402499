package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/ledger"
	"muster/schemas/event"
)

func call(id string) *event.Usage {
	return &event.Usage{
		RequestID: id, OrganizationID: "o", KeyID: "k", At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Period:   "2026-11",
		Endpoint: "/v1/x", Outcome: event.OutcomeCharged, Requests: 1, Credits: 1,
	}
}

// topic collects published events.
type topic struct {
	mu      sync.Mutex
	events  map[string]event.Outcome
	credits map[string]int64
	fail    bool
}

func (p *topic) publish(_ context.Context, events []ledger.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail {
		return errors.New("Kafka is unavailable")
	}
	for _, u := range events {
		var written event.Usage
		if err := json.Unmarshal(u.JSON, &written); err != nil || written.RequestID != u.RequestID ||
			written.Outcome != u.Outcome || written.Credits != u.Credits {
			return fmt.Errorf("%s is %s as JSON, %w", u.RequestID, u.JSON, err)
		}
		if before, ok := p.events[u.RequestID]; ok && before != u.Outcome {
			return fmt.Errorf("%s was %s and is %s", u.RequestID, before, u.Outcome)
		}
		p.events[u.RequestID] = u.Outcome
		if p.credits != nil {
			p.credits[u.RequestID] = u.Credits
		}
	}
	return nil
}

// settle does nothing.
func settle(context.Context, []ledger.Event) error { return nil }

// copyOf copies the directory as left by a process killed at this moment.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	names, err := filepath.Glob(filepath.Join(dir, "*.outbox"))
	require.NoError(t, err)
	for _, name := range names {
		from, err := os.Open(name)
		require.NoError(t, err)
		into, err := os.Create(filepath.Join(to, filepath.Base(name)))
		require.NoError(t, err)
		_, err = io.Copy(into, from)
		require.NoError(t, errors.Join(err, from.Close(), into.Close()))
	}
	return to
}

// Processes are killed at random. Marked events are published as marked, others as void, and none
// twice with different content.
func TestOutbox_RecoversAfterKills(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	want := make(map[string]event.Outcome)
	reduced := make(map[string]int64)
	p := &topic{events: make(map[string]event.Outcome), credits: make(map[string]int64)}
	dir := t.TempDir()
	for generation := range 30 {
		o, err := ledger.Open(ledger.Config{Dir: dir, SegmentBytes: 4 << 10})
		require.NoError(t, err)
		p.mu.Lock()
		p.fail = generation%3 != 0
		p.mu.Unlock()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx, 0, p.publish, settle) }()
		for i := range rng.IntN(200) {
			id := fmt.Sprintf("%d-%d", generation, i)
			switch rng.IntN(8) {
			case 0:
				u := call(id)
				u.Outcome, u.Requests, u.Credits = event.OutcomeRefusedRate, 0, 0
				require.NoError(t, o.Record(u))
				want[id] = event.OutcomeRefusedRate
			case 1:
				_, err := o.Prepare(call(id))
				require.NoError(t, err)
				want[id] = event.OutcomeUnanswered
			case 2:
				e, err := o.Prepare(call(id))
				require.NoError(t, err)
				require.NoError(t, e.Void())
				want[id] = event.OutcomeUnanswered
			case 3:
				u := call(id)
				u.Credits = 100
				e, err := o.Prepare(u)
				require.NoError(t, err)
				require.NoError(t, e.ConfirmPartial(40))
				want[id], reduced[id] = event.OutcomeCharged, 40
			default:
				e, err := o.Prepare(call(id))
				require.NoError(t, err)
				require.NoError(t, e.Confirm())
				want[id] = event.OutcomeCharged
			}
		}
		if generation%3 == 0 {
			require.NoError(t, o.Flush(t.Context()))
			o.AwaitSettled(t.Context()) // no segment is removed while it is copied
		}
		killed := copyOf(t, dir)
		p.mu.Lock()
		p.fail = true // ignore later publications of the killed process
		p.mu.Unlock()
		stop()
		require.NoError(t, <-ended)
		dir = killed
	}
	p.mu.Lock()
	p.fail = false
	p.mu.Unlock()
	o, err := ledger.Open(ledger.Config{Dir: dir})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx, time.Second, p.publish, settle) }()
	require.NoError(t, o.Flush(t.Context()))
	stop()
	require.NoError(t, <-ended)
	require.Equal(t, want, p.events)
	for id, credits := range reduced {
		require.Equal(t, credits, p.credits[id], "%s was reduced", id)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.outbox"))
	require.NoError(t, err)
	require.Empty(t, left, "everything is published")
}

func TestOutbox_LingersToBatchEvents(t *testing.T) {
	batches := make(chan []ledger.Event, 10)
	publish := func(_ context.Context, events []ledger.Event) error {
		batches <- events
		return nil
	}
	ids := func(events []ledger.Event) (out []string) {
		for _, u := range events {
			out = append(out, u.RequestID)
		}
		return out
	}
	run := func(linger time.Duration) (o *ledger.Outbox, stop func()) {
		o, err := ledger.Open(ledger.Config{Dir: t.TempDir(), Linger: linger})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx, time.Minute, publish, settle) }()
		return o, func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}

	o, stop := run(time.Hour)
	var want []string
	add := func(n int) {
		for i := range n {
			id := fmt.Sprintf("%d-%d", len(want), i)
			e, err := o.Prepare(call(id))
			require.NoError(t, err)
			require.NoError(t, e.Confirm())
			want = append(want, id)
		}
	}
	add(20)
	require.Equal(t, 20, o.Pending())
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, want, ids(<-batches), "a caller waits: all in one batch")
	require.Zero(t, o.Pending())
	want = nil
	add(2)
	o.FlushAsync()
	require.Equal(t, want, ids(<-batches), "may be looked up")
	e, err := o.Prepare(call("slow"))
	require.NoError(t, err)
	flushed := make(chan error, 1)
	go func() { flushed <- o.FlushConfirmed(t.Context()) }()
	require.Never(t, func() bool { return len(flushed) > 0 }, 50*time.Millisecond, time.Millisecond,
		"its answer is on its way")
	require.NoError(t, e.Confirm())
	require.NoError(t, <-flushed)
	require.Equal(t, []string{"slow"}, ids(<-batches))
	want = nil
	add(1000)
	require.Equal(t, want, ids(<-batches), "a batch is full")
	want = nil
	add(3)
	stop()
	require.Equal(t, want, ids(<-batches), "the service stops")
	require.Empty(t, batches)

	want = nil
	o, stop = run(10 * time.Millisecond)
	add(1)
	require.Equal(t, want, ids(<-batches), "the linger time is over")
	stop()
	require.Empty(t, batches)
}

func TestOutbox_LocksItsDirectory(t *testing.T) {
	dir := t.TempDir()
	o, err := ledger.Open(ledger.Config{Dir: dir})
	require.NoError(t, err)
	_, err = ledger.Open(ledger.Config{Dir: dir})
	require.ErrorContains(t, err, "in use by another process")
	require.NoError(t, o.Close())
	require.NoError(t, o.Close())
	require.ErrorContains(t, o.Record(call("late")), "closed")
	again, err := ledger.Open(ledger.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestOutbox_IsBounded(t *testing.T) {
	o, err := ledger.Open(ledger.Config{Dir: t.TempDir(), MaxBytes: 10_000})
	require.NoError(t, err)
	for err == nil {
		refused := call("r")
		refused.Outcome, refused.Requests = event.OutcomeRefusedRate, 0
		err = o.Record(refused)
	}
	require.ErrorIs(t, err, ledger.ErrFull)
	require.LessOrEqual(t, o.Bytes(), int64(6_000), "rejections leave space")
	for range 5 { // the rest is reserved for charges and counted requests
		free := call("free")
		free.Requests = 0
		_, err = o.Prepare(free)
		require.NoError(t, err)
		counted := call("counted")
		counted.Outcome = event.OutcomeRefusedCredits
		require.NoError(t, o.Record(counted))
	}
	for err == nil {
		_, err = o.Prepare(call(strings.Repeat("x", 100)))
	}
	require.ErrorIs(t, err, ledger.ErrFull)
	require.LessOrEqual(t, o.Bytes(), int64(11_000))
	require.NoError(t, o.Close())
}

// A published segment is kept if a segment before it has an unmarked event.
func TestOutbox_PublishedSegmentsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	o, err := ledger.Open(ledger.Config{Dir: dir, MaxBytes: 10_000, SegmentBytes: 1_000, Linger: -1})
	require.NoError(t, err)
	p := &topic{events: make(map[string]event.Outcome)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx, 0, p.publish, settle) }()
	fill := func(round int) {
		for i := range 4 {
			require.NoError(t, o.Record(call(fmt.Sprintf("%d-%d", round, i))), "round %d", round)
		}
		require.NoError(t, o.Flush(t.Context()))
		o.AwaitSettled(t.Context())
	}
	for round := range 50 {
		fill(round)
	}
	require.LessOrEqual(t, o.Bytes(), int64(2_000))

	// A prepared event fills a segment; the next event is published.
	var slow []ledger.Entry
	for i := range 5 {
		e, err := o.Prepare(call(fmt.Sprint("slow ", i)))
		require.NoError(t, err)
		slow = append(slow, e)
	}
	fill(50)
	fill(51)
	killed, err := ledger.Open(ledger.Config{Dir: copyOf(t, dir)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, killed.Pending(), len(slow))
	require.NoError(t, killed.Close())
	for i, e := range slow {
		if i == 0 {
			require.NoError(t, e.Void())
		} else {
			require.NoError(t, e.Confirm())
		}
	}
	require.NoError(t, o.Flush(t.Context()))
	o.AwaitSettled(t.Context())
	require.LessOrEqual(t, o.Bytes(), int64(2_000))
	stop()
	require.NoError(t, <-ended)
	require.Len(t, p.events, 52*4+len(slow))
	require.Equal(t, event.OutcomeUnanswered, p.events["slow 0"])
	require.Equal(t, event.OutcomeCharged, p.events["slow 1"])
}

// limit lowers a limit of this process until the test ends, or lift is called.
func limit(t *testing.T, resource int, most uint64) (lift func()) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(resource, &before))
	lift = func() { require.NoError(t, syscall.Setrlimit(resource, &before)) }
	t.Cleanup(lift)
	low := before
	low.Cur = most
	require.NoError(t, syscall.Setrlimit(resource, &low))
	return lift
}

func TestOutbox_SegmentCreationIsRetried(t *testing.T) {
	o, err := ledger.Open(ledger.Config{Dir: t.TempDir(), SegmentBytes: 1})
	require.NoError(t, err)
	require.NoError(t, o.Record(call("fills the first file")))
	next, err := os.Open(os.DevNull)
	require.NoError(t, err)
	lowest := next.Fd()
	require.NoError(t, next.Close())
	lift := limit(t, syscall.RLIMIT_NOFILE, uint64(lowest)+1)
	require.ErrorIs(t, o.Record(call("is a file, not a directory")), syscall.EMFILE)
	lift()
	require.NoError(t, o.Record(call("has both")))
	require.Equal(t, 2, o.Pending())
	require.NoError(t, o.Close())
}

func TestOutbox_FullDiskDropsPartialEvent(t *testing.T) {
	dir := t.TempDir()
	o, err := ledger.Open(ledger.Config{Dir: dir})
	require.NoError(t, err)
	prepared, err := o.Prepare(call("before"))
	require.NoError(t, err)
	used := o.Bytes()
	lift := limit(t, syscall.RLIMIT_FSIZE, uint64(used)+100)
	require.ErrorIs(t, o.Record(call("half of it fits")), syscall.EFBIG)
	require.Equal(t, used, o.Bytes())
	require.NoError(t, prepared.Confirm())
	lift()
	shorter := copyOf(t, dir)
	require.NoError(t, o.Record(call("after")))
	longer := copyOf(t, dir)
	require.NoError(t, o.Close())

	for dir, want := range map[string]map[string]event.Outcome{
		shorter: {"before": event.OutcomeCharged},
		longer:  {"before": event.OutcomeCharged, "after": event.OutcomeCharged},
	} {
		o, err := ledger.Open(ledger.Config{Dir: dir})
		require.NoError(t, err)
		p := &topic{events: make(map[string]event.Outcome)}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx, time.Second, p.publish, settle) }()
		require.NoError(t, o.Flush(t.Context()))
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, want, p.events)
	}
}

func TestOutbox_TruncatedSegmentKeepsCompleteEvents(t *testing.T) {
	dir := t.TempDir()
	o, err := ledger.Open(ledger.Config{Dir: dir})
	require.NoError(t, err)
	for i := range 5 {
		require.NoError(t, o.Record(call(fmt.Sprint(i))))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.outbox"))
	require.NoError(t, err)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.NoError(t, o.Close())
	for cut := range len(content) {
		torn := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(torn, filepath.Base(files[0])), content[:cut], 0o600))
		o, err := ledger.Open(ledger.Config{Dir: torn})
		require.NoError(t, err)
		require.Equal(t, 5*cut/len(content), o.Pending())
		require.NoError(t, o.Close())
	}
}

// Events are published while earlier ones cannot be settled, so that another replica that loads the balances into a new
// server finds them. What is not settled is published and settled again by the next process.
func TestOutbox_PublishesBeforeEarlierEventsAreSettled(t *testing.T) {
	dir := t.TempDir()
	confirm := func(o *ledger.Outbox, id string) {
		e, err := o.Prepare(call(id))
		require.NoError(t, err)
		require.NoError(t, e.Confirm())
		require.NoError(t, o.Flush(t.Context()))
	}
	run := func(settle ledger.Step) (o *ledger.Outbox, p *topic, stop func()) {
		o, err := ledger.Open(ledger.Config{Dir: dir})
		require.NoError(t, err)
		p = &topic{events: make(map[string]event.Outcome)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx, time.Millisecond, p.publish, settle) }()
		return o, p, func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	tried := make(chan struct{}, 1)
	o, p, stop := run(func(context.Context, []ledger.Event) error {
		select {
		case tried <- struct{}{}:
		default:
		}
		return errors.New("Redis is unavailable")
	})
	confirm(o, "a")
	<-tried
	confirm(o, "b")
	require.Zero(t, o.Pending())
	stop()
	require.Len(t, p.events, 2)

	settled := make(chan string, 2)
	o, p, stop = run(func(_ context.Context, events []ledger.Event) error {
		for i := range events {
			settled <- events[i].RequestID
		}
		return nil
	})
	require.NoError(t, o.Flush(t.Context()))
	require.Equal(t, "a", <-settled)
	require.Equal(t, "b", <-settled)
	stop()
	require.Len(t, p.events, 2)
	o, err := ledger.Open(ledger.Config{Dir: dir})
	require.NoError(t, err)
	require.Zero(t, o.Pending())
	require.NoError(t, o.Close())
}
