package credits

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Claim is what one call may use. It is passed to every operation on it, so
// that a store need not look anything up.
type Claim struct {
	// ID is the request id.
	ID           string
	Organization string
	// Period is the month that it counts in, event.PeriodOf.
	Period string
	// Key and Endpoint say by whom and for what, for the breakdown of Usage.
	Key, Endpoint string
	// Requests and Credits are the worst case.
	Requests, Credits int64
	// RequestLimit and CreditLimit are those of the plan at this moment: a plan
	// that changes in mid-period holds from the next call on.
	RequestLimit, CreditLimit int64
	// Lease is how long the reservation holds without a commit.
	Lease time.Duration
}

// Balance is what an organization has used in a period, what is committed
// included, and what calls in flight hold beside it.
type Balance struct {
	Requests, Credits         int64
	HeldRequests, HeldCredits int64
}

// Line is a part of the usage: of one key on one endpoint.
type Line struct {
	Key, Endpoint string
	// Calls counts answered calls and refused ones that count as requests, Requests those that count by the month.
	Calls, Requests, Credits int64
}

// Totals is the usage of an organization in a period.
type Totals struct {
	Balance
	Lines []Line // by endpoint, then key
}

// Sums is what a period of the ledger adds up to, by organization.
type Sums map[string][]Line

// ErrNotLoaded is the error of operations on a period whose sums the store was
// not given, or has lost.
var ErrNotLoaded = errors.New("the period's balances are not loaded")

// ErrLost is the error of a commit whose reservation is not there: its lease
// has ended, or the store has lost it.
var ErrLost = errors.New("the reservation is lost")

// Exceeded is the error of a reservation for which there is not enough left.
type Exceeded struct {
	// Requests is true when the monthly requests are used up, false when the
	// credits do not suffice.
	Requests bool
	Balance  Balance
}

// Error says what does not suffice.
func (e *Exceeded) Error() string {
	if e.Requests {
		return fmt.Sprintf("monthly requests are used up: %d used, %d held", e.Balance.Requests, e.Balance.HeldRequests)
	}
	return fmt.Sprintf("credits do not suffice: %d used, %d held", e.Balance.Credits, e.Balance.HeldCredits)
}

// Store keeps balances. It is safe for concurrent use.
type Store interface {
	// Reserve holds the worst case of a claim, all of it or nothing; of one that is
	// reserved already the lease begins again. The error is an [*Exceeded],
	// [ErrNotLoaded], or that the store is away.
	Reserve(ctx context.Context, c Claim) (Balance, error)
	// Commit uses so many requests and credits of a claim, no more than were
	// reserved, and frees the rest; one that is repeated with less frees the rest of
	// that. Without Settle it is taken back after a day. The error is [ErrLost],
	// [ErrNotLoaded], or that the store is away.
	Commit(ctx context.Context, c Claim, requests, credits int64) (Balance, error)
	// Settle makes the commits of claims final, also of those that were taken back.
	// Claims that are not there are passed over, so that it can be repeated.
	Settle(ctx context.Context, claims []Claim) error
	// Release frees what is reserved or committed for claims that are not
	// settled. Claims that are not there are passed over.
	Release(ctx context.Context, claims []Claim) error
	// Usage returns what an organization has used.
	Usage(ctx context.Context, organization, period string) (Totals, error)
	// Load gives a period the sums of the ledger, unless it has some already;
	// then loaded is false and nothing changes.
	Load(ctx context.Context, period string, sums Sums) (loaded bool, err error)
}

// commitLease is how long a commit holds without Settle: whoever was to publish its event
// has most likely lost it then, if Kafka has not been away for so long.
const commitLease = 24 * time.Hour

// check says whether a claim fits beside a balance.
func check(c Claim, b Balance) error {
	if c.Requests > 0 && b.Requests+b.HeldRequests+c.Requests > c.RequestLimit {
		return &Exceeded{Requests: true, Balance: b}
	}
	if c.Credits > 0 && b.Credits+b.HeldCredits+c.Credits > c.CreditLimit {
		return &Exceeded{Balance: b}
	}
	return nil
}
