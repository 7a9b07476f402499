// Package world generates one invented world of people, companies, code-hosting
// organizations, bots and public bodies, and writes it as upstream records of
// every kind in records.md, together with the truth about who is who.
//
// The world hangs together: a person's employers are companies of the world,
// commits land in repositories of the world, declared links name accounts that
// exist, existed or are misspelt. It is also as dirty as a crawl: stale and
// renamed accounts, recycled handles, repeated and out-of-order versions,
// withdrawn records, shared e-mail addresses, partial dates, nulls, empty
// strings and unknown fields. Every record is nevertheless valid: invalid
// input is another test's matter.
//
// Contract:
//   - Deterministic: the same Options give the same bytes on every machine of
//     one architecture; on another, where the compiler may fuse floating-point
//     operations, a few counts may differ by one.
//   - Streaming: people are derived from (seed, index) when they are written;
//     what is held in memory is the handle registry and a few bytes a person.
//   - The truth goes to [Sink.Truth] only. No record carries an index, a shared
//     surrogate key or an order from which a person could be recognised:
//     identities are keyed permutations, different on each platform, and each
//     kind has its own record order.
//
// All hosts and e-mail domains are reserved ones (RFC 2606: .example and
// example.com, .net, .org), and all names are generic.
package world
