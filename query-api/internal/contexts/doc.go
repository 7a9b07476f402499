// Package contexts publishes calls of the context endpoint as tasks, and tracks their state.
//
// A call is a task on Kafka, preceded by an event that it was accepted. Its result is an event that
// every replica of query-api follows without a consumer group: the replica with the waiting client
// sees it, and any replica can report the state of a call. Events from before the start of the
// process are in the read model.
//
// Delivery: a call is accepted when the brokers have both messages. The clock decides how it is
// answered: a result that the worker finishes before the call ends is returned here; later results
// are handed to the webhook-sender by the worker. A result that was finished in time but arrives
// too late is handed over here.
//
// A stopping service answers waiting calls without their result, as if their time had ended
// ([CallTracker.StopWaiting]). Later results are delivered by the next process of a single replica,
// or by any other replica. Replicas record in Redis which calls were answered without their result,
// and which results were settled before that; in the latter case the call is answered with its
// result after all. A replica that is killed while a call waits records nothing.
//
// Repeats: a call with an Idempotency-Key binds the key to its request ID before the task is
// published (metering.Call.ClaimWork). A repeated call continues with that ID: it waits for the
// result, or leaves it to the delivery. If the process ended before the publication was confirmed,
// the task is published again under the same ID; it is charged and delivered once.
//
// Charging: a consumer group reads results, too, so that each is charged even if its client has
// left or its replica has died. The replica that answers a waiting client charges it directly.
// metering.Meter.Charge deduplicates both.
package contexts
