// Package webhook is the webhook-sender: it delivers finished results to the
// endpoints that organizations name, signed, retried and guarded.
//
// It consumes tasks (event.WebhookTask) and owns whole partitions of them: one
// replica at a time has an endpoint's breaker, bound of calls, schedule and stop,
// which it builds again from the topic of states before it sends anything. What it
// decides is in internal/delivery, how it calls in internal/post, what it signs in
// internal/signature. Any number of replicas share the partitions.
//
// # Delivery
//
// At least once. A task's offset is committed once the task is delivered, given
// up, or put off with its schedule on the topic of states. A process that dies after
// a receiver answered and before that was written, which is gathered for up to
// 20 ms while other calls run, sends the delivery again, with the same webhook-id.
// There is no order among deliveries. What is given up goes to the dead letters as
// it came.
//
// Every try is an event on muster.event.webhook.v1, written before the state that
// says it was made.
package webhook
