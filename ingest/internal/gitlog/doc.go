// Package gitlog reads the history of local git repositories as records.
//
// [Find] finds the repositories in a directory, [Open] opens one, and [Repository.Log] is the
// source of its records: a codehost-commit for each new commit, a codehost-person for each author
// with an account, and a codehost-repo if the owner's account is known.
//
// # Reading
//
// The git program reads the objects, so every repository format of the installed git is supported.
// Repositories may be hostile: git runs without network, hooks, helpers and user configuration. A
// commit of more than 4 MiB is rejected without loading it; each allocation of git is limited; git
// is killed if it prints nothing for ten minutes. Memory use is one entry per author and address,
// plus one commit; git itself needs about 100 bytes per commit.
//
// # Authors
//
// The author of a commit is the one that git shows: .mailmap maps names and addresses as git's
// mailmap.c does. A record requires the user ID of an account. The account of an author is found,
// in this order:
//
//   - by the operator's file of authors;
//   - by a no-reply address with ID and username;
//   - by another address that .mailmap maps to the same author;
//   - by a no-reply address with the username alone, if another address in the history has the
//     same username and an ID;
//   - with MakeAccounts: by an ID derived from the proper address, from 2^52 to 2^53, a range that
//     no code host uses.
//
// Commits of other authors are counted and dropped. An address that several authors use belongs
// only to the author whose proper address it is.
//
// # Versions
//
// A person or repository derived from commits is evidence, not a profile. A person's version (see
// evidenceVersion) is older than any version set by a crawler, so every crawled record wins. The
// IDs of repositories are derived like those of accounts.
//
// # Incremental reads
//
// The tips, the objects that references named in the last run, are stored in a [State] file per
// repository when everything is stored. Commits reachable from them are not read again. Delivery is
// at least once: an interrupted run returns the same records again.
package gitlog
