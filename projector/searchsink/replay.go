package searchsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/opensearch"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
	"muster/schemas/suppress"
)

// Replaying are the dependencies of Replay. All fields but Suppressed and Progress are required.
type Replaying struct {
	Client     *opensearch.Client
	Key        []byte
	Conn       driver.Conn
	Suppressed *suppress.Set
	Logger     *slog.Logger
	Progress   Progress
	Now        func() time.Time
}

// Report is the result of Replay for a collection.
type Report struct {
	Index string `json:"index"`
	Checksum
	// Replaced are the indexes that were deleted.
	Replaced []string `json:"replaced"`
}

// Replay rebuilds the index of each collection: it fills a new index from the table, compares the two, switches the
// alias, and deletes the old index. Sinks write to both indexes while it runs. If it is interrupted, the live index
// stays in use, and the next replay starts from scratch.
func Replay(ctx context.Context, r Replaying) (reports []Report, err error) {
	if r.Client == nil || r.Conn == nil || r.Logger == nil || r.Now == nil || len(r.Key) != searchindex.KeySize {
		return nil, errors.New("replay search: missing client, connection, key, logger or clock")
	}
	if r.Progress == nil {
		r.Progress = noProgress{}
	}
	w, err := newWriter(r.Client, Config{}, r.Logger, nil)
	if err != nil {
		return nil, fmt.Errorf("replay search: %w", err)
	}
	err = migrations.WithLock(ctx, r.Conn, r.Logger, func(ctx context.Context, _ readmodel.Layout) error {
		for _, c := range readmodel.SearchCollections() {
			report, err := r.replay(ctx, filler{
				collection: &c, writer: w.of(c.Name), key: r.Key, conn: r.Conn, suppressed: r.Suppressed,
			})
			if err != nil {
				return err
			}
			reports = append(reports, report)
		}
		return nil
	})
	if err != nil {
		return reports, fmt.Errorf("replay search: %w", redact(err))
	}
	return reports, nil
}

func (r Replaying) replay(ctx context.Context, fill filler) (report Report, err error) {
	x := fill.writer.indexes
	before, err := x.list(ctx)
	if err != nil {
		return report, err
	}
	meta := searchindex.Meta{}
	for _, t := range before {
		if t.meta.Generation >= meta.Generation {
			meta = t.meta
		}
		// Left by a replay that was interrupted. Sinks may still be filling the first index.
		if !t.live && t.index != x.names.Index(initialID) {
			if err := x.drop(ctx, t.index); err != nil {
				return report, err
			}
			report.Replaced = append(report.Replaced, t.index)
		}
	}
	t, err := x.create(ctx, fill.collection, strconv.FormatInt(r.Now().UnixNano(), 36), meta)
	if err != nil {
		return report, err
	}
	report.Index = t.index
	if _, err := fill.run(ctx, t.index, r.Progress); err != nil {
		return report, r.abandon(ctx, x, t.index, err)
	}
	if report.Checksum, err = fill.verify(ctx, t.index, r.Progress); err != nil {
		return report, r.abandon(ctx, x, t.index, err)
	}
	if err := x.promote(ctx, t.index); err != nil {
		return report, r.abandon(ctx, x, t.index, err)
	}
	for _, old := range before {
		if !old.live && old.index != x.names.Index(initialID) {
			continue
		}
		if err := x.drop(ctx, old.index); err != nil {
			return report, err
		}
		report.Replaced = append(report.Replaced, old.index)
	}
	return report, nil
}

// abandonTimeout bounds the deletion of an unfinished index.
const abandonTimeout = 10 * time.Second

// abandon deletes an unfinished index, also if ctx has ended, and returns the error.
func (r Replaying) abandon(ctx context.Context, x indexes, index string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	all, listErr := x.list(ctx)
	for _, t := range all {
		if t.index == index && t.live { // The switch succeeded, but not its response.
			return errors.Join(err, listErr)
		}
	}
	return errors.Join(err, listErr, x.drop(ctx, index))
}
