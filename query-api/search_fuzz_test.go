package queryapi_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// FuzzSearch sends arbitrary bytes as the body of a search: they are answered or rejected, never a failure.
func FuzzSearch(f *testing.F) {
	server := start(f, nil)
	server.insert(record.KindNetworkPerson, searchPeople()...)
	for _, body := range []string{
		"", "{", "null", "[]", "{}", `{"query":null}`, `{"query":{"match_all":{}},"size":-1}`, "\xff\xfe",
		`{"query":{"match_all":{}}}}`,
		`{"query":{"match_all":{}},"query":{"match_all":{}}}`,
		`{"query":{"match":{"profile.headline":"\u0000\ud83d\ude80"}}}`,
		`{"query":{"term":{"profile.headline.keyword":"'\\\t\n{p0:String}"}},"sort":[{"profile.headline.keyword":` +
			`{"missing":"{p1:String}"}}]}`,
		`{"query":{"bool":{"should":[{"match":{"profile.headline":"data"}},{"nested":{"path":"experience",` +
			`"query":{"range":{"experience.start_date":{"gte":"now-10y/y"}}}}}]}},"_source":["profile.*"]}`,
		`{"query":{"function_score":{"query":{"combined_fields":{"query":"bob software","fields":["profile.headline",` +
			`"profile.full_name^2"]}},"min_score":0.5,"functions":[{"gauss":{"profile.connections":{"origin":1e300,` +
			`"scale":1e-300}}},{"field_value_factor":{"field":"profile.connections","modifier":"ln","factor":-1}}]}}}`,
		`{"query":{"query_string":{"query":"a* AND (b~ OR /c.d/) profile.connections:[1 TO *] ^3 \"x y\"~4",` +
			`"default_field":"profile.headline"}}}`,
		`{"query":{"simple_query_string":{"query":"((a | b)) +c -d* \"e","fields":["*"]}},"cursor":"AAAA"}`,
		`{"query":{"range":{"updated_at":{"gte":"2026-13-45||+1M/d","time_zone":"+25:00","format":"yyyy"}}}}`,
		`{"query":{"range":{"profile.connections":{"gte":1e400,"lt":-0.0}}}}`,
		`{"query":{"regexp":{"profile.full_name.keyword":"~(a&b)<1-9>@\"#\"[^]"}}}`,
		`{"query":{"regexp":{"profile.headline":"~(((((.?)*)*){9})*z)"}}}`,
		`{"query":{"simple_query_string":{"query":"((a~\\( \"b","fields":["profile.headline"]}}}`,
		`{"query":{"term":{"profile.connections":9007199254740993.0000000000000000000000000000000001}}}`,
		`{"query":{"fuzzy":{"profile.headline":{"value":"\ud83d\ude80\ud83d\ude80\ud83d\ude80",` +
			`"fuzziness":"AUTO:0,0","prefix_length":9}}}}`,
		`{"query":{"terms_set":{"profile.headline":{"terms":["data"],` +
			`"minimum_should_match_field":"profile.connections"}}},"sort":[{"experience.is_current":{"mode":"median",` +
			`"nested":{"path":"experience"}}}]}`,
		`{"query":{"match_all":{}},"size":0,"aggs":{"a":{"nested":{"path":"experience"},"aggs":{"b":{"terms":{"field":` +
			`"experience.title.keyword","order":{"c":"desc"},"include":["Engineer"]},"aggs":{"c":{"reverse_nested":{}}}}}}}}`,
		`{"query":{"match_all":{}},"aggregations":{"a":{"range":{"field":"updated_at","format":"yyyy","ranges":[{"from":` +
			`"2020","to":-1e300},{}]}},"b":{"date_histogram":{"field":"updated_at","fixed_interval":"1ms","missing":` +
			`-62135596800001}},"c":{"sum":{"field":"profile.connections","missing":9223372036854775807}}}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.service.URL()+"/v1/person/search",
			bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+server.key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if len(body) <= 1<<20 {
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, resp.StatusCode, "%q: %s", body, answer)
		}
	})
}
