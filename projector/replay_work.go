package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"muster/platform/bus"
	"muster/schemas/readmodel"
)

// replayPoll is how often a replay looks at its own progress.
const replayPoll = 10 * time.Millisecond

// place is a partition of a topic.
type place struct {
	topic     string
	partition int
}

// reached is how far a projector is, by partition: rows of all records before are
// durable, and the offset is committed.
type reached struct {
	mu   sync.Mutex
	next map[place]int64
}

// note takes how far a batch reaches, in a replay.
func (p *Projector) note(b bus.Batch) {
	if p.reached == nil {
		return
	}
	p.reached.mu.Lock()
	defer p.reached.mu.Unlock()
	for _, r := range b.Ranges {
		p.reached.next[place{r.Topic, r.Partition}] = r.Last + 1
	}
}

func (p *reached) of(at place) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[at]
}

// start runs a projector of the replay's topics into its fresh tables.
func (r *replay) start(ctx context.Context, fail context.CancelCauseFunc) error {
	cfg := r.cfg.Projector
	cfg.Group = r.group
	names := readmodel.Names{}
	for _, t := range r.tables {
		names[t.Table] = t.Fresh()
	}
	deps := r.deps.Deps
	deps.Registerer = nil // the live projector's metrics are its own
	p, err := newProjector(cfg, deps, r.topics, names)
	if err != nil {
		return err
	}
	lags, err := bus.Lag(ctx, cfg.Kafka, r.group, r.topics)
	if err != nil {
		return err
	}
	p.reached = &reached{next: make(map[place]int64, len(lags))}
	for _, l := range lags {
		p.reached.next[place{l.Topic, l.Partition}] = max(l.Committed, l.First)
	}
	r.projector = p
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := p.Run(running)
		if err != nil {
			fail(err)
		}
		ended <- err
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	return nil
}

// ends are the topics' ends now.
func (r *replay) ends(ctx context.Context) ([]bus.PartitionOffsets, error) {
	ends, err := bus.EndOffsets(ctx, r.cfg.Projector.Kafka, r.topics)
	if err != nil {
		return nil, err
	}
	return ends, nil
}

// missing counts the offsets between what was replayed and the ends.
func (r *replay) missing(ends []bus.PartitionOffsets) (n int64) {
	for _, e := range ends {
		if e.End > e.First { // an empty partition has nothing to wait for
			n += max(0, e.End-max(e.First, r.projector.reached.of(place{e.Topic, e.Partition})))
		}
	}
	return n
}

// await returns when everything before the ends is in the fresh tables.
func (r *replay) await(ctx context.Context, ends []bus.PartitionOffsets, seen func(missing int64)) error {
	ticker := time.NewTicker(replayPoll)
	defer ticker.Stop()
	for {
		missing := r.missing(ends)
		if seen != nil {
			seen(missing)
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d offsets are not replayed yet: %w", missing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// closeBehind is how soon the topics' end must be reached for the replay to count
// as caught up: what came meanwhile is replayed while inserts pause.
const closeBehind = time.Second

// catchUp replays until the topics' end is near.
func (r *replay) catchUp(ctx context.Context) error {
	for first := true; ; first = false {
		ends, err := r.ends(ctx)
		if err != nil {
			return err
		}
		total := r.missing(ends)
		if first {
			r.deps.Progress.Begin("Replaying the topics", total)
			defer r.deps.Progress.End()
		}
		begin := r.deps.Now()
		if err := r.await(ctx, ends, func(missing int64) { r.deps.Progress.Set(total - missing) }); err != nil {
			return err
		}
		if r.deps.Now().Sub(begin) <= closeBehind {
			return nil
		}
	}
}

// slices are the parts that a table is compared in.
func (r *replay) slices(ctx context.Context, t readmodel.Rebuild) ([]readmodel.Slice, error) {
	const least = 8
	var n uint64
	for _, table := range []string{t.Table, t.Fresh()} {
		var rows uint64
		if err := r.deps.Conn.QueryRow(ctx, "SELECT count() FROM "+table).Scan(&rows); err != nil {
			return nil, fmt.Errorf("count %s: %w", table, err)
		}
		n += rows
	}
	var sample []string
	if err := r.deps.Conn.QueryRow(ctx, t.SampleQuery()).Scan(&sample); err != nil {
		return nil, fmt.Errorf("part %s: %w", t.Table, err)
	}
	return readmodel.Slices(sample, int(max(least, n/r.cfg.SliceRows+1))), nil //nolint:gosec // small
}

// keepNewer copies from the live tables what the topics have no more, or older.
func (r *replay) keepNewer(ctx context.Context) error {
	for _, t := range r.tables {
		parts, err := r.slices(ctx, t)
		if err != nil {
			return err
		}
		columns, err := r.columns(ctx, t)
		if err != nil {
			return err
		}
		rebuilt := Rebuilt{Table: t.Table, Kept: t.Kept()}
		r.deps.Progress.Begin("Keeping what is newer in "+t.Table, int64(len(parts)))
		for i, s := range parts {
			var behind uint64
			if err := r.deps.Conn.QueryRow(ctx, t.CountBehind(s)).Scan(&behind); err != nil {
				return fmt.Errorf("look for newer rows in %s: %w", t.Table, err)
			}
			if behind > 0 {
				if err := r.deps.Conn.Exec(ctx, t.CopyBehind(s, columns)); err != nil {
					return fmt.Errorf("copy newer rows of %s: %w", t.Table, err)
				}
				rebuilt.FromLive += behind
			}
			r.deps.Progress.Set(int64(i + 1))
		}
		r.deps.Progress.End()
		r.report.Tables = append(r.report.Tables, rebuilt)
	}
	return nil
}

func (r *replay) columns(ctx context.Context, t readmodel.Rebuild) (names []string, err error) {
	rows, err := r.deps.Conn.Query(ctx, t.ColumnsQuery())
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", t.Table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("read the columns of %s: %w", t.Table, err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// compare checks that no identity of the live tables is missing or older.
func (r *replay) compare(ctx context.Context) error {
	for i, t := range r.tables {
		parts, err := r.slices(ctx, t)
		if err != nil {
			return err
		}
		rebuilt := &r.report.Tables[i]
		rebuilt.Partitions = len(parts)
		r.deps.Progress.Begin("Comparing "+t.Table, int64(len(parts)))
		var behind uint64
		for n, s := range parts {
			c, err := r.compareSlice(ctx, t, s)
			if err != nil {
				return err
			}
			rebuilt.Before += c.Live
			rebuilt.After += c.Fresh
			rebuilt.Added += c.Added
			rebuilt.Newer += c.NewerInFresh
			if c.LiveSum == c.FreshSum {
				rebuilt.Equal++
			}
			behind += c.Behind
			r.deps.Progress.Set(int64(n + 1))
		}
		r.deps.Progress.End()
		if behind > 0 {
			return fmt.Errorf("%s: %d identities of the live table are missing or older in the rebuilt one, which is not put in its place; "+
				"run the replay again, and report it if that happens again", t.Table, behind)
		}
	}
	return nil
}

func (r *replay) compareSlice(ctx context.Context, t readmodel.Rebuild, s readmodel.Slice) (c readmodel.Comparison, err error) {
	// How far the replay is is read before the tables are.
	var handled []readmodel.Progress
	r.projector.reached.mu.Lock()
	for at, next := range r.projector.reached.next {
		handled = append(handled, readmodel.Progress{Topic: at.topic, Partition: at.partition, Next: next})
	}
	r.projector.reached.mu.Unlock()
	if err := r.deps.Conn.QueryRow(ctx, t.CompareQuery(s, handled)).Scan(c.Dest()...); err != nil {
		return c, fmt.Errorf("compare %s: %w", t.Table, err)
	}
	return c, nil
}

// swap puts the fresh tables in the live ones' place at a moment at which they
// hold all that the live ones do.
func (r *replay) swap(ctx context.Context) (err error) {
	r.deps.Progress.Begin("Putting the new tables in place", int64(len(r.tables)))
	defer r.deps.Progress.End()
	begin := r.deps.Now()
	defer func() {
		if err == nil {
			r.report.Frozen = r.deps.Now().Sub(begin)
			return
		}
		// Also when ctx has ended: projectors must not stay stopped.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, r.thaw(late))
	}()
	if err := r.settle(ctx); err != nil {
		return err
	}
	// What is published from here on waits in projectors for the new tables.
	if err := r.stop(); err != nil {
		return err
	}
	for i, t := range r.tables {
		// Under the fresh one's name stands then what was live.
		if err := r.exec(ctx, append([]string{t.Exchange(), t.Thaw(t.Fresh())}, t.Keep()...)...); err != nil {
			return err
		}
		r.deps.Progress.Set(int64(i + 1))
	}
	return nil
}

// settle stops inserts into the live tables and replays everything that was
// published before they were stopped. An insert that had begun by then, and may
// still be written, is of such records too.
func (r *replay) settle(ctx context.Context) error {
	const tries = 5
	for try := 1; ; try++ {
		for _, t := range r.tables {
			if err := r.exec(ctx, t.Freeze()); err != nil {
				return err
			}
		}
		ends, err := r.ends(ctx)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, r.cfg.FreezeTimeout)
		err = r.await(limited, ends, nil)
		cancel()
		if err == nil || ctx.Err() != nil || try == tries {
			return err
		}
		r.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "the last records were not replayed in time, trying again later", slog.Any("error", err))
		if err := r.thaw(ctx); err != nil {
			return err
		}
		if err := r.catchUp(ctx); err != nil {
			return err
		}
	}
}
