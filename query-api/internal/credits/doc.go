// Package credits holds the balances of organizations: the used credits and requests of a month,
// and those reserved by calls in flight.
//
// A call reserves its worst case before it works, commits what it used, and is settled once its
// response and usage event are safe. The commit frees what was not used. Reservations are leases:
// those of a dead process expire. Used and reserved credits never exceed the limit of a reservation
// together, so concurrent calls cannot overspend.
//
// Balances are a projection of the ledger (event.TopicUsage). A [Store] without the balances of a
// period returns [ErrNotLoaded] until they are loaded with Load. It fails closed: after any other
// error nothing is reserved.
//
// [Memory] is the store of a single replica, [Redis] that of several. Both pass the conformance
// suite in creditstest.
package credits
