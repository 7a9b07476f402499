package record

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/integer"
	"muster/schemas/jsonname"
)

// SplitEmbedded extracts the embedded repositories and commits from a codehost-person and returns them as separate
// records, owned by the person (records.md, table). For a list marked complete it adds a codehost-list record
// with the person's version, which deletes the entries that the list lacks (rule 3). A missing list, unlike
// an empty one, deletes nothing. Invalid entries are returned as validation errors with their path in the
// person; the person and the other entries are unaffected. An entry without a readable identity makes its
// list incomplete, so that nothing is deleted.
//
// Afterwards r's Body and JSON lack the lists; its Hash never includes them. Split does not change records of
// other kinds, deletions, and people without lists.
func (r *Record) SplitEmbedded() (parts []*Record, rejected []*ValidationError) {
	person, ok := r.Body.(*CodehostPerson)
	if !ok || r.Deleted {
		return nil, nil
	}
	if person.Repos == nil && person.Commits == nil && !person.ReposComplete && !person.CommitsComplete {
		return nil, nil
	}
	var repos, commits []byte
	r.JSON = filterMembers(r.JSON, func(m member) bool {
		switch string(m.name) {
		case "repos":
			repos = m.value
		case "commits":
			commits = m.value
		}
		return !isEmbedded(string(m.name))
	})
	s := splitter{owner: *person.UserID, version: person.LastUpdated}
	s.list(KindCodehostRepo, ListRepos, repos, person.ReposComplete)
	s.list(KindCodehostCommit, ListCommits, commits, person.CommitsComplete)
	person.Repos, person.ReposComplete, person.Commits, person.CommitsComplete = nil, false, nil, false
	for _, part := range s.parts {
		part.Revision = r.Revision
	}
	return s.parts, s.rejected
}

// isEmbedded reports whether Split extracts a field of a codehost-person.
func isEmbedded(name string) bool {
	switch name {
	case "repos", "repos_complete", "commits", "commits_complete":
		return true
	}
	return false
}

type splitter struct {
	owner    int64
	version  string
	parts    []*Record
	rejected []*ValidationError
}

// list creates the records of one embedded list.
func (s *splitter) list(kind Kind, name string, list []byte, complete bool) {
	if len(list) == 0 || list[0] != '[' {
		return // absent or null
	}
	c, _ := codecOf(kind)
	var items []string
	readable := true
	i := -1
	eachElement(list, func(value []byte) {
		i++
		if string(value) == "null" {
			return // counts as absent
		}
		if value[0] != '{' {
			s.reject(&ValidationError{Code: CodeWrongType, Reason: "is " + jsonname.OfKind(jsontext.Value(value).Kind()) +
				" where an object is needed"}, entryPath(name, i))
			readable = false
			return
		}
		entry, bad := withOwner(value, s.owner)
		var part *Record
		if bad == nil {
			if part, bad = c.decode(entry); bad != nil {
				bad.Also = c.findOthers(entry, bad)
			}
		}
		if bad != nil {
			s.reject(bad, entryPath(name, i))
			if item, ok := itemOf(c, value); ok {
				items = append(items, item)
			} else {
				readable = false
			}
			return
		}
		s.parts = append(s.parts, part)
		if complete && !part.Deleted {
			items = append(items, entryName(part.Body))
		}
	})
	if !complete {
		return
	}
	if !readable {
		s.reject(
			&ValidationError{
				Code:   CodeIncompleteList,
				Reason: "is ignored: the list has entries without identity",
			},
			name+"_complete",
		)
		return
	}
	part, bad := listRecord(s.owner, name, s.version, items)
	if bad != nil {
		s.reject(bad, name)
		return
	}
	s.parts = append(s.parts, part)
}

func entryPath(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (s *splitter) reject(bad *ValidationError, path string) {
	s.rejected = append(s.rejected, bad.below(KindCodehostPerson, path))
}

// listRecord returns the record of a complete list.
func listRecord(owner int64, name, version string, items []string) (*Record, *ValidationError) {
	slices.Sort(items)
	items = slices.Compact(items)
	raw, err := json.Marshal(&CodehostList{UserID: &owner, List: name, LastUpdated: version, Items: items})
	if err != nil {
		return nil, &ValidationError{Code: CodeBadValue, Reason: "cannot be encoded as a list"}
	}
	c, _ := codecOf(KindCodehostList)
	return c.decode(raw)
}

// withOwner returns the entry with user_id set to the owner, replacing any other integer.
func withOwner(object []byte, owner int64) (out []byte, bad *ValidationError) {
	out = make([]byte, 0, len(object)+len(`"user_id":,`)+20)
	out = append(out, `{"user_id":`...)
	out = strconv.AppendInt(out, owner, 10)
	if !bytes.Contains(object, []byte("user_id")) && bytes.IndexByte(object, '\\') < 0 && len(object) > len("{}") {
		out = append(out, ',')
		return append(out, object[1:]...), nil
	}
	eachMember(object, func(m member) {
		if string(m.name) == "user_id" {
			if _, ok := integer.Parse(m.value); !ok && string(m.value) != "null" {
				bad = &ValidationError{Path: "user_id", Code: CodeWrongType, Reason: "is " +
					jsonname.OfKind(jsontext.Value(m.value).Kind()) + " where an integer is needed"}
			}
			return
		}
		out = append(out, ',')
		out = append(out, m.whole...)
	})
	return append(out, '}'), bad
}

// itemOf returns the identity of an entry that is invalid for another reason.
func itemOf(c codec, object []byte) (string, bool) {
	fields := strings.Fields(c.identity)
	field := fields[len(fields)-1]
	var id []byte
	eachMember(object, func(m member) {
		if string(m.name) == field {
			id = m.value
		}
	})
	if id == nil {
		return "", false
	}
	if c.kind == KindCodehostRepo {
		n, ok := integer.Parse(id)
		return strconv.FormatInt(n, 10), ok && n >= 0
	}
	var sha string
	err := json.Unmarshal(id, &sha)
	return sha, err == nil && identityString(field, sha) == nil
}

// entryName returns the identifier of an entry in a list.
func entryName(b any) string {
	switch entry := b.(type) {
	case *CodehostRepo:
		return strconv.FormatInt(*entry.ID, 10)
	case *CodehostCommit:
		return entry.SHA
	}
	return ""
}
