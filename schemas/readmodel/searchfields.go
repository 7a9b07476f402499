package readmodel

import (
	"strings"
	"unicode/utf16"

	"github.com/cespare/xxhash/v2"
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

// SearchField is a field of a search document (schemas/MAPPING.md, 4.3 and 5.1) and its columns in the table of its
// SearchCollection.
//
// Text at the root has the columns <column> (the text, empty when missing) and <column>_tokens (Array(String)). Text
// in a nested path has arrays with one entry per element: <column> Array(String), <column>_tokens
// Array(Array(String)). A text that is longer than MaxKeyword is empty in <column> unless it has Subfields or no
// tokens: so a text is present if it has tokens or is not empty. Lengths are the sizes of the arrays of tokens.
//
// The column Repeats has a TermHash for each occurrence of a token but the first, in all elements together, and, if the
// text is nested, for each whole value but the first. All texts share it, unless they are Counted.
//
// Numbers and dates are Int64, SearchMissing when missing; booleans UInt8. Nested ones are arrays with one
// entry per element.
type SearchField struct {
	Path   string // as named in queries
	Nested string // path of the enclosing nested object; empty at the root
	// Flat: Nested is the field itself, a list of values of the root document. Its columns are those of a nested field,
	// but its elements are no documents: they are not searched one by one, and do not count.
	Flat   bool
	Column string
	Type   SearchType
	// Indexed and KeywordIndexed report whether the tokens and the whole values have a text index.
	Indexed, KeywordIndexed bool
	// Filtered and KeywordFiltered report whether the tokens and the whole values are read by themselves, with a filter
	// that excludes ranges of rows. Other fields without an index are read together with those of their object.
	Filtered, KeywordFiltered bool
	// Counted reports whether the text has a column of repeats of its own: those with many repeats.
	Counted bool
	// Subfields reports whether the text has the subfields .folded and .code.
	Subfields bool
	// Linked reports whether it is a field of the person's linked account, whose columns are in
	// SearchCollection.LinkedTable. Its texts have no index, and whole values of any length.
	Linked bool
}

// SearchNested returns the paths of nested objects, in the order of the document.
func SearchNested() []string {
	return []string{"experience", "education", "certifications", "languages", "skills"}
}

// SearchFields returns the searchable fields in the order of the document.
func SearchFields() []SearchField {
	const (
		tokens = 1 << iota
		whole
		tokensFilter
		wholeFilter
		counted
		subfields
	)
	field := func(path string, t SearchType, flags int) SearchField {
		f := SearchField{
			Path: path, Column: strings.ReplaceAll(path, ".", "_"), Type: t,
			Indexed: flags&tokens != 0, KeywordIndexed: flags&whole != 0,
			Filtered: flags&tokensFilter != 0, KeywordFiltered: flags&wholeFilter != 0,
			Counted: flags&counted != 0, Subfields: flags&subfields != 0,
		}
		for _, nested := range SearchNested() {
			if strings.HasPrefix(path, nested+".") {
				f.Nested = nested
			}
		}
		return f
	}
	linked := func(path string, t SearchType) SearchField {
		f := field(path, t, 0)
		f.Linked = true
		return f
	}
	languages := linked("codehost.languages", SearchText)
	languages.Nested, languages.Flat = languages.Path, true
	return []SearchField{
		field("network_url", SearchText, tokensFilter|wholeFilter),
		field("network_username", SearchText, tokens|wholeFilter),
		field("profile_id", SearchText, wholeFilter),
		field("updated_at", SearchDate, 0),
		field("profile.first_name", SearchText, tokens|subfields),
		field("profile.last_name", SearchText, tokens|subfields),
		field("profile.full_name", SearchText, tokens|wholeFilter|subfields),
		field("profile.headline", SearchText, tokens|wholeFilter|subfields),
		field("profile.summary", SearchText, tokens|wholeFilter|subfields),
		field("profile.image_url", SearchText, wholeFilter),
		field("profile.connections", SearchLong, 0),
		field("profile.followers", SearchLong, 0),
		field("profile.location.raw_address", SearchText, tokens|subfields),
		field("profile.location.city", SearchText, tokens|subfields),
		field("profile.location.state", SearchText, tokens|subfields),
		field("profile.location.country", SearchText, tokens|whole|subfields),
		field("profile.location.country_code", SearchText, whole),
		field("profile.location.continent", SearchText, subfields),
		field("profile.personal_email", SearchText, tokens|wholeFilter),
		field("current_position.title", SearchText, tokens|subfields),
		field("current_position.company_name", SearchText, tokens|subfields),
		field("current_position.company_id", SearchText, 0),
		field("current_position.start_date", SearchDate, 0),
		field("experience_count", SearchLong, 0),
		field("education_count", SearchLong, 0),
		field("years_of_experience", SearchLong, 0),
		field("experience.title", SearchText, tokens|whole|counted|subfields),
		field("experience.company_name", SearchText, tokens|whole|subfields),
		field("experience.company_id", SearchText, whole),
		field("experience.company_url", SearchText, tokensFilter|wholeFilter|counted),
		field("experience.location", SearchText, tokens|counted|subfields),
		field("experience.description", SearchText, tokens|wholeFilter|counted),
		field("experience.start_date", SearchDate, 0),
		field("experience.end_date", SearchDate, 0),
		field("experience.is_current", SearchBoolean, 0),
		field("education.school_name", SearchText, tokens|whole),
		field("education.school_id", SearchText, whole),
		field("education.school_url", SearchText, tokens),
		field("education.degree", SearchText, tokens),
		field("education.field_of_study", SearchText, tokens),
		field("education.start_date", SearchDate, 0),
		field("education.end_date", SearchDate, 0),
		field("certifications.name", SearchText, tokens|whole),
		field("certifications.issuer", SearchText, tokens|whole),
		field("certifications.issue_date", SearchDate, 0),
		field("languages.language", SearchText, 0),
		field("languages.proficiency", SearchText, 0),
		field("skills.skill", SearchText, tokens|whole|subfields),
		linked("codehost.username", SearchText),
		languages,
		linked("codehost.public_repos", SearchLong),
		linked("codehost.followers", SearchLong),
	}
}

// CountsElements reports whether the elements of a nested field count as documents.
func (f SearchField) CountsElements() bool { return f.Nested != "" && !f.Flat }

// UnsearchableFields returns the fields of a result that are not searchable (MAPPING.md, 3.3 to 3.5), except for
// unknown ones.
func UnsearchableFields() []string {
	return []string{
		"profile.middle_name", "profile.following", "education.description", "certifications.credential_id",
		"certifications.credential_url", "certifications_count", "languages_count", "skills_count",
		"codehost_username", "microblog_username", "social_accounts", "social_accounts_count", "derived",
	}
}

// Tokens returns the column of tokens of a text.
func (f SearchField) Tokens() string { return f.Column + "_tokens" }

// Repeats returns the column of the repeats of a text.
func (f SearchField) Repeats() string {
	if f.Counted {
		return f.Column + "_repeats"
	}
	return "other_repeats"
}

// NewElement is the bit of a TermHash of a repeat that is the first one of its element.
const NewElement = 1

// TermHash identifies a token of a text, or a whole value, in the column Repeats. NewElement is not set.
func (f SearchField) TermHash(term string, whole bool) uint64 {
	kind := byte(0)
	if whole {
		kind = 1
	}
	var stack [96]byte
	buf := append(append(append(stack[:0], f.Column...), kind), term...)
	return xxhash.Sum64(buf) &^ NewElement
}

// IsKeyword reports whether a whole value is short enough for .keyword.
func IsKeyword(s string) bool {
	if len(s) <= MaxKeyword {
		return true
	}
	units := 0
	for _, r := range s {
		units += utf16.RuneLen(r)
	}
	return units <= MaxKeyword
}
