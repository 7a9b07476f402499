// Package webhook delivers results to the webhook endpoints of organizations: signed, retried and
// protected against SSRF.
//
// It consumes tasks (event.WebhookTask). One replica owns each partition, and with it the circuit
// breakers, concurrency limits, schedules and stops of the partition's endpoints. A new owner
// restores them from the state topic before it sends. Scheduling is in internal/delivery, and HTTP
// calls are in internal/post. Replicas share the partitions through a consumer group.
//
// # Delivery guarantee
//
// At least once, in no order. A task's offset is committed once the task is delivered,
// dead-lettered, or spilled to the state topic with its schedule. Writes are batched for up to 20
// ms while other calls run. If a process dies after a receiver answered and before the batch is
// written, the next owner repeats the delivery with the same webhook-id. Dead letters contain the
// original task.
//
// Each attempt is an event on muster.event.webhook.v1, written before the delivery's state.
package webhook
