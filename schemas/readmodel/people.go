package readmodel

import (
	"strconv"
	"strings"

	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// PeopleTable describes how to read the people of a platform for comparison with the suppression set.
type PeopleTable struct {
	Name, Platform string
	// ID, Username and Emails (both normalized) are SQL expressions.
	ID, Username, Emails string
	body                 string
	// ownEmails is the number of fields of body with mapped addresses.
	ownEmails string
}

// PeopleTables returns the tables of people, one per platform.
func PeopleTables() []PeopleTable {
	return []PeopleTable{
		{"network_people", identity.Network, "profile_id", "username_key", "email_keys", Members(ShapeOpen), "0"},
		{"codehost_people", identity.Codehost, "toString(user_id)", "username_key", "email_keys", Members(ShapeWebset),
			"bitCount(bitAnd(present, " + strconv.FormatUint(hostSchoolEmail|hostAdditionalEmails, 10) + "))"},
		{"microblog_people", identity.Microblog, "user_id", "username_key", "emptyArrayString()", "", "0"},
	}
}

// Members returns an SQL expression for the fields of the record as JSON without braces; "" if the table has
// none.
func (t PeopleTable) Members() string { return t.body }

// Body returns an SQL expression for the record as JSON if it may have data that suppress.Subject.AddUnknownFields
// reads, else for the empty string: with emails unmapped addresses, with others the fields of suppress.DropMembers. If
// neither is requested, it is empty for every row.
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
		may = append(may, `countSubstringsCaseInsensitive(members, 'email"') + `+
			`countSubstringsCaseInsensitive(members, 'emails"') > `+t.ownEmails)
	}
	return "if((" + t.body + " AS members) != '' AND (" + strings.Join(may, " OR ") +
		"), concat('{', members, '}'), '')"
}
