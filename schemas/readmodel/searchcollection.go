package readmodel

import (
	"strings"

	"muster/schemas/record"
)

// SearchCollection is a kind of documents that are searched: the people or the companies of the professional network.
// Search, its table and its index in OpenSearch are defined by it alone.
type SearchCollection struct {
	// Name names it in indexes of OpenSearch, cursors and metrics.
	Name string
	// Table is the table that is searched, with the columns of Fields. It is ordered by the columns Hash, the KeyHash
	// of an ID in Namespace, and ID, which is also the path of the ID in documents. Documents is the table that
	// documents are returned from.
	Table, Hash, ID, Documents string
	// LinkedTable has the columns of Linked fields, a row by Hash and ID; empty if there are no such fields.
	LinkedTable string
	// Updated is the path of the field with the version of the record, which version bumps change; empty if there is
	// none.
	Updated   string
	Namespace LookupType
	// Kind is the kind of records.
	Kind   record.Kind
	Fields []SearchField
	// Nested are the paths of nested objects, in the order of the document.
	Nested []string
	// Unsearchable are the fields of a document that are not searchable (MAPPING.md), except for unknown ones.
	Unsearchable []string
}

// SearchCollections returns all collections.
func SearchCollections() []SearchCollection {
	return []SearchCollection{PeopleCollection(), CompaniesCollection()}
}

// PeopleCollection returns the collection of people.
func PeopleCollection() SearchCollection {
	return SearchCollection{
		Name: "people", Table: "search_people", Hash: "profile_hash", ID: "profile_id", Documents: "network_people",
		LinkedTable: LinkedTable, Updated: "updated_at", Namespace: namespaceProfile, Kind: record.KindNetworkPerson,
		Fields: SearchFields(), Nested: SearchNested(), Unsearchable: UnsearchableFields(),
	}
}

// CompaniesCollection returns the collection of companies.
func CompaniesCollection() SearchCollection {
	text := func(path string, tokens, whole bool) SearchField {
		return SearchField{
			Path: path, Column: strings.ReplaceAll(path, ".", "_"), Type: SearchText, Indexed: tokens,
			KeywordIndexed: whole,
		}
	}
	// Names, texts and places also have subfields.
	prose := func(path string, whole bool) SearchField {
		f := text(path, true, whole)
		f.Subfields = true
		return f
	}
	number := func(path string) SearchField {
		return SearchField{Path: path, Column: strings.ReplaceAll(path, ".", "_"), Type: SearchLong}
	}
	specialties := text("profile.specialties", true, true)
	specialties.Nested, specialties.Flat = specialties.Path, true
	return SearchCollection{
		Name: "companies", Table: "search_companies", Hash: "company_hash", ID: "company_id",
		Documents: "network_companies", Namespace: namespaceCompany, Kind: record.KindNetworkCompany,
		Fields: []SearchField{
			text("company_id", false, false),
			text("network_slug", true, true),
			text("network_id", true, true),
			prose("profile.name", true),
			prose("profile.tagline", false),
			prose("profile.description", false),
			prose("profile.industry", true),
			text("profile.company_size", true, true),
			number("profile.employees"),
			number("profile.founded"),
			text("profile.website", true, true),
			text("profile.domain", true, true),
			text("profile.phone", true, true),
			specialties,
			prose("headquarters.city", true),
			prose("headquarters.region", true),
			prose("headquarters.country", true),
			text("headquarters.postal_code", true, true),
			text("headquarters.line1", true, false),
			text("headquarters.line2", true, false),
		},
		Unsearchable: []string{"images.logo", "images.cover", "last_updated"},
	}
}
