// Package credits holds the balances of organizations: what is used of a
// month's credits and requests, and what calls in flight may still use.
//
// A call reserves the worst case before it works, commits what it used, and is
// settled once its answer and its usage event are safe; what it did not use is
// free again with the commit. Reservations are leases: those of a process that
// died end by themselves. At no moment do used and reserved credits exceed the
// limit that a reservation was made with, so concurrent calls never spend more
// than there is.
//
// Balances are a projection of the ledger (event.TopicUsage): a [Store] that
// knows nothing of a period says [ErrNotLoaded] until it is given the sums of
// the ledger with Load. It fails closed: an error of any other kind means that
// nothing was reserved.
//
// There are two stores, [Memory] for one replica and [Redis] for several. Both
// pass the conformance suite in creditstest.
package credits
