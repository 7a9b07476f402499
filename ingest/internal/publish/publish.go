package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/dedup"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Limits of one write, and of the queue in front of it.
const (
	maxWriteMessages = 2000
	maxWriteBytes    = 4 << 20
	maxQueuedGroups  = 32
	// maxQueuedMessages limits the messages queued in a lane. A message takes far more memory than
	// the short line it is derived from, and all rejected records of a file share a lane.
	maxQueuedMessages = 2 * maxWriteMessages
	// linger is how long a lane waits for more messages. A write of a few messages costs as much
	// CPU as one of hundreds.
	linger = 50 * time.Millisecond
)

// ErrStopped is the error of batches that were not written because an earlier write had failed
// permanently.
var ErrStopped = errors.New("publishing stopped")

// Batch is a set of messages that complete together: everything derived from one chunk of input.
type Batch struct {
	groups     [][]item
	bytes      []int
	pending    atomic.Int32
	failed     atomic.Pointer[error]
	onComplete func(error)
	republish  bool
	reject     func(record.Kind, Position, kafka.Message, error) (kafka.Message, error)

	mu       sync.Mutex
	outcomes Outcomes
}

// item is a message. It belongs to a record if kind is set.
type item struct {
	message      kafka.Message
	kind         record.Kind
	stripe       int
	state        dedup.State
	versionText  string // as given in the record
	deleted      bool
	position     Position
	rejectedKind record.Kind // kind of the record that this rejected record replaces, after the brokers rejected it
	stored       bool        // although other messages of the same write are not
}

// Position is the location of a record in its input.
type Position struct{ Line, Offset int64 }

// Len returns the number of messages.
func (b *Batch) Len() int {
	n := 0
	for _, g := range b.groups {
		n += len(g)
	}
	return n
}

// Each calls do for each message of a topic. The batch must be complete.
func (b *Batch) Each(topic string, do func(kafka.Message)) {
	for _, g := range b.groups {
		for i := range g {
			if g[i].message.Topic == topic {
				do(g[i].message)
			}
		}
	}
}

// Publisher writes batches.
type Publisher struct {
	writer          *bus.Writer
	unbatchedWriter atomic.Pointer[bus.Writer]
	opts            Options
	lanes           []*lane
	running         sync.WaitGroup
	stopped         chan struct{}
	once            sync.Once
	err             error
	// unconditional has the kinds that are published completely even if only the version is new.
	unconditional map[record.Kind]bool
}

// group is the part of a batch in one lane.
type group struct {
	batch *Batch
	items []item
	bytes int
}

// lane is a queue of groups, bounded by the numbers of groups and messages.
type lane struct {
	groups  chan group
	mu      sync.Mutex
	notFull *sync.Cond
	queued  int // number of messages
}

func newLane() *lane {
	l := &lane{groups: make(chan group, maxQueuedGroups)}
	l.notFull = sync.NewCond(&l.mu)
	return l
}

// enqueue adds a group. It blocks while the lane is full.
func (l *lane) enqueue(g group) {
	l.mu.Lock()
	for l.queued > 0 && l.queued+len(g.items) > maxQueuedMessages {
		l.notFull.Wait()
	}
	l.queued += len(g.items)
	l.mu.Unlock()
	l.groups <- g
}

// release frees the queue space of a group.
func (l *lane) release(g group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued -= len(g.items)
	l.notFull.Signal()
}

// Options configure a publisher. The zero value publishes everything.
type Options struct {
	// Store, if set, is the deduplication store: unchanged and stale records are skipped, and
	// published ones are recorded.
	Store *dedup.Store
	// Republish publishes unchanged records too, but not stale ones.
	Republish bool
	// Whole publishes complete records even if only the version is new.
	Whole bool
	// Dry writes nothing to the brokers and completes batches as if it did.
	Dry bool
}

// New starts a publisher with a number of lanes, at most dedup.Stripes. It writes until ctx ends:
// messages not acknowledged by then count as not written. The caller closes the writer, after
// [Publisher.Close].
func New(ctx context.Context, writer *bus.Writer, lanes int, opts Options) *Publisher {
	p := &Publisher{writer: writer, opts: opts, stopped: make(chan struct{}), unconditional: make(map[record.Kind]bool)}
	for _, d := range record.Definitions() {
		p.unconditional[d.Kind] = opts.Whole || !event.HasVersionBumps(d.Kind)
	}
	for range min(max(lanes, 1), dedup.Stripes) {
		l := newLane()
		p.lanes = append(p.lanes, l)
		p.running.Go(func() { p.run(ctx, l) })
	}
	return p
}

// NewBatch returns an empty batch. onComplete is called once, from any goroutine, with nil when all of the batch
// is stored, or with an error when some of it is not and this publisher will not store it.
func (p *Publisher) NewBatch(onComplete func(error)) *Batch {
	return &Batch{
		groups:     make([][]item, len(p.lanes)),
		bytes:      make([]int, len(p.lanes)),
		onComplete: onComplete,
	}
}

// Republish publishes unchanged records of this batch too, as Options.Republish does for all batches.
func (b *Batch) Republish() { b.republish = true }

// Add adds a message, which must have a topic and a key. Different batches may be filled
// concurrently, but not after they are published.
func (b *Batch) Add(m kafka.Message) {
	b.add(item{message: m, stripe: dedup.StripeOf(m.Key)})
}

// AddRecord adds the message of a record. It is published completely, as a version bump, or not at
// all, depending on the last published state of its identity.
func (b *Batch) AddRecord(m kafka.Message, r *record.Record, position Position) {
	b.add(item{
		position: position,
		message:  m, kind: r.Kind, stripe: dedup.StripeOf(m.Key),
		state:       dedup.State{Version: r.Version, Revision: r.Revision, Hash: r.Hash},
		versionText: r.VersionText, deleted: r.Deleted,
	})
}

func (b *Batch) add(i item) {
	// Brokers choose partitions by the same hash: if the number of lanes divides that of
	// partitions, no two lanes share a partition.
	lane := i.stripe % len(b.groups)
	b.groups[lane] = append(b.groups[lane], i)
	b.bytes[lane] += len(i.message.Key) + len(i.message.Value)
}

// Publish enqueues a batch. Batches are written in call order; calls must not be concurrent. It blocks while
// lanes are full. The batch completes in any case, and nothing it refers to may change until then.
func (p *Publisher) Publish(b *Batch) {
	shares := int32(0)
	for _, g := range b.groups {
		if len(g) > 0 {
			shares++
		}
	}
	// The extra one keeps the batch from completing before everything is enqueued.
	b.pending.Store(shares + 1)
	for i, items := range b.groups {
		if len(items) > 0 {
			p.lanes[i].enqueue(group{batch: b, items: items, bytes: b.bytes[i]})
		}
	}
	b.complete(nil)
}

// complete counts one group of a batch as finished.
func (b *Batch) complete(err error) {
	if err != nil {
		b.failed.CompareAndSwap(nil, &err)
	}
	if b.pending.Add(-1) > 0 {
		return
	}
	if failed := b.failed.Load(); failed != nil {
		err = *failed
	}
	b.onComplete(err)
}

// Stopped is closed when a write has failed permanently; Close then returns the error.
func (p *Publisher) Stopped() <-chan struct{} { return p.stopped }

// Close waits until every published batch is complete and returns the first error. Nothing may be
// published concurrently or afterwards.
func (p *Publisher) Close() error {
	for _, lane := range p.lanes {
		close(lane.groups)
	}
	p.running.Wait()
	if w := p.unbatchedWriter.Load(); w != nil {
		// Its connections belong to p.writer, which stays open.
		p.err = errors.Join(p.err, w.Writer.Close())
	}
	return p.err
}

func (p *Publisher) fail(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.stopped)
	})
}

// run writes the groups of a lane. After a failure it writes nothing: a later message of a key must
// not be stored without the earlier one.
func (p *Publisher) run(ctx context.Context, lane *lane) {
	var failed error
	var groups []group
	for first := range lane.groups {
		lane.release(first)
		groups = append(groups[:0], first)
		if failed == nil {
			groups = collect(groups, lane)
			if err := p.write(ctx, groups); err != nil {
				p.fail(err)
				failed = fmt.Errorf("%w: %w", ErrStopped, err)
			}
		}
		for _, g := range groups {
			g.batch.complete(failed)
		}
		// Allow completed batches to be freed.
		clear(groups)
	}
}

// write writes groups. Messages that are too large for the brokers are replaced, and all groups are written
// again: decisions about other records of the same identities may depend on the replaced ones.
func (p *Publisher) write(ctx context.Context, groups []group) error {
	for writer := p.writer; ; {
		select {
		case <-p.stopped: // closed by another lane
			return ErrStopped
		default:
		}
		err := p.attempt(ctx, writer, groups)
		rejectedKind, ok := errors.AsType[*messageTooLargeError](err)
		switch {
		case !ok:
			if err == nil {
				countRejected(groups)
			}
			return err
		case writer == p.writer:
			// A message of another lane in the same request may be the cause.
			writer = p.unbatched()
		default:
			if err := rejectedKind.replace(); err != nil {
				return err
			}
		}
	}
}

func (p *Publisher) attempt(ctx context.Context, writer *bus.Writer, groups []group) error {
	if p.opts.Store != nil {
		return p.writeDeduplicated(ctx, writer, groups)
	}
	var out outgoing
	for _, g := range groups {
		for n := range g.items {
			out.add(g.items[n].message, g.batch, &g.items[n])
		}
	}
	return p.send(ctx, writer, out)
}

func (p *Publisher) send(ctx context.Context, writer *bus.Writer, out outgoing) error {
	if p.opts.Dry || len(out.messages) == 0 {
		return nil
	}
	return out.tooLargeError(bus.WriteAll(ctx, writer, out.messages))
}

// collect adds groups that arrive within linger, up to the limits of one write.
func collect(groups []group, lane *lane) []group {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	count, bytes := len(groups[0].items), groups[0].bytes
	for count < maxWriteMessages && bytes < maxWriteBytes {
		select {
		case g, open := <-lane.groups:
			if !open {
				return groups
			}
			lane.release(g)
			groups = append(groups, g)
			count += len(g.items)
			bytes += g.bytes
		case <-timer.C:
			return groups
		}
	}
	return groups
}
