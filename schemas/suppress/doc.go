// Package suppress implements the suppression list of erased people: which records must not be shown, stored
// or ingested.
//
// A [Set] holds keyed hashes and the rules for which identifiers of a record to look up. It contains no
// identifiers: an entry is the first half of an HMAC-SHA256, under a key of the instance, of the SHA-256 of
// an identifier in its normalized form, so a request may contain an identifier or its hash. The package opens
// no connections: the owner of one passes the messages of event.TopicErasure to [Set.Apply].
//
// Most identifiers of most records are not suppressed, and computing HMACs and missing caches for each would
// be slow. So entries have a second, shorter keyed hash, the mark ([Entry.Mark]), and the set has a Bloom
// filter of all marks. Entries without marks, from before marks existed, are supported: identifiers of their
// types are looked up by hash.
//
// # Rules
//
// An address (email, phone) suppresses every record that has it, also of other people who share it. A
// username suppresses the record that owns it, and account links that name it. An id (profile_id, user_id)
// suppresses that record only. Repositories, commits and lists are suppressed with their account; a commit
// also by its author's e-mail address. A scope with a webset limits a request to the records of that webset.
// Companies are not people.
//
// Once a record matches an address or a username, it is also suppressed by its id ([Entry.Derived]), whatever
// later versions contain. The newest version of an entry wins, in any order of arrival; a withdrawn entry
// suppresses nothing.
//
// A Set is safe for concurrent use. A nil Set suppresses nothing.
package suppress
