// Package sampledata generates synthetic people, companies, code-hosting organizations, bots and public bodies,
// and writes them as upstream records of every kind in records.md, together with the ground truth of who owns
// which accounts.
//
// The data is consistent: a person's employers are generated companies, commits belong to generated
// repositories, declared links name accounts that exist, existed or are misspelled. It is also as dirty as a
// crawl: stale and renamed accounts, recycled handles, repeated and out-of-order versions, deletions, shared
// e-mail addresses, partial dates, nulls, empty strings and unknown fields. Every record is valid; invalid
// input is covered by other tests.
//
// Contract:
//   - Deterministic: the same Options give the same bytes on every machine of one architecture. On another
//     one, where the compiler may fuse floating-point operations, a few counts may differ by one.
//   - Streaming: people are derived from (seed, index) when they are written. Only the handle registry and a
//     few bytes per person are in memory.
//   - The ground truth goes to [Sink.Truth] only. Records contain no index, shared surrogate key or order
//     that would identify a person: identities are keyed permutations, different on each platform, and each
//     kind has its own record order.
//
// All hosts and e-mail domains are reserved ones (RFC 2606: .example and example.com, .net, .org), and all
// names are generic.
package sampledata
