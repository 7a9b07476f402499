package queryapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// results returns the results of a call with items.
func (r response) results() []map[string]any {
	r.t.Helper()
	var out []map[string]any
	for _, result := range r.json()["results"].([]any) {
		out = append(out, result.(map[string]any))
	}
	return out
}

// withItems returns a body with items.
func withItems(items ...string) string { return `{"items":[` + strings.Join(items, ",") + `]}` }

// personRequests returns calls with all combinations of some identifiers and websets.
func personRequests(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, codehost := range []string{"", "lin-code", "rae-code", "sol-code", "other-code", "fjord-org", "absent"} {
		for _, network := range []string{"", "lin-net", "rae-net", "una-net", "stranger-net", "absent"} {
			for _, email := range []string{"", "lin@tamm.example", "una@oja.example", "shared@raud.example"} {
				for _, websets := range [][]string{nil, {"network"}, {"codehost", "network"}} {
					request := make(map[string]any)
					for name, value := range map[string]string{
						"codehost": codehost, "network_username": network, "email": email,
					} {
						if value != "" {
							request[name] = value
						}
					}
					if len(request) == 0 {
						continue
					}
					if websets != nil {
						request["websets"] = websets
					}
					text, err := json.Marshal(request, json.Deterministic(true))
					require.NoError(t, err)
					out = append(out, string(text))
				}
			}
		}
	}
	return out
}

func TestEnrichItems_EqualSingleCalls(t *testing.T) {
	f := start(t, nil)
	f.withLimits(func(l *event.Limits) { l.RequestsPerMinute, l.MonthlyRequests, l.Credits = 1e6, 1e6, 1e6 })
	contractPeople(f)
	for batch := range slices.Chunk(personRequests(t), 100) {
		got := f.post(enrichPath, withItems(batch...))
		sum := 0
		for i, result := range got.results() {
			single := f.post(enrichPath, batch[i])
			want := single.json()
			sum += charged(t, single)
			if reason := single.header.Get("X-Miss-Reason"); reason != "" {
				want["miss_reason"] = reason
			}
			require.Equal(t, want, result, batch[i])
		}
		require.Len(t, got.results(), len(batch))
		require.Equal(t, sum, charged(t, got))
		require.Empty(t, got.header.Get("X-Miss-Reason"))
	}
	companies := []string{
		`{"network_slug":"fjord-metrics"}`, `{"network_id":"93001"}`, `{"company_id":"absent"}`,
		`{"network_url":"network.example/company/fjord-metrics"}`, `{"company_id":"k-c1"}`,
		`{"network_slug":"absent","network_id":"absent","company_id":"k-c1"}`,
		`{"network_slug":"fjord-metrics","network_url":"https://elsewhere.example/x"}`,
	}
	for i, result := range f.post(companyPath, withItems(companies...)).results() {
		want := f.post(companyPath, companies[i]).json()
		if want["matched"] == false {
			want["miss_reason"] = "not_found"
		}
		require.Equal(t, want, result, companies[i])
	}
}

func TestEnrichItems_ReadInAsManyRoundsAsOneCall(t *testing.T) {
	f := start(t, nil)
	f.withLimits(func(l *event.Limits) { l.MonthlyRequests, l.Credits = 1e6, 1e6 })
	var accounts, profiles []string
	for i := range 100 {
		accounts = append(accounts, codehostPerson(100+i, fmt.Sprintf("user-%d", i), "2026-01-01"))
		profiles = append(profiles, networkPerson(fmt.Sprintf("p%d", i), fmt.Sprintf("net-%d", i), "2026-01-01",
			fmt.Sprintf(`"codehost_username":"user-%d","emails":["mail-%d@x.example"]`, i, i)))
	}
	f.insert(record.KindCodehostPerson, accounts...)
	f.insert(record.KindNetworkPerson, profiles...)
	tables := []string{"lookups", "network_people", readmodel.AnswersTable, "seen_versions", readmodel.DiscoveredTable}
	// queries returns how many queries of each table a call makes.
	queries := func(people int, request string) map[string]int {
		before := make(map[string]int)
		for _, table := range tables {
			before[table] = f.queries(table)
		}
		items := make([]string, people)
		for i := range items {
			items[i] = strings.ReplaceAll(request, "N", strconv.Itoa(i))
		}
		require.Equal(t, people, charged(t, f.post(enrichPath, withItems(items...))))
		after := make(map[string]int)
		for _, table := range tables {
			after[table] = f.queries(table) - before[table]
		}
		return after
	}
	for _, request := range []string{
		`{"codehost":"user-N","websets":["codehost","network"]}`, // by username
		`{"network_username":"net-N"}`,                           // by the link of a username
		`{"email":"mail-N@x.example"}`,                           // by the link of an address
	} {
		one := queries(1, request)
		require.Positive(t, one["lookups"])
		require.Equal(t, one, queries(50, request), request)
		// More than 256 keys are several queries.
		for table, n := range queries(100, request) {
			require.LessOrEqual(t, n, one[table]+2, request)
		}
	}
}

// The hints of a username say which records the usernames that it names lead to: an account, the person that it names,
// and the way back need one read of lookups, and one of each of the other tables.
func TestEnrich_LinkedRecordsTakeOneLookup(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson,
		codehostPerson(12, "octavia", "2026-01-01", `"network_username":"net","full_name":"Octavia Lin"`),
		codehostPerson(13, "linked", "2026-01-01"),
		codehostPerson(14, "dangling", "2026-01-01", `"network_username":"none"`))
	f.insert(record.KindAccountLink, `{"a":{"platform":"network","username":"second"},"b":{"platform":"codehost",`+
		`"username":"linked"},"source":"s","observed_at":"2026-01-01"}`)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "net", "2026-01-01"),
		networkPerson("p2", "second", "2026-01-01"), networkPerson("p3", "third", "2026-01-01"))
	require.Equal(t, 200, f.get(networkPath+"?network=third").status) // Finds out that there is no cluster.
	tables := []string{"lookups", "network_people", readmodel.AnswersTable}
	for request, want := range map[string]struct {
		found string
		reads []int
	}{
		`{"codehost":"octavia","websets":["codehost","network"]}`:  {`"profile_id":"p1"`, []int{1, 1, 1}},
		`{"codehost":"third","network_username":"second"}`:         {`"user_id":13`, []int{2, 1, 1}}, // and links of 13
		`{"codehost":"linked","websets":["codehost","network"]}`:   {`"profile_id":"p2"`, []int{1, 1, 1}},
		`{"codehost":"dangling","websets":["codehost","network"]}`: {`"user_id":14`, []int{1, 0, 1}},
	} {
		before := make([]int, len(tables))
		for i, table := range tables {
			before[i] = f.queries(table)
		}
		require.Contains(t, f.post(enrichPath, request).body, want.found, request)
		for i, table := range tables {
			require.Equal(t, want.reads[i], f.queries(table)-before[i], "%s: %s", request, table)
		}
	}
	// The username moves to another person; the hint of the former one no longer counts.
	f.insert(record.KindNetworkPerson, networkPerson("p1", "moved", "2026-02-01"))
	const both = `{"codehost":"octavia","websets":["codehost","network"]}`
	require.NotContains(t, f.post(enrichPath, both).body, "profile_id")
	f.insert(record.KindNetworkPerson, networkPerson("p4", "net", "2026-03-01"))
	require.Contains(t, f.post(enrichPath, both).body, `"profile_id":"p4"`)
}

// An account that names more people than hints are read finds them by their own lookups.
func TestEnrich_ManyHintsAreNotTrusted(t *testing.T) {
	f := start(t, nil)
	var people, links []string
	for i := range 2 * readmodel.MaxHints {
		people = append(people, networkPerson(fmt.Sprintf("p%d", i), fmt.Sprintf("net-%d", i), "2026-01-01"))
		links = append(links, fmt.Sprintf(`{"a":{"platform":"codehost","username":"octavia"},`+
			`"b":{"platform":"network","username":"net-%d"},"source":"s","confidence":%.4f,`+
			`"observed_at":"2026-01-01"}`, i, 0.95+float64(i%2)/100))
	}
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octavia", "2026-01-01"))
	f.insert(record.KindAccountLink, links...)
	f.insert(record.KindNetworkPerson, people...)
	require.Equal(t, 200, f.get(networkPath+"?network=net-1").status)
	got := f.post(enrichPath, `{"codehost":"octavia","websets":["codehost","network"]}`)
	require.Contains(t, got.body, `"profile_id":"p1`)
}

func TestEnrichItems_InvalidItemIsErrorInItsPlace(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octavia", "2026-01-01"))
	f.insert(record.KindNetworkCompany, `{"company_id":"c1","network_slug":"acme","last_updated":"2026-01-01"}`)
	long := strings.Repeat("r", 257)
	for _, tc := range []struct{ path, item, reference, detail string }{
		{enrichPath, `{"reference":"a"}`, "a", "no identifier is given: send at least one of codehost"},
		{enrichPath, `{"reference":"","codehost":"https://evil.example/x"}`, "", "codehost is a URL of a foreign host"},
		{enrichPath, `{"reference":"b","email":"no"}`, "b", "email is not an e-mail address"},
		{enrichPath, `{"reference":"c","codehost":"x","websets":["microblog"]}`, "c", `websets[0] is "microblog"`},
		{enrichPath, `{"reference":"d","codehost":5}`, "d", "codehost must be a string, not a number"},
		{enrichPath, `{"reference":"e","codehst":"x"}`, "e", `unknown field "codehst": did you mean "codehost"?`},
		{enrichPath, `{"reference":"f","codehost":"x","dry_run":true}`, "f", `unknown field "dry_run"`},
		{enrichPath, `{"reference":"g","codehost":"x","items":[]}`, "g", `unknown field "items"`},
		{enrichPath, `{"reference":7,"codehost":"octavia"}`, "-", "reference must be a string, not a number"},
		{enrichPath, `{"reference":"` + long + `","codehost":"octavia"}`, "-", "reference is longer than 256 bytes"},
		{enrichPath, `"octavia"`, "-", "the item must be an object, not a string"},
		{enrichPath, `null`, "-", "the item must be an object, not null"},
		{enrichPath, `[{}]`, "-", "the item must be an object, not a list"},
		{companyPath, `{"reference":"a"}`, "a", "no identifier is given: send at least one of network_slug"},
		{companyPath, `{"reference":"b","network_url":"https://network.example/in/x"}`, "b",
			"network_url is a person's URL"},
		{companyPath, `{"reference":"c","network_slug":"absent","company_id":""}`, "c", "company_id is empty"},
	} {
		good := map[string]string{enrichPath: `{"codehost":"octavia"}`, companyPath: `{"company_id":"c1"}`}[tc.path]
		got := f.post(tc.path, withItems(good, tc.item, good))
		require.Equal(t, 2, charged(t, got), tc.item)
		results := got.results()
		require.Len(t, results, 3)
		require.Equal(t, results[0], results[2], tc.item)
		require.NotContains(t, results[0], "detail")
		require.Contains(t, results[1]["detail"], tc.detail)
		want := []string{"detail", "reference"}
		if tc.reference == "-" {
			want = want[:1]
		} else {
			require.Equal(t, tc.reference, results[1]["reference"])
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(results[1])))
	}
}

func TestEnrichItems_InvalidCallIs422(t *testing.T) {
	f := start(t, nil)
	hundred := strings.Repeat(`{"codehost":"x"},`, 100)
	for body, detail := range map[string]string{
		`{"items":[]}`: "items has 0 elements: give 1 to 100",
		`{"items":[` + hundred + `{"codehost":"x"}]}`: "items has 101 elements: give 1 to 100",
		`{"items":{}}`: "items must be a list, not an object",
		`{"items":[{"codehost":"x"}],"codehost":"x"}`:                   "put them into the items",
		`{"items":[{"codehost":"x"}],"websets":["network"]}`:            "put them into the items",
		`{"items":[{"codehost":"x","codehost":"y"}]}`:                   `"codehost" appears twice`,
		`{"items":[{"codehost":"x"},{"codehost":"y"}],"max_credits":1}`: "may cost 2: raise it, or send fewer items",
		`{"items":[{"codehost":"x"}`:                                    "ends too early",
		`{"items":null}`:                                                "no identifier is given",
	} {
		got := f.post(enrichPath, body)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, body)
		require.Contains(t, got.detail(), detail)
	}
	got := f.post(companyPath, `{"items":[{"company_id":"x"}],"company_id":"x"}`)
	require.Equal(t, http.StatusUnprocessableEntity, got.status)
	require.Contains(t, got.detail(), "put it into the items")
	require.Len(t, f.post(enrichPath, `{"items":[`+strings.TrimSuffix(hundred, ",")+`]}`).results(), 100)
}

func TestEnrichItems_EachValidItemCountsAndIsChargedByItself(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octavia", "2026-01-01"),
		codehostPerson(13, "juno", "2026-01-01"))
	f.withLimits(func(l *event.Limits) { l.MonthlyRequests, l.Credits = 9, 5 })
	const octavia, juno, absent = `{"codehost":"octavia"}`, `{"codehost":"juno"}`, `{"codehost":"absent"}`
	dry := f.post(enrichPath, `{"items":[`+octavia+`,{},`+absent+`],"dry_run":true}`).json()
	require.Equal(t, map[string]any{"dry_run": true, "max_credits": 2., "credits_remaining": 5.}, dry)
	require.Equal(t, 2, charged(t, f.post(enrichPath, withItems(octavia, `{}`, absent, octavia))))
	require.Equal(t, 0, charged(t, f.post(enrichPath, withItems(`{}`))))
	requests, credits := f.usage()
	require.InDelta(t, 3, requests, 0)
	require.InDelta(t, 2, credits, 0)

	// The worst case is reserved.
	refused := f.post(enrichPath, withItems(octavia, juno, absent, absent))
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Contains(t, refused.detail(), "3 credits are held, and this call needs up to 4: reduce items to at most 3")
	refused = f.post(enrichPath, withItems(slices.Repeat([]string{absent}, 3)...))
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Contains(t, refused.detail(), "2 of the 9 requests a month that the plan allows are left, and this call "+
		"counts 3: reduce items to at most 2")
	require.Equal(t, 2, charged(t, f.post(enrichPath, withItems(octavia, juno))))
	refused = f.post(enrichPath, withItems(absent, absent))
	require.Contains(t, refused.detail(), "are used up")
	requests, credits = f.usage()
	require.InDelta(t, 9, requests, 0)
	require.InDelta(t, 4, credits, 0)

	f.withLimits(func(l *event.Limits) { l.RequestsPerMinute, l.MonthlyRequests, l.Credits = 20, 1000, 1000 })
	require.Equal(t, http.StatusOK, f.post(enrichPath, withItems(slices.Repeat([]string{absent}, 100)...)).status)
}

func TestEnrichItems_AreIdempotent(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, codehostPerson(12, "octavia", "2026-01-01"))
	body := withItems(`{"reference":"1","codehost":"octavia"}`, `{"reference":"2"}`)
	first := f.do(http.MethodPost, enrichPath, body, idempotent("k"))
	require.Equal(t, 1, charged(t, first))
	again := f.do(http.MethodPost, enrichPath, body, idempotent("k"))
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, 0, charged(t, again))
	other := f.do(http.MethodPost, enrichPath, withItems(`{"codehost":"octavia"}`), idempotent("k"))
	require.Equal(t, http.StatusUnprocessableEntity, other.status)
	f.spends(1)
}

func TestEnrichItems_ReferenceIsEscaped(t *testing.T) {
	f := start(t, nil)
	for _, reference := range []string{`"`, `\`, "\u2028", "ü😀", "\x00\x1f", strings.Repeat("😀", 64)} {
		text, err := jsontext.AppendQuote(nil, reference)
		require.NoError(t, err)
		got := f.post(enrichPath, withItems(`{"codehost":"absent","reference":`+string(text)+`}`))
		require.Equal(t, reference, got.results()[0]["reference"])
	}
}
