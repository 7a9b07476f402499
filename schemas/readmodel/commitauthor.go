package readmodel

import "strconv"

// commitAuthor is an author's normalized address and the account that has the commit.
type commitAuthor struct {
	userID  int64
	address string
}

// The content of a commit begins with the fields author_login and author_name, the author's normalized
// address (empty if invalid or no-reply), and the address as given.
const (
	commitLogin   = "splitByChar('\\0', content, 5)[1]"
	commitName    = "splitByChar('\\0', content, 5)[2]"
	commitAddress = "splitByChar('\\0', content, 5)[4]"
)

// CommitAuthor is an SQL expression for the lower-case author address of a row of codehost_commits, empty if
// the commit has none.
const CommitAuthor = "lowerUTF8(" + commitAddress + ")"

// maxAuthorCommits is the number of commits of an account that CommitAuthorsQuery reads.
const maxAuthorCommits = 100

// CommitAuthorsQuery returns the query for login and name of the authors of up to 100 commits of each account, by
// user id.
func CommitAuthorsQuery() string {
	return `SELECT user_id, lowerUTF8(` + commitLogin + `) AS login, ` + commitName + ` AS name
FROM codehost_commits
WHERE user_id IN {keys:Array(Int64)} AND NOT deleted AND name != ''
LIMIT ` + strconv.Itoa(maxAuthorCommits) + ` BY user_id`
}
