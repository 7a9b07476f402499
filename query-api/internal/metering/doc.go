// Package metering decides whether a call may be made, and counts and charges each call once.
//
// The HTTP layer starts a [Call] for each authenticated request ([Meter.Begin]) and ends it after
// its response was sent, or failed to be sent ([Call.End]). In between, the endpoint reserves the
// most it may need with [Call.Reserve] and reports what it used with [Reservation.Commit]:
//
//	res, err := metering.FromContext(ctx).Reserve(ctx, units) // after validation, before the work
//	if err != nil {
//		return nil, err
//	}
//	defer res.Release()
//	... work ...
//	quota, err := res.Commit(ctx, metering.Used{Units: found})
//
// A unit is what the endpoint's price applies to: a result, a record, a match. Uncommitted
// reservations are released when the call ends. A commit is durable in the ledger before its
// response is sent, and becomes final when the response has left.
//
// A call whose response did not leave is not charged, unless the stored response was meanwhile
// returned to another call with the same Idempotency-Key. A call whose response broke off is
// charged for the units that were written to its connection, less an hourly allowance of its
// organization. It is charged in full if the response is stored under its Idempotency-Key.
//
// Balances fail closed: if they are unavailable, nothing is reserved and Reserve returns
// [ErrUnavailable]. Rate limits fail open.
package metering
