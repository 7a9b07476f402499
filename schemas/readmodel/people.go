package readmodel

import (
	"strings"

	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// PeopleTable says how the people of a platform are read out of its table, to be
// compared with who was erased.
type PeopleTable struct {
	Name, Platform string
	// ID, Username (comparison form) and Emails (comparison forms) are expressions.
	ID, Username, Emails string
	body                 string
}

// PeopleTables returns the tables of people: one for each platform.
func PeopleTables() []PeopleTable {
	return []PeopleTable{
		{"network_people", identity.Network, "profile_id", "username_key", "email_keys", "if(empty(webset_open), arrayStringConcat(arrayFilter(x -> notEmpty(x), [webset_shared, webset_rest]), ','), webset_open)"},
		{"codehost_people", identity.Codehost, "toString(user_id)", "username_key", "email_keys", "webset"},
		{"microblog_people", identity.Microblog, "user_id", "username_key", "emptyArrayString()", ""},
	}
}

// Body is an expression for the record as JSON, where it may have an identifier
// beside usernames and addresses (suppress.DropMembers); else the empty string, and
// that for every row when nobody wants it.
func (t PeopleTable) Body(wanted bool) string {
	if !wanted || t.body == "" {
		return "''"
	}
	pieces := make([]string, 0, 16)
	for _, m := range suppress.DropMembers() {
		pieces = append(pieces, "'"+m+"'")
	}
	return "if(multiSearchAnyCaseInsensitive(" + t.body + " AS members, [" + strings.Join(pieces, ", ") + "]), concat('{', members, '}'), '')"
}
