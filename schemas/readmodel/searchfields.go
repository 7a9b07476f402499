package readmodel

import (
	"strconv"
	"strings"
)

// SearchType is the type of a searchable field (rulings.md, Search: Elasticsearch's field types).
type SearchType uint8

// The types of searchable fields.
const (
	// SearchText is analyzed text with a subfield .keyword.
	SearchText SearchType = iota + 1
	// SearchLong is a 64-bit integer.
	SearchLong
	// SearchDate is an instant in milliseconds since 1970.
	SearchDate
	// SearchBoolean is true or false.
	SearchBoolean
)

// SearchMissing is the value of a missing number or date.
const SearchMissing = -1 << 63

// MaxKeyword is the maximum length in UTF-16 units of a .keyword value (ignore_above of Elasticsearch's
// dynamic mapping). Longer values match by their text only.
const MaxKeyword = 256

// SearchField is a field of the search document (interface.md, "Search result person") and its columns in
// search_people.
//
// Text at the root has the columns <column> (the string, empty when missing or longer than MaxKeyword),
// <column>_tokens (Array(String); [""] for a text without tokens), <column>_repeats (n-1 entries for each
// token that occurs n times) and <column>_length (number of tokens); if Counted also <column>_times (Times).
// Text in a nested path has arrays with one entry per element: <column> Array(String), <column>_tokens
// Array(Array(String)). Repeats and length cover all elements together; <column>_spread has n-1 entries for
// each token that n elements have, and <column>_values is the number of elements with tokens.
//
// Numbers and dates are Int64, SearchMissing when missing; booleans UInt8. Nested ones are arrays with one
// entry per element.
type SearchField struct {
	Path   string // as named in queries
	Nested string // path of the enclosing nested object; empty at the root
	Column string
	Type   SearchType
	// Indexed and KeywordIndexed report whether the tokens and the whole values have a text index.
	Indexed, KeywordIndexed bool
	// Counted reports whether Times has a text index.
	Counted bool
}

// SearchNested returns the paths of nested objects, in the order of the document.
func SearchNested() []string {
	return []string{"experience", "education", "certifications", "languages"}
}

// SearchFields returns the searchable fields in the order of the document.
func SearchFields() []SearchField {
	const (
		tokens = 1 << iota
		whole
		times
	)
	field := func(path string, t SearchType, indexes int) SearchField {
		f := SearchField{
			Path: path, Column: strings.ReplaceAll(path, ".", "_"), Type: t,
			Indexed: indexes&tokens != 0, KeywordIndexed: indexes&whole != 0, Counted: indexes&times != 0,
		}
		for _, nested := range SearchNested() {
			if strings.HasPrefix(path, nested+".") {
				f.Nested = nested
			}
		}
		return f
	}
	return []SearchField{
		field("network_url", SearchText, tokens),
		field("network_username", SearchText, tokens|whole),
		field("profile_id", SearchText, 0),
		field("updated_at", SearchDate, 0),
		field("profile.first_name", SearchText, tokens),
		field("profile.last_name", SearchText, tokens),
		field("profile.full_name", SearchText, tokens|whole),
		field("profile.headline", SearchText, tokens|times),
		field("profile.summary", SearchText, tokens|times),
		field("profile.image_url", SearchText, 0),
		field("profile.connections", SearchLong, 0),
		field("profile.followers", SearchLong, 0),
		field("profile.location.raw_address", SearchText, tokens),
		field("profile.location.country", SearchText, tokens|whole),
		field("profile.location.country_code", SearchText, whole),
		field("profile.personal_email", SearchText, tokens|whole),
		field("experience.title", SearchText, tokens|whole|times),
		field("experience.company_name", SearchText, tokens|whole|times),
		field("experience.company_id", SearchText, whole),
		field("experience.company_url", SearchText, tokens|whole|times),
		field("experience.location", SearchText, tokens),
		field("experience.description", SearchText, tokens|times),
		field("experience.start_date", SearchDate, 0),
		field("experience.end_date", SearchDate, 0),
		field("experience.is_current", SearchBoolean, 0),
		field("education.school_name", SearchText, tokens|whole),
		field("education.school_id", SearchText, whole),
		field("education.school_url", SearchText, 0),
		field("education.degree", SearchText, tokens),
		field("education.field_of_study", SearchText, tokens),
		field("education.start_date", SearchDate, 0),
		field("education.end_date", SearchDate, 0),
		field("certifications.name", SearchText, tokens|whole),
		field("certifications.issuer", SearchText, tokens|whole),
		field("certifications.issue_date", SearchDate, 0),
		field("languages.language", SearchText, tokens|whole),
		field("languages.proficiency", SearchText, tokens),
	}
}

// UnsearchableFields returns the fields of a result that are not searchable (MAPPING.md, 3.3 to 3.5), except for
// unknown ones.
func UnsearchableFields() []string {
	return []string{
		"profile.middle_name", "profile.following", "profile.location.city", "profile.location.state",
		"profile.location.continent",
		"experience_count", "education.description", "education_count", "certifications.credential_id",
		"certifications.credential_url",
		"certifications_count", "languages_count", "skills", "skills.skill", "skills_count", "codehost_username",
		"microblog_username",
		"social_accounts", "social_accounts_count", "derived",
	}
}

// Keyword returns the column of whole values.
func (f SearchField) Keyword() string { return f.Column }

// Tokens returns the column of tokens of a text.
func (f SearchField) Tokens() string { return f.Column + "_tokens" }

// Repeats returns the column of repeated tokens of a text.
func (f SearchField) Repeats() string { return f.Column + "_repeats" }

// Times returns the column of token frequencies of a Counted text: for each repeated token, the set bits of
// its number of repeats, as Time. A token that occurs six times is repeated five times and has entries for
// the bits 0 and 2.
func (f SearchField) Times() string { return f.Column + "_times" }

// Time returns the entry of Times for a bit of a token's number of repeats.
func Time(token string, bit int) string { return token + string(timeMark) + strconv.Itoa(bit) }

// timeMark separates token and bit; tokens do not contain it.
const timeMark = '\x00'

// TimesIndex returns the index of Times. Before Times was a column, the index "_times_index" was on an
// expression.
func (f SearchField) TimesIndex() string { return f.Column + "_times_text" }

// Length returns the column of the number of tokens of a text.
func (f SearchField) Length() string { return f.Column + "_length" }

// Spread returns the column of the tokens that several elements of a nested text have.
func (f SearchField) Spread() string { return f.Column + "_spread" }

// Values returns the column of the number of elements of a nested text with tokens.
func (f SearchField) Values() string { return f.Column + "_values" }
