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

// maxHidden bounds how many people are named to statements that count. Of more, as
// after a list of deletions, counts tell until they are deleted.
const maxHidden = 5000

const (
	// hiddenPause is how long a look waits for more changes, and how soon one that
	// failed is tried again.
	hiddenPause = 250 * time.Millisecond
	// hiddenAge is how soon it is looked again whether they are deleted.
	hiddenAge = 15 * time.Second
)

// Hidden are the profile hashes of network people who were erased and whose rows are
// still there: readers of rows ask the suppression set themselves, a statement that
// counts or ranks people leaves these out. They are at most maxHidden, and are known
// a look through the people after the set has changed ([Store.WatchErased]).
func (s *Store) Hidden() []uint64 {
	if hidden := s.hidden.Load(); hidden != nil {
		return *hidden
	}
	return nil
}

// WatchErased keeps what Hidden says until ctx ends: it looks through the people
// whenever the suppression set has changed, and from time to time while somebody is
// hidden. What fails is tried again.
func (s *Store) WatchErased(ctx context.Context) {
	if s.suppressed == nil || s.suppressed.WaitLoaded(ctx) != nil {
		return
	}
	seen, pause := uint64(0), hiddenPause
	for {
		changes, woken := s.suppressed.Changes()
		if changes != seen || len(s.Hidden()) > 0 {
			began := time.Now()
			if err := s.lookForHidden(ctx); err != nil {
				if ctx.Err() != nil {
					return
				}
				s.logger.LogAttrs(ctx, slog.LevelWarn, "looking for erased people is tried again", slog.Any("error", err))
				changes = seen
			}
			seen, pause = changes, max(hiddenPause, 5*time.Since(began))
		}
		if wait(ctx, pause, nil); ctx.Err() != nil {
			return
		}
		if now, _ := s.suppressed.Changes(); now == seen {
			age := time.Duration(0)
			if len(s.Hidden()) > 0 {
				age = hiddenAge
			}
			wait(ctx, age, woken)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// wait waits for a time, or without end if it is 0, until woken or ctx ends.
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

// lookForHidden compares everybody with the set.
func (s *Store) lookForHidden(ctx context.Context) error {
	var hidden []uint64
	if s.suppressed.Len() > 0 {
		row := readmodel.NetworkPersonRow{}
		const query = "SELECT profile_hash, profile_id, username_key, email_keys FROM network_people"
		err := ch.ReadRows(ctx, s.conn, query, func(rows driver.Rows) error {
			if err := rows.Scan(&row.ProfileHash, &row.ProfileID, &row.UsernameKey, &row.EmailKeys); err != nil {
				return err
			}
			if len(hidden) < maxHidden && s.erasedNetwork(&row) {
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
