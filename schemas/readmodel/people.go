package readmodel

import (
	"strconv"
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
	// ownEmails is how many members of body are addresses that muster has a field for.
	ownEmails string
}

// PeopleTables returns the tables of people: one for each platform.
func PeopleTables() []PeopleTable {
	return []PeopleTable{
		{"network_people", identity.Network, "profile_id", "username_key", "email_keys", Members(ShapeOpen), "0"},
		{"codehost_people", identity.Codehost, "toString(user_id)", "username_key", "email_keys", Members(ShapeWebset),
			"bitCount(bitAnd(present, " + strconv.FormatUint(hostSchoolEmail|hostAdditionalEmails, 10) + "))"},
		{"microblog_people", identity.Microblog, "user_id", "username_key", "emptyArrayString()", "", "0"},
	}
}

// Members is an expression for the fields of the record as JSON, without braces; empty for a table that has none.
func (t PeopleTable) Members() string { return t.body }

// Body is an expression for the record as JSON, where it may have what suppress.Subject.Beside
// reads: with emails addresses that muster has no field for, with others what
// suppress.DropMembers names. Else it is the empty string, and that for every row when
// nothing is wanted.
func (t PeopleTable) Body(emails, others bool) string {
	if t.body == "" || !emails && !others {
		return "''"
	}
	var may []string
	if others {
		pieces := make([]string, 0, 16)
		for _, m := range suppress.DropMembers() {
			pieces = append(pieces, "'"+m+"'")
		}
		may = append(may, "multiSearchAnyCaseInsensitive(members, ["+strings.Join(pieces, ", ")+"])")
	}
	if emails {
		may = append(may, `countSubstringsCaseInsensitive(members, 'email"') + countSubstringsCaseInsensitive(members, 'emails"') > `+t.ownEmails)
	}
	return "if((" + t.body + " AS members) != '' AND (" + strings.Join(may, " OR ") + "), concat('{', members, '}'), '')"
}
