// Package gitlog reads the history of local git repositories as records.
//
// Its one job: of every commit that was not there the last time, a codehost-commit
// of its author; of every author whose account is known, a codehost-person; of the
// repository, a codehost-repo of its owner. Repositories may be bare, and shallow.
//
// # Who wrote a commit
//
// git knows names and addresses; a record needs the user id of an account. An
// address leads to one, in this order:
//
//   - by the operator's file of authors;
//   - by itself, when it is a no-reply address that has id and username in it;
//   - by the repository's .mailmap, when another address of the same author does;
//   - when it is a no-reply address with the username alone, by another address of
//     this history that has the same username and an id;
//   - if the operator wants accounts made up: by a number that is made of the
//     address, from 2^52 to 2^53, where no code host has ids.
//
// Commits of other authors are counted and passed over.
//
// # What is known of whom
//
// A person or a repository that follows from commits is evidence and no profile. A
// person's version (see evidenceVersion) is older than any that a crawler gives, so
// that nothing crawled is lost; the ids of repositories are made up like those of
// accounts.
//
// # What is new
//
// The commits that the last run began with, the tips, are kept in a file of [State]
// for each repository, and are written once everything is stored. Whatever can be
// reached from them is not read again. At least once: a run that was cut short
// gives the same again.
//
// Memory: about 60 bytes for every commit of the history that is walked, one
// entry for every author, and bounded parts of objects, whatever the repository says
// of their sizes. Repositories may come from anybody.
package gitlog
