package readstore

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	ch "muster/platform/clickhouse"
	"muster/schemas/readmodel"
)

// maxHidden is the maximum number of people excluded from counting statements. Beyond it, as after an import of a
// deletion list, counts include people until their rows are deleted.
const maxHidden = 5000

const (
	// hiddenDelay is how long a scan waits for more changes, and the retry interval after a failure.
	hiddenDelay = 250 * time.Millisecond
	// hiddenInterval is the interval of scans while rows of erased people exist.
	hiddenInterval = 15 * time.Second
)

// Hidden returns the profile hashes of erased network people whose rows are still stored, at most maxHidden. Statements
// that count or rank people exclude them; readers of rows check the suppression set themselves. [Store.WatchErasures]
// updates them after changes of the set.
func (s *Store) Hidden() []uint64 {
	if hidden := s.hidden.Load(); hidden != nil {
		return *hidden
	}
	return nil
}

// WatchErasures updates Hidden until ctx ends. It scans the people whenever the suppression set has changed, and
// periodically while rows of erased people exist. It retries failed scans.
func (s *Store) WatchErasures(ctx context.Context) {
	if s.suppressed == nil || s.suppressed.WaitLoaded(ctx) != nil {
		return
	}
	seen, pause := uint64(0), hiddenDelay
	for {
		changes, woken := s.suppressed.Changes()
		if changes != seen || len(s.Hidden()) > 0 {
			began := time.Now()
			if err := s.scanHidden(ctx); err != nil {
				if ctx.Err() != nil {
					return
				}
				s.logger.LogAttrs(ctx, slog.LevelWarn, "readstore: scan for erased people failed, will retry",
					slog.Any("error", err))
				changes = seen
			}
			seen, pause = changes, max(hiddenDelay, 5*time.Since(began))
		}
		if wait(ctx, pause, nil); ctx.Err() != nil {
			return
		}
		if now, _ := s.suppressed.Changes(); now == seen {
			interval := time.Duration(0)
			if len(s.Hidden()) > 0 {
				interval = hiddenInterval
			}
			wait(ctx, interval, woken)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// wait waits until d has passed, woken is closed, or ctx ends; a d of 0 never passes.
func wait(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	var elapsed <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-ctx.Done():
	case <-woken:
	case <-elapsed:
	}
}

// scanHidden compares all people with the suppression set.
func (s *Store) scanHidden(ctx context.Context) error {
	var hidden []uint64
	if s.suppressed.Len() > 0 {
		row := readmodel.NetworkPersonRow{}
		const query = "SELECT profile_hash, profile_id, username_key, email_keys FROM network_people"
		err := ch.ReadRows(ctx, s.conn, query, func(rows driver.Rows) error {
			if err := rows.Scan(&row.ProfileHash, &row.ProfileID, &row.UsernameKey, &row.EmailKeys); err != nil {
				return err
			}
			if len(hidden) < maxHidden && s.isNetworkErased(&row) {
				hidden = append(hidden, row.ProfileHash)
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.Sort(hidden)
		hidden = slices.Compact(hidden)
	}
	s.hidden.Store(&hidden)
	return nil
}
