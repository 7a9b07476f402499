package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
)

// lockTiming holds the intervals of the migration lock. A holder renews its row every renewal and is considered dead
// after expiry without one; waiting processes check every one to five polls. Progress is logged every report.
type lockTiming struct{ expiry, renewal, poll, report time.Duration }

func defaultLockTiming() lockTiming {
	return lockTiming{
		expiry: 30 * time.Second, renewal: 5 * time.Second, poll: 250 * time.Millisecond, report: 30 * time.Second,
	}
}

// ErrLocked is returned when another process held the migration lock throughout MigrateConfig.WaitForOther.
var ErrLocked = errors.New("another process is migrating or rebuilding tables")

// ErrLockLost ends the work of a holder whose renewals failed for so long that other processes may consider it dead.
var ErrLockLost = errors.New("lost the migration lock: could not renew it in time")

// withLock runs work while no other process does. ClickHouse has no locks, so a process writes a row first and reads
// the others' rows after that: of two concurrent processes, the one that reads later sees the other and withdraws. Both
// may withdraw; they retry after different random delays.
func withLock(ctx context.Context, conn driver.Conn, cfg MigrateConfig, work func(context.Context) error) error {
	l := &lock{conn: conn, token: uuid.NewString(), replicated: cfg.OnCluster != "", timing: cfg.timing}
	if err := l.acquire(ctx, cfg.WaitForOther); err != nil {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		l.renew(held, lose)
	}()
	err := work(held)
	if cause := context.Cause(held); err != nil && errors.Is(cause, ErrLockLost) {
		err = errors.Join(cause, err)
	}
	lose(context.Canceled)
	<-renewed
	// Release also after ctx has ended, so that the next process need not wait for the expiry.
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.timing.renewal)
	defer cancel()
	return errors.Join(err, l.write(release, true))
}

type lock struct {
	conn       driver.Conn
	token      string
	replicated bool
	timing     lockTiming
}

func (l *lock) acquire(ctx context.Context, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		other, err := l.otherHolder(ctx)
		if err != nil {
			return err
		}
		if other == "" {
			if other, err = l.announce(ctx); err != nil {
				return err
			}
			if other == "" {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w (token %s in muster_migrations_lock, which expires %v after its last renewal)",
				ErrLocked, other, l.timing.expiry)
		}
		timer := time.NewTimer(l.timing.poll + rand.N(4*l.timing.poll)) //nolint:gosec // not a secret
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for migration lock: %w", context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// announce writes the lock row and returns "" if no other process holds the lock; otherwise it withdraws.
func (l *lock) announce(ctx context.Context) (other string, err error) {
	if err := l.write(ctx, false); err != nil {
		// Another process is writing its row at the same moment.
		if code, ok := CodeOf(err); ok && code == proto.ErrUnsatisfiedQuorumForPreviousWrite {
			return "(being written)", nil
		}
		return "", err
	}
	if other, err = l.otherHolder(ctx); err != nil || other == "" {
		return "", err
	}
	return other, l.write(ctx, true)
}

// renew renews the lock row until ctx ends, and calls lose when the renewals have failed for too long.
func (l *lock) renew(ctx context.Context, lose context.CancelCauseFunc) {
	ticker := time.NewTicker(l.timing.renewal)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		attempt := time.Now()
		limited, cancel := context.WithTimeout(ctx, l.timing.renewal)
		err := l.write(limited, false)
		cancel()
		switch {
		case err == nil:
			last = attempt
		case time.Since(last) > l.timing.expiry-2*l.timing.renewal:
			lose(fmt.Errorf("%w: %w", ErrLockLost, err))
			return
		}
	}
}

func (l *lock) write(ctx context.Context, released bool) error {
	settings := "insert_deduplicate = 0"
	// Together with select_sequential_consistency, this makes a read that follows the write see all other rows.
	if l.replicated {
		settings += ", insert_quorum = 'auto', insert_quorum_parallel = 0"
	}
	err := l.conn.Exec(ctx, `INSERT INTO muster_migrations_lock (token, seen_at, released) SETTINGS `+settings+`
SELECT ?, now64(3), ?`, l.token, released)
	if err != nil {
		return fmt.Errorf("write migration lock: %w", err)
	}
	return nil
}

// otherHolder returns the token of another process that holds the lock and has not expired, or "".
func (l *lock) otherHolder(ctx context.Context) (string, error) {
	var token string
	err := l.conn.QueryRow(ctx, `SELECT any(token) FROM (
	SELECT token, max(seen_at) AS seen, argMax(released, (seen_at, released)) AS done FROM muster_migrations_lock
	WHERE token != ? GROUP BY token)
WHERE NOT done AND seen > now64(3) - toIntervalMillisecond(?)
SETTINGS select_sequential_consistency = 1`, l.token, l.timing.expiry.Milliseconds()).Scan(&token)
	if err != nil {
		return "", fmt.Errorf("read migration lock: %w", err)
	}
	return token, nil
}
