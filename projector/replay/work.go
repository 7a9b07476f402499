package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector/project"
	"muster/schemas/readmodel"
)

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// progress is the next offset to replay, by partition: rows of all records before it are durable and the
// offset is committed.
type progress struct {
	mu   sync.Mutex
	next map[topicPartition]int64
}

// record records the ranges of a handled batch.
func (p *progress) record(b bus.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range b.Ranges {
		p.next[topicPartition{r.Topic, r.Partition}] = r.Last + 1
	}
}

// offset returns the next offset to replay in a partition.
func (p *progress) offset(at topicPartition) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[at]
}

// start runs a projection of the replay's topics into the shadow tables.
func (r *replay) start(ctx context.Context, fail context.CancelCauseFunc) error {
	cfg := r.cfg.Projector
	cfg.Group = r.group
	names := readmodel.Names{}
	for _, t := range r.tables {
		names[t.Table] = t.ShadowTable()
	}
	deps := r.deps.Deps
	deps.Registerer = nil // Metrics belong to the live projector.
	lags, err := bus.Lag(ctx, cfg.Kafka, r.group, r.topics)
	if err != nil {
		return err
	}
	r.progress = &progress{next: make(map[topicPartition]int64, len(lags))}
	for _, l := range lags {
		r.progress.next[topicPartition{l.Topic, l.Partition}] = l.Next
	}
	records, err := project.NewReplay(cfg, deps, r.topics, names, r.progress.record)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		if deps.Suppressed.WaitLoaded(running) != nil {
			ended <- nil // Canceled before the start.
			return
		}
		err := records.Run(running)
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

// endOffsets returns the current end offsets of the topics.
func (r *replay) endOffsets(ctx context.Context) ([]bus.PartitionOffsets, error) {
	ends, err := bus.EndOffsets(ctx, r.cfg.Projector.Kafka, r.topics)
	if err != nil {
		return nil, err
	}
	return ends, nil
}

// remaining returns the number of offsets that are still to be replayed, up to ends.
func (r *replay) remaining(ends []bus.PartitionOffsets) (n int64) {
	for _, e := range ends {
		if e.End > e.First { // Skip empty partitions.
			n += max(0, e.End-max(e.First, r.progress.offset(topicPartition{e.Topic, e.Partition})))
		}
	}
	return n
}

// await blocks until everything before ends is in the shadow tables.
func (r *replay) await(ctx context.Context, ends []bus.PartitionOffsets, report func(missing int64)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		missing := r.remaining(ends)
		if report != nil {
			report(missing)
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d offsets not replayed: %w", missing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// catchUp replays until the lag is within catchUpTolerance.
func (r *replay) catchUp(ctx context.Context) error {
	for first := true; ; first = false {
		ends, err := r.endOffsets(ctx)
		if err != nil {
			return err
		}
		total := r.remaining(ends)
		if first {
			r.deps.Progress.Begin("Replaying the topics", total)
			defer r.deps.Progress.End()
		}
		begin := r.deps.Now()
		if err := r.await(ctx, ends, func(missing int64) { r.deps.Progress.Set(total - missing) }); err != nil {
			return err
		}
		if r.deps.Now().Sub(begin) <= catchUpTolerance {
			return nil
		}
	}
}

// ranges returns the hash ranges in which a table is compared.
func (r *replay) ranges(ctx context.Context, t readmodel.Rebuild) ([]readmodel.Slice, error) {
	var n uint64
	for _, table := range []string{t.Table, t.ShadowTable()} {
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
	return readmodel.Slices(sample, int(max(minSlices, n/r.cfg.SliceRows+1))), nil //nolint:gosec // small
}

// copyNewerFromLive copies rows from the live tables that the topics lack or have only in an older version.
func (r *replay) copyNewerFromLive(ctx context.Context) error {
	for _, t := range r.tables {
		parts, err := r.ranges(ctx, t)
		if err != nil {
			return err
		}
		columns, err := r.columns(ctx, t)
		if err != nil {
			return err
		}
		rebuilt := Rebuilt{Table: t.Table, Kept: t.RetiredTable()}
		r.deps.Progress.Begin("Copying newer rows of "+t.Table, int64(len(parts)))
		for i, s := range parts {
			var behind uint64
			if err := r.deps.Conn.QueryRow(ctx, t.CountStale(s)).Scan(&behind); err != nil {
				return fmt.Errorf("find newer rows in %s: %w", t.Table, err)
			}
			if behind > 0 {
				if err := r.deps.Conn.Exec(ctx, t.CopyNewer(s, columns)); err != nil {
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
	err = clickhouse.ReadRows(ctx, r.deps.Conn, t.ColumnsQuery(), func(rows driver.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", t.Table, err)
	}
	return names, nil
}

// compare checks that no identity of the live tables is missing or older in the shadow tables.
func (r *replay) compare(ctx context.Context) error {
	for i, t := range r.tables {
		parts, err := r.ranges(ctx, t)
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
			rebuilt.Newer += c.NewerInShadow
			if c.LiveSum == c.FreshSum {
				rebuilt.Equal++
			}
			behind += c.Stale
			r.deps.Progress.Set(int64(n + 1))
		}
		r.deps.Progress.End()
		if behind > 0 {
			return fmt.Errorf("%s: %d identities of the live table are missing or older in the rebuilt one; tables "+
				"were not exchanged: "+
				"run the replay again, and report a bug if the error persists", t.Table, behind)
		}
	}
	return nil
}

func (r *replay) compareSlice(
	ctx context.Context, t readmodel.Rebuild, s readmodel.Slice,
) (c readmodel.Comparison, err error) {
	// Read the progress before the tables.
	var handled []readmodel.Progress
	r.progress.mu.Lock()
	for at, next := range r.progress.next {
		handled = append(handled, readmodel.Progress{Topic: at.topic, Partition: at.partition, Next: next})
	}
	r.progress.mu.Unlock()
	if err := r.deps.Conn.QueryRow(ctx, t.CompareQuery(s, handled)).Scan(c.ScanDest()...); err != nil {
		return c, fmt.Errorf("compare %s: %w", t.Table, err)
	}
	return c, nil
}

// swap exchanges the shadow tables and the live ones once they have the same records.
func (r *replay) swap(ctx context.Context) (err error) {
	r.deps.Progress.Begin("Exchanging the tables", int64(len(r.tables)))
	defer r.deps.Progress.End()
	begin := r.deps.Now()
	defer func() {
		if err == nil {
			r.report.InsertsPaused = r.deps.Now().Sub(begin)
			return
		}
		// Even if ctx has ended: inserts must not stay paused.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
		defer cancel()
		err = errors.Join(err, r.resumeInserts(late))
	}()
	if err := r.pauseAndDrain(ctx); err != nil {
		return err
	}
	// From here on, records wait in the projectors for the new tables.
	if err := r.stop(); err != nil {
		return err
	}
	for i, t := range r.tables {
		// The shadow table's name then refers to the previous live table.
		if err := r.exec(ctx, append([]string{t.Exchange(), t.ResumeInserts(t.ShadowTable())},
			t.Retire()...)...); err != nil {
			return err
		}
		r.deps.Progress.Set(int64(i + 1))
	}
	return nil
}

// pauseAndDrain pauses inserts into the live tables and replays everything published before. Inserts in
// flight at that time contain such records only.
func (r *replay) pauseAndDrain(ctx context.Context) error {
	for try := 1; ; try++ {
		for _, t := range r.tables {
			if err := r.exec(ctx, t.PauseInserts()); err != nil {
				return err
			}
		}
		ends, err := r.endOffsets(ctx)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, r.cfg.FreezeTimeout)
		err = r.await(limited, ends, nil)
		cancel()
		if err == nil || ctx.Err() != nil || try == maxPauses {
			return err
		}
		r.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "replay: last records not replayed in time, will retry",
			slog.Any("error", err))
		if err := r.resumeInserts(ctx); err != nil {
			return err
		}
		if err := r.catchUp(ctx); err != nil {
			return err
		}
	}
}
