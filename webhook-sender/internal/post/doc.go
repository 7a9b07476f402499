// Package post makes one HTTP call to a receiver that nobody here controls.
//
// It sends the exact bytes once and says what came of it, within a time limit, and
// reads no more than a little of the answer. It follows no redirect, knows no
// proxy, and checks each address when it dials, after resolving: loopback,
// private, link-local, metadata, carrier NAT and every translated form of them are
// refused, unless the operator allowed them. Plain http goes to allowed addresses
// only. What it keeps of an answer is short and redacted.
package post
