package derive

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
)

func TestNames_PartsThatTheRecordHasStay(t *testing.T) {
	for _, c := range []struct {
		name                          string
		first, middle, last, full     string
		wantFirst, wantLast, wantFull string
		want                          Fields
	}{
		{"full name from its parts", "Bruna", "", "Lopes", "", "Bruna", "Lopes", "Bruna Lopes", FullName},
		{"with the middle name", "Ada", "Maria", "Quell", "", "Ada", "Quell", "Ada Maria Quell", FullName},
		{"family name first in Han", "太郎", "", "山田", "", "太郎", "山田", "山田太郎", FullName},
		{"no full name from one part", "Bruna", "", "", "", "Bruna", "", "", 0},
		{"all given", "A", "", "B", "C D", "A", "B", "C D", 0},
		{"last name after the first", "Ada Maria", "", "", "Ada Maria Quell", "Ada Maria", "Quell",
			"Ada Maria Quell", LastName},
		{"first name before the last", "", "", "Quell", "Ada Maria Quell", "Ada", "Quell", "Ada Maria Quell",
			FirstName},
		{"another first name", "Bob", "", "", "Ada Quell", "Bob", "", "Ada Quell", 0},
		{"a mononym given", "Plato", "", "", "Plato", "Plato", "", "Plato", 0},
		{"two family names after the middle name", "", "Carlos", "", "Juan Carlos García Márquez", "Juan",
			"García Márquez", "Juan Carlos García Márquez", FirstName | LastName},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, last, full := c.first, c.last, c.full
			require.Equal(t, c.want, names(&first, c.middle, &last, &full))
			require.Equal(t, [3]string{c.wantFirst, c.wantLast, c.wantFull}, [3]string{first, last, full})
		})
	}
}

func TestNetworkPerson_CurrentPositionIsTheOngoingEntryThatBeganLast(t *testing.T) {
	no, yes := false, true
	board := record.Position{Title: "Board member", Start: "2015-01", Company: &record.CompanyRef{Name: "Choir"}}
	head := record.Position{Title: "Head of Tide", Summary: "Runs it", Start: "2023-04",
		Company: &record.CompanyRef{Name: "Tide Desk", NetworkURL: "https://network.example/company/tide-desk"}}
	for _, c := range []struct {
		name  string
		given *record.Position
		list  []record.Position
		want  *record.Position
	}{
		{"newest start", nil, []record.Position{board, head}, &record.Position{Title: "Head of Tide",
			Summary: "Runs it", Start: "2023-04", Current: &yes, Company: head.Company}},
		{"title for a missing summary", nil, []record.Position{board}, &record.Position{Title: "Board member",
			Summary: "Board member", Start: "2015-01", Current: &yes, Company: board.Company}},
		{"none ongoing", nil, []record.Position{{Title: "Cook", Start: "2010", End: "2012"}, {Title: "Chef",
			Current: &no}}, nil},
		{"undated entries are older", nil, []record.Position{{Title: "Helper"}, board},
			&record.Position{Title: "Board member", Summary: "Board member", Start: "2015-01", Current: &yes,
				Company: board.Company}},
		{"current in spite of an end", nil, []record.Position{{Title: "Cook", Start: "2010", End: "2012",
			Current: &yes}}, &record.Position{Title: "Cook", Summary: "Cook", Start: "2010", Current: &yes}},
		{"an entry without data", nil, []record.Position{{Start: "2024"},
			{Location: &record.Location{City: "Oslo"}}}, nil},
		{"given", &record.Position{Summary: "As given"}, []record.Position{head},
			&record.Position{Summary: "As given"}},
		{"given without content", &record.Position{}, []record.Position{board},
			&record.Position{Title: "Board member", Summary: "Board member", Start: "2015-01", Current: &yes,
				Company: board.Company}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &record.NetworkPerson{Username: "u", URL: "given", CurrentPosition: c.given, Experience: c.list}
			before := slices.Clone(c.list)
			out, fields := New(identity.Default()).NetworkPerson(in)
			require.Equal(t, c.want, out.CurrentPosition)
			require.Equal(t, c.want != nil && (c.given == nil || c.given.Summary == ""), fields&CurrentPosition != 0)
			require.Equal(t, before, in.Experience, "the record does not change")
			require.Equal(t, c.given, in.CurrentPosition)
		})
	}
}

func TestNetworkPerson_DerivesWhatIsMissing(t *testing.T) {
	in := &record.NetworkPerson{
		Username: "bruna-lopes", FirstName: "Bruna", LastName: "Lopes", Location: &record.Location{City: "Braga",
			Country: "Portugal"},
	}
	out, fields := New(identity.Default()).NetworkPerson(in)
	require.Equal(t, "Bruna Lopes", out.FullName)
	require.Equal(t, "https://network.example/in/bruna-lopes", out.URL)
	require.Equal(t, &record.Location{
		City: "Braga", State: "Braga", Country: "Portugal", CountryCode: "PT", Continent: "Europe",
		RawAddress: "Braga, Portugal",
	}, out.Location)
	require.Equal(t, FullName|URL|State|CountryCode|Continent|RawAddress, fields)
	require.Equal(t, &record.Location{City: "Braga", Country: "Portugal"}, in.Location, "the record does not change")

	again, none := New(identity.Default()).NetworkPerson(&out)
	require.Zero(t, none, "complete")
	require.Equal(t, out, again)
}

func TestCodehostPerson_DerivesWhatIsMissing(t *testing.T) {
	d := New(identity.Default())
	out, fields := d.CodehostPerson(&record.CodehostPerson{CodehostUsername: "derive-me", FullName: "Dag Rive",
		Location: "Bergen, Norway"})
	require.Equal(t, FirstName|LastName|URL|LocationCanonical, fields)
	require.Equal(t, "https://codehost.example/derive-me", out.URL)
	require.Equal(t, "Bergen, Norway", out.Location, "as given")
	latitude, longitude := 60.393, 5.3242
	require.Equal(t, &record.CanonicalLocation{
		City: "Bergen", State: "Vestland", Country: "Norway", CountryCode: "NO", Continent: "Europe",
		Label:    "Bergen, Vestland, Norway",
		Timezone: "Europe/Oslo", Latitude: &latitude, Longitude: &longitude,
	}, out.LocationCanon)

	given := &record.CanonicalLocation{City: "Own City", Country: "Own Land"}
	out, fields = d.CodehostPerson(&record.CodehostPerson{
		CodehostUsername: "derive-not", FullName: "Given", FirstName: "G", URL: "https://x.example",
		Location: "Bergen, Norway", LocationCanon: given,
	})
	require.Zero(t, fields)
	require.Same(t, given, out.LocationCanon)

	out, fields = d.CodehostPerson(&record.CodehostPerson{CodehostUsername: "fjord", Type: "Organization",
		FullName: "Fjord Metrics", Location: "the internet"})
	require.Equal(t, URL, fields, "the name of an organization is not divided")
	require.Nil(t, out.LocationCanon)
}

func TestPaths_AreSorted(t *testing.T) {
	for _, paths := range [][]Path{NetworkPaths(), NetworkProfilePaths(), CodehostPaths(), CodehostAddonPaths()} {
		require.True(t, slices.IsSortedFunc(paths, func(a, b Path) int {
			return slices.Compare([]string{a.Name},
				[]string{b.Name})
		}))
	}
}

func BenchmarkNetworkPerson(b *testing.B) {
	d := New(identity.Default())
	p := &record.NetworkPerson{
		Username: "carl-moss", FullName: "Carl Moss", Location: &record.Location{RawAddress: "Malmö, Sweden"},
		Experience: []record.Position{{Title: "Cook", Start: "2010", End: "2012"}, {Title: "Chef", Start: "2020-02"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		d.NetworkPerson(p)
	}
}
