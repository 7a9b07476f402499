package derive

import (
	"slices"
	"strings"
)

// Fields is a bit set of derived fields.
type Fields uint32

// Derived fields.
const (
	FirstName Fields = 1 << iota
	LastName
	FullName
	URL
	City
	State
	Country
	CountryCode
	Continent
	RawAddress
	CurrentPosition
	LocationCanonical
	CommitCount
	RepoLanguages
	Names
	Emails
)

// Path is the path of a field in a response.
type Path struct {
	Field Fields
	Name  string
}

// NetworkPaths returns the paths of derived fields in a record of the network webset, sorted.
func NetworkPaths() []Path {
	return []Path{
		{CurrentPosition, "current_position"}, {FirstName, "first_name"}, {FullName, "full_name"}, {LastName,
			"last_name"},
		{City, "location.city"}, {Continent, "location.continent"}, {Country, "location.country"},
		{CountryCode, "location.country_code"}, {RawAddress, "location.raw_address"}, {State, "location.state"},
		{URL, "url"},
	}
}

// NetworkProfilePaths returns the paths of derived fields in a search result and in person.network, sorted.
func NetworkProfilePaths() []Path {
	paths := NetworkPaths()[1:] // current_position is not shown
	for i := range paths {
		if paths[i].Name = "profile." + paths[i].Name; paths[i].Field == URL {
			paths[i].Name = "network_url"
		}
	}
	slices.SortFunc(paths, func(a, b Path) int { return strings.Compare(a.Name, b.Name) })
	return paths
}

// CodehostPaths returns the paths of derived fields in a record of the codehost webset and in
// person.codehost, sorted.
func CodehostPaths() []Path {
	return []Path{
		{CommitCount, "commit_count"}, {Emails, "emails"}, {FirstName, "first_name"}, {FullName, "full_name"},
		{LastName, "last_name"}, {LocationCanonical, "location_canonical"}, {Names, "names"},
		{RepoLanguages, "repo_languages"}, {URL, "url"},
	}
}

// CodehostAddonPaths returns the paths of derived fields in the add-on codehost, sorted.
func CodehostAddonPaths() []Path {
	return []Path{
		{CommitCount, "commit_count"}, {FullName, "full_name"}, {RepoLanguages, "repo_languages"}, {URL, "url"},
	}
}
