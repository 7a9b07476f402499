package clause_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
)

func TestLower_SuggestsTheFieldOfAnotherName(t *testing.T) {
	for name, want := range map[string]string{
		"person.full_name": "profile.full_name", "profile.job_title": "experience.title", "fullName": "profile.full_name",
		"firstName": "profile.first_name", "person.firstName": "profile.first_name", "jobTitle": "experience.title",
		"Job-Title": "experience.title", "people.name": "profile.full_name", "job_title.keyword": "experience.title.keyword",
		"full_name.raw": "profile.full_name.keyword", "positions.title": "experience.title",
		"jobs.company":      "experience.company_name",
		"current_job.title": "current_position.title", "work_experience.company.name": "experience.company_name",
		"schools.name": "education.school_name", "education_history.degrees": "education.degree",
		"location.country": "profile.location.country", "profile.location_country": "profile.location.country",
		"location.city": "profile.location.city", "city": "profile.location.city", "region": "profile.location.state",
		"skill": "skills.skill", "skills.name": "skills.skill", "current_company": "current_position.company_name",
		"inferred_years_experience": "years_of_experience", "current_position.company.name": "current_position.company_name",
		"address.country_code": "profile.location.country_code",
		"employer":             "experience.company_name", "university": "education.school_name", "surname": "profile.last_name",
		"bio": "profile.summary", "about": "profile.summary", "_source.headline": "profile.headline",
		"profile.experience.title": "experience.title", "language": "languages.language", "e-mail": "profile.personal_email",
		"experience.start": "experience.start_date", "experience.is_active": "experience.is_current",
		"connections":     "profile.connections",
		"profile.headlin": "profile.headline", "experience.titel": "experience.title",
		"education.shool_name":   "education.school_name",
		"profile.headline.exact": "profile.headline.keyword", "profile.connections.keyword": "profile.connections",
	} {
		for _, query := range []string{
			`{"match":{` + strconv.Quote(name) + `:"x"}}`, `{"exists":{"field":` + strconv.Quote(name) + `}}`,
			`{"multi_match":{"query":"x","fields":[` + strconv.Quote(name) + `]}}`,
			`{"query_string":{"query":"x","default_field":` + strconv.Quote(name) + `}}`,
		} {
			_, err := clause.Lower([]byte(query), "query", options())
			require.ErrorContains(t, err, "did you mean "+strconv.Quote(want)+"?", query)
		}
		_, err := clause.Sorts([]byte(`[`+strconv.Quote(name)+`]`), "sort", options())
		require.ErrorContains(t, err, "did you mean "+strconv.Quote(want)+"?", "sort by %s", name)
	}
}

func TestLower_SuggestsNoUnrelatedField(t *testing.T) {
	for _, name := range []string{
		"industry", "profile.industry", "experience.industry", "gender", "birth_date", "inferred_salary",
		"phone_numbers", "interests",
		"job_company_size", "education.gpa", "profile.xyz", "experience.zzz", "likelihood", "net_worth", "x", "",
		"profile.birthday",
	} {
		_, err := clause.Lower([]byte(`{"match":{`+strconv.Quote(name)+`:"x"}}`), "query", options())
		require.ErrorContains(t, err, "unknown field", name)
		require.NotContains(t, err.Error(), "did you mean", name)
	}
}

func TestLower_SuggestsTheReplacementOfAnOldClause(t *testing.T) {
	for query, want := range map[string]string{
		`{"query":{"match_all":{}}}`: "query.query: ", `{"filtered":{}}`: "bool with filter",
		`{"missing":{"field":"x"}}`: "must_not",
		`{"and":[]}`:                "must", `{"should":[]}`: "bool with should", `{"custom_filters_score":{}}`: "function_score",
		`{"in":{}}`:           "terms",
		`{"bool":{"and":[]}}`: `use "must"`, `{"bool":{"minimumShouldMatch":1}}`: `use "minimum_should_match"`,
		`{"match":{"profile.headline":{"query":"a",` +
			`"type":"phrase"}}}`: "match_phrase",
		`{"match":{"profile.headline":{"query":"a",` +
			`"type":"boolean"}}}`: "omit it",
		`{"exists":{"field":5}}`:                    "must be a string, the name of a field, not a number",
		`{"exists":{"field":["profile.headline"]}}`: "must be a string, the name of a field, not a list",
		`{"exists":{"field":null}}`:                 "must not be null",
		`{"ids":{"values":5}}`:                      "query.ids.values: must be a list",
		`{"query_string":{"query":"e-mail:x"}}`:     `write \:`,
		`{"query_string":{"query":"note: see below",` +
			`"fields":["profile.headline"]}}`: `write \:`,
	} {
		_, err := clause.Lower([]byte(query), "query", options())
		require.ErrorContains(t, err, want, query)
	}
	for sort, want := range map[string]string{
		`["profile.connections:desc"]`:                              `write the order as {"profile.connections": "desc"}`,
		`["profile.connections:DESC"]`:                              `write the order as {"profile.connections": "desc"}`,
		`[{"experience.start_date":{"nested_path":"experience"}}]`:  `"nested"`,
		`[{"experience.start_date":{"nested_filter":{"term":{}}}}]`: `"filter"`,
		`["connections:asc"]`:                                       `did you mean "profile.connections"?`,
	} {
		_, err := clause.Sorts([]byte(sort), "sort", options())
		require.ErrorContains(t, err, want, sort)
	}
}

func TestLower_ParsesSignedYearsAndZoneNames(t *testing.T) {
	same := func(a, b string) {
		t.Helper()
		x, err := clause.Lower([]byte(`{"range":{"updated_at":{"gte":`+a+`}}}`), "query", options())
		require.NoError(t, err, a)
		y, err := clause.Lower([]byte(`{"range":{"updated_at":{"gte":`+b+`}}}`), "query", options())
		require.NoError(t, err, b)
		require.Equal(t, y, x, "%s and %s", a, b)
	}
	same(`"-1000"`, `"-1000-01-01T00:00:00Z"`)
	same(`-1000`, `"-1000-01"`)
	same(`"-0001-01"`, `-62198755200000`)
	same(`"-2017-01-01"`, `"-2017"`)
	same(`"+12345"`, `"+12345-01-01"`)
	same(`"-999999999"`, `"-999999999-01-01"`)
	same(`"2020-01-01T13:00:00Europe/Paris"`, `"2020-01-01T12:00:00Z"`)
	same(`"2020-07-01T13:00Europe/Paris"`, `"2020-07-01T11:00:00Z"`)
	same(`"2020-07-01T13:00:00.250America/New_York"`, `"2020-07-01T17:00:00.250Z"`)
	same(`"2020-07-01T13:00:00Asia/Kolkata"`, `"2020-07-01T07:30:00Z"`)
	same(`-200000000000`, `"1963-08-31T04:26:40Z"`)
	for _, date := range []string{`"2020-01-01T13:00:00Europe/Nowhere"`, `"2020-01-01T13:00:00../../etc/passwd"`,
		`"2020-01-01T13:00:00Local"`, `"+2020"`} {
		_, err := clause.Lower([]byte(`{"range":{"updated_at":{"gte":`+date+`}}}`), "query", options())
		require.Error(t, err, date)
	}
}
