// Package delivery decides what is sent to which endpoint and when.
//
// A [Machine] is the state of one partition of tasks: the deliveries that wait or
// run, and the endpoints that they go to. It does nothing by itself. It is told
// what happened and at what time, and answers with what is to be sent now and what
// is to be made durable, so that a test can run days in a moment and a restart
// can build it again from the topic of states.
//
// # Rules
//
//   - A delivery is tried at once and then 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h,
//     20 h and 24 h after each failure, with 20% of jitter, or later when
//     Retry-After asks for it. Then, or when it is six days old, it is given up:
//     its task leaves the log a day later.
//   - An endpoint has a bound of calls at a time, and one alone while its last call
//     failed. What an organization has at one host, and all that is in trouble
//     together, endpoints and hosts, never take more than half of a partition's calls:
//     they delay no other, also where each call names an address of its own.
//   - While an endpoint's breaker is open its deliveries wait without spending an
//     attempt.
//   - 410 stops an endpoint: what waits for it, and what comes, is given up until an
//     operator resumes it, or nothing came for it in 90 days.
//   - Tasks with the same delivery id are one delivery while it waits and for seven days
//     (or 50,000 deliveries) after its end, unless they name another round: that
//     begins the delivery anew, once the call that runs has ended.
//
// # Memory
//
// A delivery that waits for its time is some 450 bytes: its body stays in the log. Their
// number has no bound but their age: giving the newest up would lose them, and no longer
// taking tasks would have one receiver that is down hold up all others. Bodies are held
// for what runs, and for a bounded number, and size, that waits for a call to end; an
// endpoint that fails, or does not keep up, has its deliveries put off, which makes them
// durable and lets the tasks behind them pass.
package delivery
