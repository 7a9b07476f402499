package convert

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/nearest"
	"muster/schemas/record"
)

// names knows the members of the kinds' schemas, each read when it is first needed. It is for
// any number of goroutines.
type names struct {
	mu    sync.Mutex
	kinds map[record.Kind]*record.Members
}

// of returns the members of a kind's schema, nil if the kind has none.
func (n *names) of(kind record.Kind) *record.Members {
	n.mu.Lock()
	defer n.mu.Unlock()
	if members, ok := n.kinds[kind]; ok {
		return members
	}
	if n.kinds == nil {
		n.kinds = make(map[record.Kind]*record.Members)
	}
	d, ok := record.Lookup(kind)
	if !ok {
		return nil
	}
	members, err := record.MembersOf(d)
	if err != nil {
		return nil // a test reads every schema
	}
	n.kinds[kind] = members
	return members
}

// compactObject returns a JSON object without white space; ok is false if raw is none.
func compactObject(raw []byte) (compact []byte, ok bool) {
	value := jsontext.Value(raw)
	if !value.IsValid() || value.Kind() != '{' {
		return nil, false
	}
	value = value.Clone()
	return value, value.Compact() == nil
}

// suggest returns the member that was meant by an unknown one, as a path like that of the latter; empty if
// none is close.
func suggest(members *record.Members, path string) string {
	beside, name := members.Beside(path)
	if meant := meantBy(beside, name); meant != "" {
		return path[:len(path)-len(name)] + meant
	}
	return ""
}

// maxContained is by how many letters a known name may be longer than an unknown one that it contains:
// "email" may be "emails", "profile" is not "profile_id".
const maxContained = 2

func meantBy(beside *record.Members, name string) string {
	for _, target := range synonyms(squash(name)) {
		if beside.Has(target) {
			return target
		}
	}
	for i := range name { // "company_name" is "company.name"
		if (name[i] == '_' || name[i] == '.') && beside.Has(name[:i]+"."+name[i+1:]) {
			return name[:i] + "." + name[i+1:]
		}
	}
	known, ok := nearest.Name(name, beside.Names())
	if !ok || strings.Contains(known, strings.ToLower(name)) && len(known) > len(name)+maxContained {
		return ""
	}
	return known
}

// squash returns the letters and digits of a name, in lower case.
func squash(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name[:min(len(name), maxUnknownPath)])
}

// synonyms returns what names of other systems mean here: the paths of members, of which those count that
// the schema of the kind has. Names that may mean several things are left out.
func synonyms(name string) []string {
	switch name {
	case "id", "uid", "userid", "personid":
		return []string{"profile_id", "company_id", "user_id"}
	case "username", "login", "user", "nick", "nickname", "handle", "screenname", "slug":
		return []string{"username", "codehost_username", "network_slug"}
	case "name", "displayname":
		return []string{"full_name", "name", "profile.name"}
	case "firstname", "givenname", "forename":
		return []string{"first_name"}
	case "lastname", "surname", "familyname":
		return []string{"last_name"}
	case "email", "mail", "emailaddress":
		return []string{"emails"}
	case "updated", "updatedat", "changed", "changedat", "modified", "modifiedat", "lastmodified", "lastchanged", "lastupdate":
		return []string{"last_updated", "updated_at"}
	case "job", "jobtitle", "title", "occupation":
		return []string{"headline", "title"}
	case "company", "companyname", "employer":
		return []string{"company.name", "current_position.company.name", "company", "profile.name"}
	case "about", "bio", "description":
		return []string{"summary", "bio", "profile.description"}
	case "avatar", "avatarurl", "image", "imageurl", "picture", "photourl":
		return []string{"photo", "avatar_url"}
	case "link", "profileurl":
		return []string{"url"}
	case "website", "homepage":
		return []string{"website", "profile.website", "personal_website"}
	case "industry", "employees", "founded", "phone":
		return []string{"profile." + name}
	case "city", "country":
		return []string{"location." + name, "headquarters." + name}
	case "stars":
		return []string{"stargazers_count"}
	case "forks":
		return []string{"forks_count"}
	case "startdate":
		return []string{"start"}
	case "enddate":
		return []string{"end"}
	}
	return nil
}

// explain returns a defect's error with the names that may have been meant by members that are missing. raw is
// the record.
func (c *Converter) explain(kind record.Kind, raw []byte, reason error) error {
	bad, ok := record.AsInvalid(reason)
	if !ok || !isMissing(bad.Code) && len(bad.Also) == 0 {
		return reason
	}
	meant := make(map[string]string) // by the missing member
	members := c.names.of(kind)
	object, ok := compactObject(raw)
	if !ok || members == nil {
		return reason
	}
	members.EachUnknown(object, func(path []byte) {
		if len(path) > maxUnknownPath || len(meant) > maxUnknownPaths {
			return
		}
		if target := suggest(members, string(path)); target != "" && meant[target] == "" {
			meant[target] = string(path)
		}
	})
	defects := bad.Defects()
	for i := range defects {
		if name := meant[defects[i].Path]; name != "" && isMissing(defects[i].Code) {
			defects[i].Reason += fmt.Sprintf("; the record has %q: did you mean %q?", name, defects[i].Path)
		}
	}
	explained := *bad
	explained.Reason, explained.Also = defects[0].Reason, defects[1:]
	return &explained
}

func isMissing(code string) bool {
	switch code {
	case record.CodeMissingIdentity, record.CodeMissingVersion, record.CodeMissingField:
		return true
	}
	return false
}
