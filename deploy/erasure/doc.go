// Package erasure is the operators' side of erasures: the suppression set of a process, the log of requests, signed
// receipts, subject access reports, and California's deletion lists. Which records an erasure covers is defined by
// package suppress; the projector deletes them; deploy/docs/erasure.md is the page.
//
// A [Follower] feeds event.TopicErasure to a suppress.Set, which the services of the process share. An entry is in
// force as soon as the broker delivers it, within a second. Services wait until the set is loaded. An entry with the
// key of another root secret stops the process, since erased people would not be recognized; [KeyUses] lists such
// entries, and [RemoveKey] deletes them.
//
// A [Log] has the messages of the erasure topics. Backups do not contain the erasures after them: [Log.Publish] adds
// these to a restored instance, once each.
//
// A [Receipt] verifies an erasure. [Receipt.Search] searches all read models and topics for the request's suppression
// hashes and those derived from them; [Receipt.Sign] and [CheckReceipt] create and verify an Ed25519 signature (RFC
// 8032) over its canonical JSON (RFC 8785) without the field "signature". The key is derived from the root secret. A
// receipt contains no personal data, and lists what was not searched.
//
// [FindSubject] finds all data about a person, for a subject access report: the rows of all read models, each with its
// message and, while the log retains that, the run, file and line of the record; and, from the ledger, the calls that
// returned the person. Identifiers match as in an erasure. It is read-only, and bounded by [ReportLimits].
//
// [ImportLists] erases the people in the deletion lists of California's platform for data brokers (DROP, technical
// specifications 1.2.0), and [ImportResult.Respond] writes the responses that it expects. The match of each row is in
// the erasure log together with the suppression hash before anything is removed, so a repeated or interrupted import
// gives the same response. If a hash matches several people of one webset, all are opted out (status 4); one person is
// deleted (3); no match is not found (5), and the hash suppresses future records all the same. Withdrawn rows end the
// suppression, unless another request has the same hash. Only the IDs of rows are logged or printed.
package erasure
