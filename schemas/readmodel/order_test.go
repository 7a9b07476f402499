package readmodel

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestIsEmptyEntry_IgnoresAbsentValues(t *testing.T) {
	eachMemberSays(t, isEmptyPosition)
	eachMemberSays(t, isEmptyEducation)
	eachMemberSays(t, isEmptyLocation)
	eachMemberSays(t, isEmptyCompanyRef)
	eachMemberSays(t, isEmptySchool)
	eachMemberSays(t, func(c *record.Certification) bool {
		return len((&Renderer{}).rankCertifications([]record.Certification{*c})) == 0
	})
}

func eachMemberSays[E any](t *testing.T, empty func(*E) bool) {
	t.Helper()
	no := false
	something := map[reflect.Type]any{
		reflect.TypeFor[string]():             "x",
		reflect.TypeFor[record.PartialDate](): record.PartialDate("2020"),
		reflect.TypeFor[*bool]():              &no,
		reflect.TypeFor[[]string]():           []string{"", "x"},
		reflect.TypeFor[jsontext.Value]():     jsontext.Value(`{"a":null,"b":1}`),
		reflect.TypeFor[*record.Location]():   &record.Location{City: "x"},
		reflect.TypeFor[*record.CompanyRef](): &record.CompanyRef{Name: "x"},
		reflect.TypeFor[*record.SchoolRef]():  &record.SchoolRef{Name: "x"},
	}
	nothing := map[reflect.Type]any{
		reflect.TypeFor[[]string]():           []string{""},
		reflect.TypeFor[jsontext.Value]():     jsontext.Value(`{"a":null}`),
		reflect.TypeFor[*record.Location]():   &record.Location{},
		reflect.TypeFor[*record.CompanyRef](): &record.CompanyRef{},
		reflect.TypeFor[*record.SchoolRef]():  &record.SchoolRef{},
	}
	var entry E
	require.True(t, empty(&entry), "%T", entry)
	members := reflect.ValueOf(&entry).Elem()
	for i := range members.NumField() {
		member, name := members.Field(i), members.Type().Field(i).Name
		if v, ok := nothing[member.Type()]; ok {
			member.Set(reflect.ValueOf(v))
			require.True(t, empty(&entry), "%T.%s", entry, name)
		}
		require.Contains(t, something, member.Type())
		member.Set(reflect.ValueOf(something[member.Type()]))
		require.False(t, empty(&entry), "%T.%s", entry, name)
		member.SetZero()
	}
}

// Lists are served in this order (schemas/MAPPING.md, "Lists").
func TestNewestFirst_SortsByEndThenStart(t *testing.T) {
	yes, no := true, false
	indices := func(list []ranked) (out []int) {
		for _, r := range list {
			out = append(out, r.index)
		}
		return out
	}
	r := &Renderer{}
	require.Equal(t, []int{5, 3, 0, 1, 4, 6}, indices(r.rankExperience([]record.Position{
		{Start: "2010"}, {Start: "2001", End: "2005"}, {}, {Start: "2011", End: "2012", Current: &yes},
		{Start: "2000", End: "2005"}, {Start: "2020"}, {Start: "2015", Current: &no},
	})))
	require.Equal(t, []int{2, 0, 3, 1}, indices(r.rankEducation([]record.Education{
		{Start: "2001", End: "2005"}, {Start: "2010"}, {Start: "2000", Current: &yes}, {Start: "2000", End: "2005"}, {},
	})))
	require.Equal(t, []int{1, 2, 0},
		indices(r.rankCertifications([]record.Certification{{Name: "a"}, {IssueDate: "2020"}, {IssueDate: "2019"},
			{}})))
}
