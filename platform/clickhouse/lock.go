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

// lockTiming: a holder that has not been seen for expiry is taken for dead; it shows itself every renewal; those who
// wait look every one to five polls. What a holder is at it tells every report.
type lockTiming struct{ expiry, renewal, poll, report time.Duration }

func defaultLockTiming() lockTiming {
	return lockTiming{expiry: 30 * time.Second, renewal: 5 * time.Second, poll: 250 * time.Millisecond, report: 30 * time.Second}
}

// ErrLocked says that another process was migrating for all of MigrateConfig.WaitForOther.
var ErrLocked = errors.New("another process is migrating or rebuilding tables")

// ErrLockLost ends the work of a holder whose renewals failed for so long that others may take it for dead.
var ErrLockLost = errors.New("lost the migration lock: could not renew it in time")

// withLock runs work while no other process does. ClickHouse has no locks, so each announces itself with a row and
// only then looks: of two who are there at once, the one who looked later has seen the other, and withdraws. That two
// withdraw from each other is possible; they try again after different random times.
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
	// Also when ctx has ended, so that the next one need not wait for the expiry.
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

func (l *lock) acquire(ctx context.Context, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		other, err := l.other(ctx)
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
			return fmt.Errorf("%w (token %s in muster_migrations_lock; it expires %v after its last sign of life)", ErrLocked, other, l.timing.expiry)
		}
		timer := time.NewTimer(l.timing.poll + rand.N(4*l.timing.poll)) //nolint:gosec // No secret.
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for another process that is migrating: %w", context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// announce makes itself seen and returns "" when nobody else is; otherwise it withdraws.
func (l *lock) announce(ctx context.Context) (other string, err error) {
	if err := l.write(ctx, false); err != nil {
		if code, ok := CodeOf(err); ok && code == proto.ErrUnsatisfiedQuorumForPreviousWrite {
			return "(being written)", nil // Another one is announcing itself at this moment.
		}
		return "", err
	}
	if other, err = l.other(ctx); err != nil || other == "" {
		return "", err
	}
	return other, l.write(ctx, true)
}

// renew shows signs of life until ctx ends, and ends it when they fail for too long.
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
	if l.replicated { // With select_sequential_consistency this is what makes looking after announcing see all.
		settings += ", insert_quorum = 'auto', insert_quorum_parallel = 0"
	}
	err := l.conn.Exec(ctx, `INSERT INTO muster_migrations_lock (token, seen_at, released) SETTINGS `+settings+`
SELECT ?, now64(3), ?`, l.token, released)
	if err != nil {
		return fmt.Errorf("write migration lock: %w", err)
	}
	return nil
}

// other returns the token of another process that has shown a sign of life, or "".
func (l *lock) other(ctx context.Context) (string, error) {
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
