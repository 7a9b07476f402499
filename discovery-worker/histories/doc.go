// Package histories builds an evaluation of discovery from local git repositories: records of both
// sides, and the ground truth of who owns them.
//
// Accounts come from the no-reply addresses of a code host (ID+username). The other addresses of
// the same person, by .mailmap, address and account ID, give a profile of the professional network:
// another variant of the name, and the employer of a company address. What histories do not have is
// drawn from the tables in profile.go, independently of the account, so that it is no evidence.
//
// The data is about real people. It goes to the instance under test and nowhere else: the package
// writes no file and logs nothing, and errors name repositories only.
//
// Contract: the same repositories and [Options] give the same records and questions.
package histories
