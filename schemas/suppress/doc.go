// Package suppress decides who is not to be shown, kept or taken in: people who
// asked to be erased.
//
// Its one job is a [Set] of keyed hashes and the rules that say which identifiers
// of a record are looked up in it. It holds no identifier: an entry is the first
// half of an HMAC-SHA256, under a key of the instance, of the SHA-256 of an
// identifier in its standard form, so that a request may name an identifier by its
// value or by its hash. It opens no connection: whoever owns one feeds the messages
// of event.TopicErasure to [Set.Apply].
//
// Most identifiers of most records are in no entry, and a record is not to wait for
// three blocks of SHA-256 and a miss of the caches for each. So an entry has a second,
// much shorter keyed hash, its mark ([Entry.Mark]), and the marks of all entries a filter:
// what it does not have is not in the set. Entries of before there were marks hold as
// well; identifiers of their types are looked up by hash.
//
// # Rules
//
// An address (email, phone) suppresses every record that holds it: who shares one
// with somebody is erased with them. A username suppresses the record that bears
// it as its own, and account-links that name it. An id (profile_id, user_id)
// suppresses that record alone. Repositories, commits and lists go with their
// account; a commit also by its author's e-mail address. A scope that names a
// webset limits a request to the records of it. Companies are not people.
//
// What was found by an address or a username is suppressed by its id from then on
// ([Derived]), whatever its next version names. The newest version of an entry
// decides, in whatever order they arrive; a lifted one suppresses nothing.
//
// A Set is safe for concurrent use. A nil Set suppresses nothing.
package suppress
