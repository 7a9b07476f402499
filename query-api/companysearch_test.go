package queryapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

const companySearchPath = "/v1/company/search"

// searchedCompanies returns companies with known values.
func searchedCompanies() []string {
	return []string{
		`{"company_id":"c1","last_updated":"2026-01-01","network_slug":"acme","network_id":"11","profile":{"name":"Acme ` +
			`Analytics","tagline":"Data for all","description":"Analytics of data, and more data","industry":"Software",` +
			`"company_size":"51-200","employees":120,"founded":1999,"website":"https://www.acme.example/en",` +
			`"phone":"+351 1","specialties":["Data Engineering","Dashboards"]},"headquarters":{"city":"Lisbon","region":` +
			`"Lisboa","country":"Portugal","postal_code":"1100-001","line1":"Rua Augusta 1"},"images":{"logo":"https://` +
			`img.example/c1"}}`,
		`{"company_id":"c2","last_updated":"2026-02-01","network_slug":"globex","profile":{"name":"Globex","description":` +
			`"Data","industry":"Energy","employees":7,"specialties":["Engineering of Data"]},"headquarters":{"city":` +
			`"São Paulo","country":"Brazil"}}`,
		`{"company_id":"c3","last_updated":"2026-03-01","network_id":"33","profile":{"name":"Initech !!!","employees":5000}}`,
		`{"company_id":"c4","last_updated":"2026-04-01","profile":{"name":"Umbrella"}}`,
		`{"company_id":"c5","last_updated":"2026-04-01","deleted":true}`,
	}
}

// companyIDs returns the companies of a response, in order.
func companyIDs(answer map[string]any) []string {
	var out []string
	for _, r := range answer["results"].([]any) {
		out = append(out, r.(map[string]any)["company_id"].(string))
	}
	return out
}

func TestCompanySearch_AnswersQueriesOverCompanies(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany, searchedCompanies()...)
	f.insert(record.KindNetworkPerson, searchPeople()...)
	for query, want := range map[string]string{
		`{"match_all":{}}`:                                                                                        "c1 c2 c3 c4",
		`{"match":{"profile.description":"data"}}`:                                                                "c1 c2",
		`{"match_phrase":{"profile.specialties":"data engineering"}}`:                                             "c1",
		`{"match":{"profile.specialties":{"query":"engineering dashboards","operator":"and"}}}`:                   "c1",
		`{"match_phrase":{"profile.specialties":"engineering dashboards"}}`:                                       "",
		`{"term":{"profile.specialties.keyword":"Dashboards"}}`:                                                   "c1",
		`{"terms":{"profile.specialties.keyword":["Dashboards","Engineering of Data"]}}`:                          "c1 c2",
		`{"wildcard":{"profile.specialties.keyword":"Eng*"}}`:                                                     "c2",
		`{"fuzzy":{"profile.specialties":"dashbords"}}`:                                                           "c1",
		`{"exists":{"field":"profile.specialties"}}`:                                                              "c1 c2",
		`{"range":{"profile.employees":{"gt":7,"lte":5000}}}`:                                                     "c1 c3",
		`{"term":{"profile.domain.keyword":"acme.example"}}`:                                                      "c1",
		`{"match":{"headquarters.city":"são"}}`:                                                                   "c2",
		`{"match":{"headquarters.city.folded":"SAO PAULO"}}`:                                                      "c2",
		`{"match":{"profile.name.code":"initech"}}`:                                                               "c3",
		`{"prefix":{"headquarters.postal_code.keyword":"1100"}}`:                                                  "c1",
		`{"term":{"network_slug.keyword":"globex"}}`:                                                              "c2",
		`{"term":{"network_id":"33"}}`:                                                                            "c3",
		`{"ids":{"values":["c2","p1","c5","c4"]}}`:                                                                "c2 c4",
		`{"term":{"_id":"c3"}}`:                                                                                   "c3",
		`{"multi_match":{"query":"acme"}}`:                                                                        "c1",
		`{"query_string":{"query":"headquarters.country:brazil OR profile.founded:1999"}}`:                        "c1 c2",
		`{"simple_query_string":{"query":"umbrella","fields":["profile.na*"]}}`:                                   "c4",
		`{"bool":{"must_not":{"exists":{"field":"headquarters.country"}}}}`:                                       "c3 c4",
		`{"function_score":{"query":{"exists":{"field":"profile.employees"}},"random_score":{}}}`:                 "c1 c2 c3",
		`{"terms_set":{"profile.description":{"terms":["data"],"minimum_should_match_field":"profile.founded"}}}`: "",
	} {
		got := f.post(companySearchPath, fmt.Sprintf(`{"query":%s,"sort":["company_id.keyword"]}`, query)).json()
		require.Equal(t, want, strings.Join(companyIDs(got), " "), query)
		require.EqualValues(t, len(strings.Fields(want)), got["total"], query)
	}
	got := f.post(companySearchPath, `{"query":{"match":{"profile.description":"data"}}}`)
	require.Equal(t, "2", got.header.Get("X-Credits-Charged"))
	require.NotEmpty(t, got.header.Get("X-Quota-Remaining"))
	first := got.json()["results"].([]any)[0].(map[string]any)
	require.Equal(t, "c2", first["company_id"], "the shorter text scores higher")
	require.Positive(t, first["_score"])
	delete(first, "_score")
	enriched := f.post("/v1/company/enrich", `{"network_slug":"globex"}`).json()["company"]
	require.Equal(t, enriched, first, "the company of enrichment")

	sorted := f.post(companySearchPath, `{"query":{"match_all":{}},"sort":[{"profile.employees":"desc"}],`+
		`"_source":["profile.name","headquarters"]}`).json()
	require.Equal(t, []string{"c3", "c1", "c2", "c4"}, companyIDs(sorted))
	require.Equal(t, map[string]any{"company_id": "c4", "profile": map[string]any{"name": "Umbrella"}},
		sorted["results"].([]any)[3])
	ids := f.post(companySearchPath, `{"query":{"match_all":{}},"_source":false,"sort":[{"profile.specialties.keyword":`+
		`{"order":"desc","mode":"max","missing":"_last"}},{"profile.name.keyword":"asc"}]}`).json()
	require.Equal(t, []any{
		map[string]any{"company_id": "c2"}, map[string]any{"company_id": "c1"}, map[string]any{"company_id": "c3"},
		map[string]any{"company_id": "c4"},
	}, ids["results"])
}

func TestCompanySearch_Aggregates(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany, searchedCompanies()...)
	got := f.post(companySearchPath, `{"query":{"match_all":{}},"size":0,"aggs":{"industries":{"terms":{"field":`+
		`"profile.industry.keyword"}},"topics":{"terms":{"field":"profile.specialties.keyword"}},"largest":{"max":{"field":`+
		`"profile.employees"}}}}`)
	require.Equal(t, "0", got.header.Get("X-Credits-Charged"))
	found := got.json()["aggregations"].(map[string]any)
	buckets := func(name string) (out []string) {
		for _, b := range found[name].(map[string]any)["buckets"].([]any) {
			out = append(out, fmt.Sprint(b.(map[string]any)["key"], " ", b.(map[string]any)["doc_count"]))
		}
		return out
	}
	require.Equal(t, []string{"Energy 1", "Software 1"}, buckets("industries"))
	require.Equal(t, []string{"Dashboards 1", "Data Engineering 1", "Engineering of Data 1"}, buckets("topics"))
	require.EqualValues(t, 5000, found["largest"].(map[string]any)["value"])
}

func TestCompanySearch_WithdrawnCompaniesAreNotFound(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany, searchedCompanies()...)
	find := func() []string {
		return companyIDs(f.post(companySearchPath, `{"query":{"match":{"profile.description":"data"}}}`).json())
	}
	require.Equal(t, []string{"c2", "c1"}, find())
	f.insert(record.KindNetworkCompany, `{"company_id":"c2","last_updated":"2026-06-01","deleted":true}`)
	require.Equal(t, []string{"c1"}, find())
	f.insert(record.KindNetworkCompany, `{"company_id":"c2","last_updated":"2026-05-01","profile":{"description":"data"}}`)
	require.Equal(t, []string{"c1"}, find(), "an older record")
	f.insert(record.KindNetworkCompany, `{"company_id":"c2","last_updated":"2026-07-01","profile":{"description":"data"}}`,
		`{"company_id":"c1","last_updated":"2026-07-01","profile":{"description":"none"}}`)
	require.Equal(t, []string{"c2"}, find())
}

func TestCompanySearch_WalkReturnsEachCompanyOnce(t *testing.T) {
	f := start(t, nil)
	var records []string
	for i := range 57 {
		records = append(records, fmt.Sprintf(`{"company_id":"w%d","last_updated":"2026","profile":{"name":"Firm %d",`+
			`"description":"data %s","employees":%d}}`, i, i, strings.Repeat("x ", i%5), i%7))
	}
	f.insert(record.KindNetworkCompany, records...)
	for _, sort := range []string{`["_score"]`, `[{"profile.employees":"desc"}]`, `[{"profile.name.keyword":"asc"},"_score"]`} {
		seen := make(map[string]bool)
		cursor := ""
		for pages := 0; ; pages++ {
			require.Less(t, pages, 10)
			got := f.post(companySearchPath, fmt.Sprintf(
				`{"query":{"match":{"profile.description":"data"}},"size":10,"sort":%s%s}`, sort, cursor)).json()
			require.EqualValues(t, 57, got["total"])
			for _, id := range companyIDs(got) {
				require.False(t, seen[id], id)
				seen[id] = true
			}
			if pages == 2 { // refreshed during the walk
				f.insert(record.KindNetworkCompany, strings.Replace(records[3], `"2026"`, `"2026-02"`, 1))
			}
			if got["next_cursor"] == nil {
				break
			}
			cursor = fmt.Sprintf(`,"cursor":%q`, got["next_cursor"])
		}
		require.Len(t, seen, 57, sort)
	}
	counted := f.post(companySearchPath, `{"query":{"match_all":{}},"size":0}`)
	require.Equal(t, "0", counted.header.Get("X-Credits-Charged"))
	require.EqualValues(t, 57, counted.json()["total"])
	foreign := f.post("/v1/person/search", fmt.Sprintf(`{"query":{"match_all":{}},"cursor":%q}`,
		counted.json()["next_cursor"]))
	require.Equal(t, http.StatusBadRequest, foreign.status, "a cursor of companies")
	require.Contains(t, foreign.detail(), "cursor")
}

func TestCompanySearch_ChargesLikePersonSearch(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany, searchedCompanies()...)
	dry := f.post(companySearchPath, `{"query":{"match_all":{}},"size":30,"dry_run":true}`).json()
	require.EqualValues(t, 30, dry["max_credits"])
	limited := f.post(companySearchPath, `{"query":{"match_all":{}},"max_credits":3}`)
	require.Equal(t, "3", limited.header.Get("X-Credits-Charged"))
	require.Len(t, limited.json()["results"], 3)
	f.spends(3)
	limits := event.DefaultLimits()
	limits.Credits = 2
	few, err := f.accounts.CreateOrganizationOn(t.Context(), "Few", queryapi.Plan{Name: "few", Limits: limits})
	require.NoError(t, err)
	_, key, err := f.accounts.CreateKey(t.Context(), few.ID, queryapi.KeyOptions{Name: "few"})
	require.NoError(t, err)
	as := map[string]string{"Authorization": "Bearer " + key.Reveal()}
	refused := waitForStatus(t, http.StatusTooManyRequests, func() response {
		return f.do(http.MethodPost, companySearchPath, `{"query":{"match_all":{}},"size":3}`, as)
	})
	require.Contains(t, refused.detail(), "reduce size")
	usage := f.get("/v1/usage").json()["endpoints"].([]any)
	require.Contains(t, fmt.Sprint(usage), companySearchPath)
}

func TestCompanySearch_RefusesByName(t *testing.T) {
	f := start(t, nil)
	for body, want := range map[string]string{
		`{"query":{"match":{"profile.headline":"x"}}}`:                                          `unknown field "profile.headline"`,
		`{"query":{"match":{"profile.nmae":"x"}}}`:                                              `did you mean "profile.name"?`,
		`{"query":{"match":{"images.logo":"x"}}}`:                                               "is returned, but not searchable",
		`{"query":{"range":{"last_updated":{"gte":"2026"}}}}`:                                   "is returned, but not searchable",
		`{"query":{"nested":{"path":"experience","query":{"match_all":{}}}}}`:                   "companies have none",
		`{"query":{"nested":{"path":"profile.specialties","query":{"match_all":{}}}}}`:          "companies have none",
		`{"query":{"prefix":{"_id":"c"}}}`:                                                      "use company_id.keyword",
		`{"query":{"knn":{}}}`:                                                                  "knn is not supported",
		`{"query":{}}`:                                                                          "for all companies",
		`{"query":{"match_all":{}},"size":101}`:                                                 "from 0 to 100",
		`{"query":{"match_all":{}},"explain":true}`:                                             "/v1/company/search/explain",
		`{"query":{"match_all":{}},"sort":["profile.connections"]}`:                             `unknown field`,
		`{"query":{"match_all":{}},"sort":["profile.name"]}`:                                    "profile.name.keyword",
		`{"query":{"match_all":{}},"cursor":"x"}`:                                               "cursor",
		`{"query":{"match_all":{}},"aggs":{"a":{"terms":{"field":"profile.name.keyword"}}}}`:    "names of companies are not aggregated",
		`{"query":{"match_all":{}},"aggs":{"a":{"terms":{"field":"profile.website.keyword"}}}}`: "URLs are not aggregated",
	} {
		got := f.post(companySearchPath, body)
		require.Equal(t, http.StatusBadRequest, got.status, body)
		require.Contains(t, got.detail(), want, body)
	}
}

func TestCompanySearch_IsExplained(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany, searchedCompanies()...)
	got := f.post(companySearchPath+"/explain", `{"query":{"match":{"profile.description":"data"}},"size":7}`)
	require.Empty(t, got.header.Get("X-Credits-Charged"))
	e := got.json()
	require.EqualValues(t, 7, e["max_credits"])
	text, err := json.Marshal(e)
	require.NoError(t, err)
	require.Regexp(t, `FROM search_companies|_search|"text"`, string(text))
	require.NotContains(t, string(text), "{table}")
	require.NotContains(t, string(text), "search_people")
	refused := f.post(companySearchPath+"/explain", `{"query":{"match":{"profile.headline":"data"}}}`).json()
	require.Contains(t, refused["refused"], "unknown field")
}
