package readmodel

// commitAuthor is an author's address in comparison form, and the account whose commit has it.
type commitAuthor struct {
	userID  int64
	address string
}

// The content of a commit begins with the fields author_login and author_name, the comparison form of the author's
// address (empty: it is invalid, or a no-reply address), and the address as given.
const (
	commitLogin   = "splitByChar(char(0), content, 5)[1]"
	commitName    = "splitByChar(char(0), content, 5)[2]"
	commitKey     = "splitByChar(char(0), content, 5)[3]"
	commitAddress = "splitByChar(char(0), content, 5)[4]"
	commitPieces  = "splitByChar(char(0), content, 5)[5]"
)

// CommitAuthor is an expression for the author's e-mail address of a row of codehost_commits, in lower case. It is empty
// if the commit has none.
const CommitAuthor = "lowerUTF8(" + commitAddress + ")"
