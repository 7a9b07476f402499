// Package contexts has calls of the context endpoint worked on, and knows how far
// they are.
//
// A call is a task on Kafka and, before it, the event that it was accepted; its
// outcome is an event that every replica of query-api follows without a group,
// so that the replica whose caller waits sees it, and any
// replica can tell how far a call is. What came before this process is in the read
// model.
//
// Delivery: a call is accepted when the brokers have both messages. Who answers it
// is decided by the clock: what the worker finishes before the call ends is
// answered here, what it finishes later it hands to the webhook-sender itself.
// What was finished in time and has not come in time is handed over here.
//
// A service that stops answers the calls that wait for their outcome without it, as if
// their time had ended (Desk.Leave). What is ready later is handed over by the next
// process of the one replica, or by any other replica: they note in Redis which calls
// were answered without their outcome, and which outcomes were settled before that: such a
// call is answered after all. A replica that is killed while a call waits with
// it notes nothing.
//
// Repeats: a call with an Idempotency-Key binds it to its request id before the task is
// published (metering.Call.Begun). Sent again it goes on with that id: it waits for the
// outcome, or leaves it to the delivery. Where the process ended before it was known
// that the task is published, it is published again under the same id, which is charged
// and delivered once however often it is worked on.
//
// Charging: outcomes are also read by a consumer group, so that each is charged
// although its caller has left or its replica has died; the caller who waits is
// charged by the replica that answers. metering.Meter.Charge makes both one.
package contexts
