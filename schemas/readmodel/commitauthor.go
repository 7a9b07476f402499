package readmodel

// CommitAuthor is the expression of a row of codehost_commits that gives its author's
// e-mail address in lower case; empty: the commit has none.
const CommitAuthor = "lowerUTF8(JSONExtractString(concat('{', entry, '}'), 'author_email'))"
