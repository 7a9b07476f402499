package record

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Split takes the embedded repositories and commits out of a codehost-person
// and returns them as records of their own, owned by the person (records.md,
// table). For a list that calls itself complete it adds a codehost-list record
// with the person's version, which withdraws the entries that the list lacks
// (rule 3); a missing list, unlike an empty one, states nothing. Entries that
// cannot be records are returned as defects, with their place in the person;
// the person and the other entries stand. An entry whose identity cannot be read
// makes its list incomplete: nothing is withdrawn then.
//
// r's Body, JSON and Hash are without the lists afterwards. A record of another
// kind, a withdrawal, and a person without lists are left as they are.
func (r *Record) Split() (parts []*Record, rejected []*Invalid) {
	person, ok := r.Body.(*CodehostPerson)
	if !ok || r.Deleted {
		return nil, nil
	}
	if person.Repos == nil && person.Commits == nil && !person.ReposComplete && !person.CommitsComplete {
		return nil, nil
	}
	var lists struct{ repos, commits []byte }
	eachMember(r.JSON, func(m member) {
		switch string(m.name) {
		case "repos":
			lists.repos = m.value
		case "commits":
			lists.commits = m.value
		}
	})
	s := splitter{owner: *person.UserID, version: person.LastUpdated}
	if person.Repos != nil {
		s.list(KindCodehostRepo, ListRepos, lists.repos, len(person.Repos), person.ReposComplete)
	}
	if person.Commits != nil {
		s.list(KindCodehostCommit, ListCommits, lists.commits, len(person.Commits), person.CommitsComplete)
	}

	r.JSON = filterMembers(r.JSON, func(name string) bool {
		return name != "repos" && name != "repos_complete" && name != "commits" && name != "commits_complete"
	})
	person.Repos, person.ReposComplete, person.Commits, person.CommitsComplete = nil, false, nil, false
	r.Hash = hashOf(r.JSON, "last_updated")
	return s.parts, s.rejected
}

// hashOf hashes an object that scan accepted, or a part of one.
func hashOf(object []byte, version string) uint64 {
	s := scanner{b: object, skip: version}
	return s.value(1)
}

type splitter struct {
	owner    int64
	version  string
	parts    []*Record
	rejected []*Invalid
}

// list makes the records of one embedded list of size entries.
func (s *splitter) list(kind Kind, name string, list []byte, size int, complete bool) {
	c, _ := codecOf(kind)
	s.parts = slices.Grow(s.parts, size+1)
	items := make([]string, 0, size)
	readable := true
	i := -1
	eachElement(list, func(value []byte) {
		i++
		if string(value) == "null" {
			return // counts as absent
		}
		path := fmt.Sprintf("%s[%d]", name, i)
		if value[0] != '{' {
			s.reject(&Invalid{Code: CodeWrongType, Reason: "is not an object"}, path)
			readable = false
			return
		}
		part, bad := c.decode(withOwner(value, s.owner))
		if bad != nil {
			s.reject(bad, path)
			if item, ok := itemOf(c, value); ok {
				items = append(items, item)
			} else {
				readable = false
			}
			return
		}
		s.parts = append(s.parts, part)
		if !part.Deleted {
			items = append(items, entryName(part.Body))
		}
	})
	if !complete {
		return
	}
	if !readable {
		s.reject(&Invalid{Code: CodeIncompleteList, Reason: "is not honoured: the list has entries without identity"}, name+"_complete")
		return
	}
	part, bad := listRecord(s.owner, name, s.version, items)
	if bad != nil {
		s.reject(bad, name)
		return
	}
	s.parts = append(s.parts, part)
}

func (s *splitter) reject(bad *Invalid, path string) {
	s.rejected = append(s.rejected, bad.below(KindCodehostPerson, path))
}

// listRecord makes the record that states all entries of a list.
func listRecord(owner int64, name, version string, items []string) (*Record, *Invalid) {
	slices.Sort(items)
	items = slices.Compact(items)
	raw, err := json.Marshal(&CodehostList{UserID: &owner, List: name, LastUpdated: version, Items: items})
	if err != nil {
		return nil, &Invalid{Code: CodeBadValue, Reason: "cannot be written as a list"}
	}
	c, _ := codecOf(KindCodehostList)
	return c.decode(raw)
}

// withOwner returns the entry with user_id set to the owner.
func withOwner(object []byte, owner int64) []byte {
	out := make([]byte, 0, len(object)+len(`"user_id":,`)+20)
	out = append(out, `{"user_id":`...)
	out = strconv.AppendInt(out, owner, 10)
	eachMember(object, func(m member) {
		if string(m.name) == "user_id" {
			return
		}
		out = append(out, ',')
		out = append(out, m.whole...)
	})
	return append(out, '}')
}

// itemOf returns the identity of an entry that is no record for another reason.
func itemOf(c codec, object []byte) (string, bool) {
	field := c.identity[len(c.identity)-1]
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
		n, err := strconv.ParseInt(string(id), 10, 64)
		return string(id), err == nil && n >= 0
	}
	var sha string
	err := json.Unmarshal(id, &sha)
	return sha, err == nil && identityString(field, sha) == nil
}

// entryName returns the name by which a list knows an entry.
func entryName(b any) string {
	switch entry := b.(type) {
	case *CodehostRepo:
		return strconv.FormatInt(*entry.ID, 10)
	case *CodehostCommit:
		return entry.SHA
	}
	return ""
}
