package convert

import (
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/suggest"
	"muster/schemas/record"
)

// schemaFields caches the fields of the kinds' schemas. It is safe for concurrent use.
type schemaFields struct {
	mu    sync.Mutex
	kinds map[record.Kind]*record.FieldNames
}

// forKind returns the fields of a kind's schema, nil if the kind has none.
func (n *schemaFields) forKind(kind record.Kind) *record.FieldNames {
	n.mu.Lock()
	defer n.mu.Unlock()
	if fields, ok := n.kinds[kind]; ok {
		return fields
	}
	if n.kinds == nil {
		n.kinds = make(map[record.Kind]*record.FieldNames)
	}
	d, ok := record.Lookup(kind)
	if !ok {
		return nil
	}
	fields, err := record.FieldNamesOf(d)
	if err != nil {
		return nil // cannot happen: tests parse every schema
	}
	n.kinds[kind] = fields
	return fields
}

// compactObject returns a JSON object without white space; ok is false if raw is not a JSON object.
func compactObject(raw []byte) (compact []byte, ok bool) {
	value := jsontext.Value(raw)
	if !value.IsValid() || value.Kind() != '{' {
		return nil, false
	}
	value = value.Clone()
	return value, value.Compact() == nil
}

// suggestField returns the schema field that an unknown one may stand for, as a path in the same form,
// or "" if none is similar.
func suggestField(fields *record.FieldNames, path string) string {
	siblings, name := fields.Siblings(path)
	if suggestions := suggestName(siblings, name); suggestions != "" {
		return path[:len(path)-len(name)] + suggestions
	}
	return ""
}

// maxExtraLetters is how many letters longer a suggested name may be than an unknown name that it
// contains: "emails" is suggested for "email", "profile_id" is not for "profile".
const maxExtraLetters = 2

func suggestName(siblings *record.FieldNames, name string) string {
	for _, target := range synonyms(normalizeName(name)) {
		if siblings.Has(target) {
			return target
		}
	}
	for i := range name { // "company_name" is "company.name"
		if (name[i] == '_' || name[i] == '.') && siblings.Has(name[:i]+"."+name[i+1:]) {
			return name[:i] + "." + name[i+1:]
		}
	}
	suggested, ok := suggest.Closest(name, siblings.Names())
	if !ok || strings.Contains(suggested, strings.ToLower(name)) && len(suggested) > len(name)+maxExtraLetters {
		return ""
	}
	return suggested
}

// normalizeName returns the letters and digits of a name, in lower case.
func normalizeName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name[:min(len(name), maxUnknownPath)])
}

// synonyms returns the paths of the fields that a name common in other systems may stand for, in
// any kind. Ambiguous names are omitted.
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
	case "updated", "updatedat", "changed", "changedat",
		"modified", "modifiedat", "lastmodified", "lastchanged", "lastupdate":
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

// addSuggestions extends a validation error: missing fields get the name of an unknown field that
// may stand for them. raw is the record.
func (c *Converter) addSuggestions(kind record.Kind, raw []byte, reason error) error {
	bad, ok := record.AsValidationError(reason)
	if !ok || !isMissing(bad.Code) && len(bad.Also) == 0 {
		return reason
	}
	suggestions := make(map[string]string) // by the missing field
	fields := c.fields.forKind(kind)
	object, ok := compactObject(raw)
	if !ok || fields == nil {
		return reason
	}
	fields.EachUnknown(object, func(path []byte) {
		if len(path) > maxUnknownPath || len(suggestions) > maxUnknownPaths {
			return
		}
		if target := suggestField(fields, string(path)); target != "" && suggestions[target] == "" {
			suggestions[target] = string(path)
		}
	})
	defects := bad.FieldErrors()
	for i := range defects {
		if name := suggestions[defects[i].Path]; name != "" && isMissing(defects[i].Code) {
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
