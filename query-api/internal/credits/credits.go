package credits

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Claim is the resources of one call. It is passed to every operation, so that a store need not
// look it up.
type Claim struct {
	// ID is the request ID.
	ID           string
	Organization string
	// Period is the month of the call, event.PeriodOf.
	Period string
	// Key and Endpoint are used for the breakdown of Usage.
	Key, Endpoint string
	// Requests and Credits are the maximum that the call may use.
	Requests, Credits int64
	// Calls is how many calls the claim counts as in Usage; 0 means 1. Rows of a bulk job share a claim.
	Calls int64
	// RequestLimit and CreditLimit are the current limits of the plan. A plan change applies from the next call.
	RequestLimit, CreditLimit int64
	// Lease is how long an uncommitted reservation lasts.
	Lease time.Duration
}

// Balance is the usage of an organization in a period, including commits, and the reservations of
// calls in flight.
type Balance struct {
	Requests, Credits         int64
	HeldRequests, HeldCredits int64
}

// Line is the usage of one key on one endpoint.
type Line struct {
	Key, Endpoint string
	// Calls is the number of answered calls, and of rejected calls that count as requests; Requests is the number of
	// calls that count towards the monthly limit.
	Calls, Requests, Credits int64
}

// Totals is the usage of an organization in a period.
type Totals struct {
	Balance
	Lines []Line // by endpoint, then key
}

// Balances is the sums of a period of the ledger, by organization.
type Balances map[string][]Line

// ErrNotLoaded is returned by operations on a period whose sums were not loaded into the store, or
// are lost.
var ErrNotLoaded = errors.New("balances of the period are not loaded")

// ErrLost is returned by a commit without a reservation: its lease has expired, or the store has
// lost it.
var ErrLost = errors.New("reservation lost")

// Exceeded is returned by a reservation over a limit.
type Exceeded struct {
	// Requests is true if the monthly requests are used up, false if there are too few credits.
	Requests bool
	Balance  Balance
}

// Error implements error.
func (e *Exceeded) Error() string {
	if e.Requests {
		return fmt.Sprintf("monthly requests are used up: %d used, %d held", e.Balance.Requests, e.Balance.HeldRequests)
	}
	return fmt.Sprintf("insufficient credits: %d used, %d held", e.Balance.Credits, e.Balance.HeldCredits)
}

// Store stores balances. It is safe for concurrent use. All methods may return an error of an unavailable store.
type Store interface {
	// Reserve reserves the maximum of a claim, all or nothing. Repeating it renews the lease. It returns an [*Exceeded]
	// or [ErrNotLoaded].
	Reserve(ctx context.Context, c Claim) (Balance, error)
	// Commit uses requests and credits of a claim, at most those reserved, and frees the rest. Repeating it with less
	// frees the difference. A commit without Settle is reverted after a day. It returns [ErrLost] or [ErrNotLoaded].
	Commit(ctx context.Context, c Claim, requests, credits int64) (Balance, error)
	// Settle makes the commits of claims final, including reverted ones. Unknown claims are skipped, so it can be
	// repeated.
	Settle(ctx context.Context, claims []Claim) error
	// Release frees the reservations and commits of claims that are not settled. Unknown claims are skipped.
	Release(ctx context.Context, claims []Claim) error
	// ReleaseReservations frees the reservations of claims that are not committed. Commits stay: another process may
	// have committed the claim a moment ago. Unknown claims are skipped.
	ReleaseReservations(ctx context.Context, claims []Claim) error
	// Usage returns the usage of an organization.
	Usage(ctx context.Context, organization, period string) (Totals, error)
	// Load initializes a period with the sums of the ledger. If the period is already loaded, it returns false and
	// changes nothing.
	Load(ctx context.Context, period string, balances Balances) (loaded bool, err error)
}

// commitLease is how long a commit lasts without Settle. After that its usage event was most likely lost, unless Kafka
// was unavailable for that long.
const commitLease = 24 * time.Hour

// check returns an [*Exceeded] if a claim does not fit into the limits.
func check(c Claim, b Balance) error {
	if c.Requests > 0 && b.Requests+b.HeldRequests+c.Requests > c.RequestLimit {
		return &Exceeded{Requests: true, Balance: b}
	}
	if c.Credits > 0 && b.Credits+b.HeldCredits+c.Credits > c.CreditLimit {
		return &Exceeded{Balance: b}
	}
	return nil
}
