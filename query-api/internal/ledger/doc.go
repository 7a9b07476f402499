// Package ledger brings usage events to the ledger, event.TopicUsage, and adds
// the ledger up.
//
// An [Outbox] is an append-only file of this replica. A charge is written to it
// before its answer is sent (Prepare), and once more when the answer has left
// (Answered), has not (Void) or has in part (Reduced); only then is it published. What a process that
// was killed leaves behind is published by the next one on the same folder. A
// charge that was prepared and never marked is void: the caller may have seen
// the answer, and is not charged. So the ledger never says more than callers
// saw.
//
// Durability: what is written survives the death of the process at once, since
// it is in the system's page cache, and that of the machine once it is synced,
// every 100 ms by default and before a segment ends. Delivery to the topic is at
// least once; the request id is the key by which readers count an event once. Events
// wait for others for a second before they are published, unless somebody
// waits for them ([Outbox.Flush]) or may look for them ([Outbox.Hurry]), there are
// enough, or the service stops.
//
// [Sums] adds up a month: its rows in the read model, and what the topic has
// beyond them.
package ledger
