package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/versions"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Limits of one write, and of what waits before it.
const (
	writeMessages = 2000
	writeBytes    = 4 << 20
	waitingGroups = 32
	// waitingMessages bounds what waits in a lane. What a message takes is far more than a short line that it was made
	// of, and all rejected records of a file share a lane.
	waitingMessages = 2 * writeMessages
	// linger is how long a lane waits for more: a write of a few messages costs the
	// processor as much as one of hundreds.
	linger = 50 * time.Millisecond
)

// ErrStopped is the reason of batches that were not written because an earlier
// write had failed for good.
var ErrStopped = errors.New("publishing has stopped")

// Batch is a set of messages whose fate is reported together: all of what one
// stretch of input became.
type Batch struct {
	groups  [][]item
	bytes   []int
	pending atomic.Int32
	failed  atomic.Pointer[error]
	settled func(error)
	again   bool
	letter  func(record.Kind, Place, kafka.Message, error) (kafka.Message, error)

	mu       sync.Mutex
	outcomes Outcomes
}

// item is a message, of a record if it has a kind.
type item struct {
	message kafka.Message
	kind    record.Kind
	stripe  int
	state   versions.State
	text    string // the version as given
	deleted bool
	place   Place
	refused record.Kind // of the record whose letter it is, which the brokers refused
	stored  bool        // though others of the same write are not
}

// Place is where in its input a record stands.
type Place struct{ Line, Offset int64 }

// Len is the number of messages added.
func (b *Batch) Len() int {
	n := 0
	for _, g := range b.groups {
		n += len(g)
	}
	return n
}

// Each calls do with the messages of a topic, once the batch is settled.
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
	writer  *bus.Writer
	single  atomic.Pointer[bus.Writer]
	opts    Options
	lanes   []*lane
	running sync.WaitGroup
	stopped chan struct{}
	once    sync.Once
	err     error
	// whole has the kinds that are published whole however little is new.
	whole map[record.Kind]bool
}

// group is a batch's share of a lane.
type group struct {
	batch *Batch
	items []item
	bytes int
}

// lane is a queue of groups, bounded by their number and by that of their messages.
type lane struct {
	groups  chan group
	mu      sync.Mutex
	room    *sync.Cond
	waiting int // messages
}

func newLane() *lane {
	l := &lane{groups: make(chan group, waitingGroups)}
	l.room = sync.NewCond(&l.mu)
	return l
}

// put waits for room and adds a group.
func (l *lane) put(g group) {
	l.mu.Lock()
	for l.waiting > 0 && l.waiting+len(g.items) > waitingMessages {
		l.room.Wait()
	}
	l.waiting += len(g.items)
	l.mu.Unlock()
	l.groups <- g
}

// taken gives the room of a group back.
func (l *lane) taken(g group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting -= len(g.items)
	l.room.Signal()
}

// Options change what a publisher does. The zero value publishes everything.
type Options struct {
	// Versions, if set, is what is known of identities: what was published before
	// is left out, and noted what is published now.
	Versions *versions.Store
	// Again publishes records also when they are known, except stale ones.
	Again bool
	// Whole publishes records whole of which only the version is new.
	Whole bool
	// Dry writes nothing to the brokers and settles as if it did.
	Dry bool
}

// New starts a publisher with a number of lanes, which writes until ctx ends:
// messages that are not acknowledged then count as not written. The writer stays
// the caller's to close, after [Publisher.Close]. There are at most
// versions.Stripes lanes.
func New(ctx context.Context, writer *bus.Writer, lanes int, opts Options) *Publisher {
	p := &Publisher{writer: writer, opts: opts, stopped: make(chan struct{}), whole: make(map[record.Kind]bool)}
	for _, d := range record.Definitions() {
		p.whole[d.Kind] = opts.Whole || !event.SeenKind(d.Kind)
	}
	for range min(max(lanes, 1), versions.Stripes) {
		l := newLane()
		p.lanes = append(p.lanes, l)
		p.running.Go(func() { p.run(ctx, l) })
	}
	return p
}

// NewBatch returns an empty batch. settled is called once, from any goroutine,
// when all of the batch is stored (nil), or when some of it is not and never will
// be by this publisher.
func (p *Publisher) NewBatch(settled func(error)) *Batch {
	return &Batch{
		groups:  make([][]item, len(p.lanes)),
		bytes:   make([]int, len(p.lanes)),
		settled: settled,
	}
}

// Again has the records of this batch published also when they are known, as
// Options.Again has all.
func (b *Batch) Again() { b.again = true }

// Add adds a message, which has a topic and a key. Batches may be filled beside
// one another, and not once they are published.
func (b *Batch) Add(m kafka.Message) {
	b.add(item{message: m, stripe: versions.StripeOf(m.Key)})
}

// AddRecord adds the message of a record, which is published whole, as a version
// only, or not at all, depending on what is known of its identity.
func (b *Batch) AddRecord(m kafka.Message, r *record.Record, place Place) {
	b.add(item{
		place:   place,
		message: m, kind: r.Kind, stripe: versions.StripeOf(m.Key),
		state: versions.State{Version: r.Version, Revision: r.Revision, Hash: r.Hash}, text: r.VersionText, deleted: r.Deleted,
	})
}

func (b *Batch) add(i item) {
	// The brokers' partitions are chosen by the same hash, so that with a number
	// of lanes that divides theirs no two lanes share a partition.
	lane := i.stripe % len(b.groups)
	b.groups[lane] = append(b.groups[lane], i)
	b.bytes[lane] += len(i.message.Key) + len(i.message.Value)
}

// Publish hands a batch over. Order is that of the calls, which must not run
// beside one another. It waits while the lanes have enough to do; the batch is
// settled in any case, and nothing it refers to may change until then.
func (p *Publisher) Publish(b *Batch) {
	shares := int32(0)
	for _, g := range b.groups {
		if len(g) > 0 {
			shares++
		}
	}
	b.pending.Store(shares + 1) // one for this call: nothing settles before all is handed over
	for i, items := range b.groups {
		if len(items) > 0 {
			p.lanes[i].put(group{batch: b, items: items, bytes: b.bytes[i]})
		}
	}
	b.settle(nil)
}

// settle counts one share of a batch as done.
func (b *Batch) settle(err error) {
	if err != nil {
		b.failed.CompareAndSwap(nil, &err)
	}
	if b.pending.Add(-1) > 0 {
		return
	}
	if failed := b.failed.Load(); failed != nil {
		err = *failed
	}
	b.settled(err)
}

// Stopped is closed when a write has failed for good; Close then returns why.
func (p *Publisher) Stopped() <-chan struct{} { return p.stopped }

// Close waits until every batch that was published is settled and returns the
// first error, if any. Nothing may be published beside it or afterwards.
func (p *Publisher) Close() error {
	for _, lane := range p.lanes {
		close(lane.groups)
	}
	p.running.Wait()
	if w := p.single.Load(); w != nil {
		p.err = errors.Join(p.err, w.Writer.Close()) // its connections are those of p.writer, which goes on
	}
	return p.err
}

func (p *Publisher) fail(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.stopped)
	})
}

// run writes what comes along a lane. After a failure it writes nothing any
// more: a later message of a key must not be stored without the earlier one.
func (p *Publisher) run(ctx context.Context, lane *lane) {
	var failed error
	var groups []group
	for first := range lane.groups {
		lane.taken(first)
		groups = append(groups[:0], first)
		if failed == nil {
			groups = gather(groups, lane)
			if err := p.write(ctx, groups); err != nil {
				p.fail(err)
				failed = fmt.Errorf("%w: %w", ErrStopped, err)
			}
		}
		for _, g := range groups {
			g.batch.settle(failed)
		}
		clear(groups) // what is stored is not kept from being freed
	}
}

// write writes groups. Of messages that the brokers find too large others take the
// place, and all is written again: what was decided of other records of the same
// identities may not hold without them.
func (p *Publisher) write(ctx context.Context, groups []group) error {
	for writer := p.writer; ; {
		select {
		case <-p.stopped: // by another lane
			return ErrStopped
		default:
		}
		err := p.attempt(ctx, writer, groups)
		refused, ok := errors.AsType[*refusal](err)
		switch {
		case !ok:
			if err == nil {
				noteRefused(groups)
			}
			return err
		case writer == p.writer:
			writer = p.alone() // a message of another lane may have been the one
		default:
			if err := refused.replace(); err != nil {
				return err
			}
		}
	}
}

func (p *Publisher) attempt(ctx context.Context, writer *bus.Writer, groups []group) error {
	if p.opts.Versions != nil {
		return p.writeNew(ctx, writer, groups)
	}
	var out outgoing
	for _, g := range groups {
		for n := range g.items {
			out.add(g.items[n].message, g.batch, &g.items[n])
		}
	}
	return p.send(ctx, writer, out)
}

// send writes to the brokers.
func (p *Publisher) send(ctx context.Context, writer *bus.Writer, out outgoing) error {
	if p.opts.Dry || len(out.messages) == 0 {
		return nil
	}
	return out.refusal(bus.WriteAll(ctx, writer, out.messages))
}

// gather takes what comes soon, up to what one write should carry.
func gather(groups []group, lane *lane) []group {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	count, bytes := len(groups[0].items), groups[0].bytes
	for count < writeMessages && bytes < writeBytes {
		select {
		case g, open := <-lane.groups:
			if !open {
				return groups
			}
			lane.taken(g)
			groups = append(groups, g)
			count += len(g.items)
			bytes += g.bytes
		case <-timer.C:
			return groups
		}
	}
	return groups
}
