package record

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/jsonname"
)

func (p *CodehostPerson) head() (string, bool) { return p.LastUpdated, p.Deleted }

func (p *CodehostPerson) key() (string, *ValidationError) {
	if bad := identityNumber("user_id", p.UserID); bad != nil {
		return "", bad
	}
	return strconv.FormatInt(*p.UserID, 10), nil
}

func (p *CodehostPerson) check() *ValidationError {
	return first(
		required("codehost_username", p.CodehostUsername),
		date(p.CreatedAt, "created_at"),
		date(p.UpdatedAt, "updated_at"),
		embeddedList("repos", p.Repos),
		embeddedList("commits", p.Commits),
	)
}

// embeddedList checks that an embedded list is an array, or null, which counts as absent. Split checks its
// entries.
func embeddedList(field string, list jsontext.Value) *ValidationError {
	if kind := list.Kind(); len(list) > 0 && kind != '[' && kind != 'n' {
		return &ValidationError{Path: field, Code: CodeWrongType, Reason: "is " + jsonname.OfKind(kind) +
			" where an array is needed"}
	}
	return nil
}

func (r *CodehostRepo) head() (string, bool) { return r.UpdatedAt, r.Deleted }

func (r *CodehostRepo) key() (string, *ValidationError) {
	if bad := first(identityNumber("user_id", r.UserID), identityNumber("id", r.ID)); bad != nil {
		return "", bad
	}
	return strconv.FormatInt(*r.UserID, 10) + "/" + strconv.FormatInt(*r.ID, 10), nil
}

func (r *CodehostRepo) check() *ValidationError { return date(r.CreatedAt, "created_at") }

func (c *CodehostCommit) head() (string, bool) { return c.AuthorDate, c.Deleted }

func (c *CodehostCommit) key() (string, *ValidationError) {
	if bad := first(identityNumber("user_id", c.UserID), identityString("sha", c.SHA)); bad != nil {
		return "", bad
	}
	return strconv.FormatInt(*c.UserID, 10) + "/" + c.SHA, nil
}

func (c *CodehostCommit) check() *ValidationError { return nil }

// Names of the lists of a codehost-list record.
const (
	ListRepos   = "repos"
	ListCommits = "commits"
)

func (l *CodehostList) head() (string, bool) { return l.LastUpdated, l.Deleted }

func (l *CodehostList) key() (string, *ValidationError) {
	if bad := first(identityNumber("user_id", l.UserID), identityString("list", l.List)); bad != nil {
		return "", bad
	}
	if l.List != ListRepos && l.List != ListCommits {
		return "", &ValidationError{Path: "list", Code: CodeBadIdentity, Reason: "must be one of repos, commits"}
	}
	return strconv.FormatInt(*l.UserID, 10) + "/" + l.List, nil
}

func (l *CodehostList) check() *ValidationError { return nil }
