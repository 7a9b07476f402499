// Package metering says whether a call may be made, and sees to it that it is
// counted once and charged once.
//
// The interface begins a [Call] for each authenticated request ([Meter.Begin])
// and ends it when its answer has left, or has not ([Call.End]). In between the
// endpoint's own code asks for what it may need with [Call.Reserve] and says
// what it used with [Reservation.Commit]:
//
//	res, err := metering.CallOf(ctx).Reserve(ctx, units) // after the input is checked, before the work
//	if err != nil {
//		return nil, err
//	}
//	defer res.Release()
//	... work ...
//	quota, err := res.Commit(ctx, metering.Used{Units: found})
//
// A unit is what the endpoint's price is for: a result, a record, a match. What
// is not committed is free again when the call ends. A commit is in the ledger,
// durably, before its answer is sent; whether it stands is settled when the
// answer has left. A call whose answer did not leave is not charged, unless another
// one was given it under the Idempotency-Key meanwhile. A call whose answer broke off is
// charged for the units that were handed to its connection, less an hourly allowance of its
// organization; in full if the answer is stored under its Idempotency-Key.
//
// The balances fail closed: when they cannot be reached nothing is reserved, and
// Reserve returns [ErrUnavailable]. The rate fails open.
package metering
