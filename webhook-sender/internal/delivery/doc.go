// Package delivery schedules webhook deliveries.
//
// A [Scheduler] is the state of one partition of tasks: its pending deliveries and their endpoints.
// It does no I/O and has no clock. Callers report events with their time, and get the calls to make
// ([Scheduler.NextSends]) and the state to persist ([Scheduler.TakeStateChange]). Tests can
// therefore simulate days in milliseconds, and a restart rebuilds the scheduler from the state
// topic.
//
// # Rules
//
//   - A delivery is attempted immediately, then 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and
//     24 h after each failure, with 20% jitter, or later if Retry-After asks for it. After that, or
//     at an age of six days, it is dead-lettered. Tasks stay in the log for one more day.
//   - Calls to one endpoint are limited, to one if its last call failed. All endpoints of an
//     organization at one host, and all unhealthy endpoints and hosts together, use at most half of
//     a partition's calls. They do not delay others, even if each call has its own URL.
//   - While an endpoint's breaker is open, its deliveries wait without using an attempt.
//   - A 410 response stops an endpoint. Its waiting and arriving deliveries are dead-lettered until
//     an operator resumes it, or until 90 days without a task have passed.
//   - Tasks with the same delivery ID are one delivery while it is pending and for seven days, or
//     50,000 deliveries, after its end. A task with another round restarts the delivery, after a
//     running call has ended.
//
// # Memory
//
// A delivery that waits for a retry takes about 450 bytes; its body stays in the log. Their number
// is limited only by their age: dropping the newest would lose them, and pausing consumption would
// let one failing receiver block all others. Bodies are held for running calls and for a limited
// number and size of queued deliveries. Deliveries of failing or slow endpoints are spilled: their
// state is made durable and their offset can be committed.
package delivery
