// Package gitlog reads the history of local git repositories as records.
//
// [Find] finds the repositories in a folder, [Open] opens one, and [Repository.Log] is the source of its records: a
// codehost-commit of each new commit, a codehost-person of each author with an account, and a codehost-repo of the
// owner, if that account is known.
//
// # Reading
//
// The git program reads the objects, so that every form of repository works that the installed git supports.
// Repositories may be hostile: git runs without the network, hooks, helpers and the user's configuration. A commit of
// more than 4 MiB is rejected without being held; each allocation of git is bounded; a git that prints nothing for
// ten minutes is stopped. Memory is one entry for every author and address, and one commit; git itself holds about
// 100 bytes for every commit.
//
// # Authors
//
// The author of a commit is the one that git shows: .mailmap maps names and addresses as git's mailmap.c does. A record
// needs the user id of an account. An author leads to one, in this order:
//
//   - by the operator's file of authors;
//   - by a no-reply address that has id and username in it;
//   - by another address that .mailmap gives to the same author;
//   - by a no-reply address with the username alone, if another address in the history has the same username and an id;
//   - if the operator wants accounts made: by a number made of the proper address, from 2^52 to 2^53, where no code
//     host has ids.
//
// Commits of other authors are counted and dropped. An address that several authors share belongs only to the author
// whose proper address it is.
//
// # Versions
//
// A person or a repository made of commits is evidence and no profile. A person's version (see evidenceVersion) is
// older than any that a crawler gives, so that every crawled record wins. The ids of repositories are made like those
// of accounts.
//
// # What is new
//
// The objects that the references named in the last run, the tips, are kept in a file of [State] for each repository,
// and are written once everything is stored. Commits that are reachable from them are not read again. Delivery is at
// least once: a run that was cut short gives the same records again.
package gitlog
