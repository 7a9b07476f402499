// Package ledger publishes usage events to the ledger, event.TopicUsage, and sums up the ledger.
//
// An [Outbox] is an append-only log of this replica. A charge is written to it before its response
// is sent (Prepare), and again when the response was sent (Confirm), was not sent (Void) or was
// sent in part (ConfirmPartial). Only then is it published. Events left by a killed process are
// published by the next one that uses the directory. A charge that was prepared but never marked is
// void: the client may have received the response but is not charged. So the ledger never charges
// more than clients saw.
//
// Durability: written events survive the death of the process immediately, in the page cache of the
// system. They survive the machine once synced, every 100 ms by default and before a segment ends.
// Delivery to the topic is at least once; readers deduplicate events by request ID. Events linger
// for a second before they are published, unless a caller waits for them ([Outbox.Flush]) or may
// look them up ([Outbox.FlushAsync]), a batch is full, or the service stops. Published events are settled: the balances
// make them final. They stay in the outbox until then.
//
// [Reader.Balances] sums up a month: its rows in the read model, and the events of the topic that are
// not in it yet.
package ledger
