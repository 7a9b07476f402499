package queryapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/query-api/internal/search/clause"
	"muster/schemas/readmodel"
)

func TestOpenAPI_ListsMustHaveFields(t *testing.T) {
	schemas := loadDescription(t).Components.Schemas
	for name, fields := range map[string][]string{
		"NetworkMustHave": readmodel.NetworkFields(), "CodehostMustHave": readmodel.CodehostFields(),
	} {
		var listed []string
		for _, v := range schemas[name].Value.Enum {
			listed = append(listed, v.(string))
		}
		require.ElementsMatch(t, fields, listed, name)
	}
}

func TestOpenAPI_IsServed(t *testing.T) {
	f := start(t, nil)
	got := f.do(http.MethodGet, "/v1/openapi.json", "", map[string]string{"Authorization": ""})
	require.Equal(t, http.StatusOK, got.status)
	want, err := queryapi.Description()
	require.NoError(t, err)
	require.JSONEq(t, string(want), got.body)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.body), &document))
	require.Equal(t, "3.1.0", document["openapi"])
	require.Equal(t, http.StatusBadRequest, f.get("/v1/openapi.json?pretty=1").status)
}

func TestOpenAPI_ResponseFieldsAreSearchableOrDocumented(t *testing.T) {
	var of readmodel.SearchCollection
	var walk func(path string, s *openapi3.Schema)
	walk = func(path string, s *openapi3.Schema) {
		if s.Items != nil {
			s = s.Items.Value
		}
		for name, member := range s.Properties {
			isOfSearch := strings.HasPrefix(member.Value.Description, "In search results, ")
			require.Equal(t, isOfSearch, member.Value.Extensions["x-search-result"] == true, name)
			if isOfSearch {
				continue
			}
			below := strings.TrimPrefix(path+"."+name, ".")
			if below == "discovered_link" || below == "headcount_by_year" { // of an add-on, not of a result
				continue
			}
			walk(below, member.Value)
		}
		if len(s.Properties) > 0 {
			return // an object: its fields are searched
		}
		_, err := clause.Lower(fmt.Appendf(nil, `{"exists":{"field":%q}}`, path), "query",
			clause.Options{Collection: &of})
		if slices.Contains(of.Unsearchable, path) {
			require.ErrorContains(t, err, fmt.Sprintf("the field %q is returned, but not searchable", path))
			return
		}
		require.NoError(t, err, path)
	}
	for schema, collection := range map[string]readmodel.SearchCollection{
		"EnrichedNetwork": readmodel.PeopleCollection(), "Company": readmodel.CompaniesCollection(),
	} {
		of = collection
		walk("", loadDescription(t).Components.Schemas[schema].Value)
	}
}

func TestOpenAPI_DiscoveryAcceptsNull(t *testing.T) {
	f := start(t, nil)
	schema := loadDescription(t).Components.Schemas["PersonDiscoverRequest"].Value
	for body, valid := range map[string]bool{
		`{"codehost":"x","dry_run":true}`:                                           true,
		`{"codehost":"x","network":null,"url":null,"dry_run":true}`:                 true,
		`{"codehost":null,"dry_run":true}`:                                          false,
		`{"codehost":null,"network":null,"dry_run":true}`:                           false,
		`{"codehost":"x","network":"y","dry_run":true}`:                             false,
		`{"codehost":"x","max_age_days":null,"microblog":null,"dry_run":true}`:      true,
		`{"codehost":"x","network":"y","microblog":null,"url":null,"dry_run":true}`: false,
	} {
		var value any
		require.NoError(t, json.Unmarshal([]byte(body), &value))
		require.Equal(t, valid, schema.VisitJSON(value) == nil, body)
		require.Equal(t, valid, f.post("/v1/person/discover", body).status == http.StatusOK, body)
	}
}
