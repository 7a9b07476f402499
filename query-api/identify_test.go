package queryapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

const identifyPath = "/v1/person/identify"

// startIdentifyWorker publishes the result of answer for each task with a query; nil publishes nothing.
func startIdentifyWorker(f *fixture, answer func(event.DiscoveryTask) *event.Identification) *worker {
	f.t.Helper()
	return startTaskWorker(f, event.TypeIdentification, func(task event.DiscoveryTask, at time.Time) any {
		if task.Query == nil {
			return nil
		}
		d := answer(task)
		if d == nil {
			return nil
		}
		d.RequestID, d.At = task.RequestID, at
		return d
	})
}

// identified returns a match with three accounts, and one with a single account.
func identified() *event.Identification {
	social := func(platform, username, id string, confidence float64) event.Social {
		return event.Social{Account: event.Account{Platform: platform, Username: username}, Identity: id,
			Confidence: confidence}
	}
	return &event.Identification{Matches: []event.PersonMatch{
		{
			Confidence: 0.93, Raw: 0.97,
			Accounts: []event.Social{social("network", "juno abara", "p1", 1), social("codehost", "Juno", "7", 0.98),
				social("microblog", "juno_a", "m1", 0.95)},
			Profile:  event.PersonSummary{FullName: "Juno Abara", Company: "Quenlix"},
			Evidence: []event.Evidence{{Kind: "name", Finding: "exact", Weight: 3.2}},
		},
		{
			Confidence: 0.5, Raw: 0.4, Accounts: []event.Social{social("network", "juno-abara-2", "p2", 1)},
			Profile: event.PersonSummary{FullName: "Juno Abara"},
		},
	}}
}

func TestIdentify_ReturnsMatchesOfAQuery(t *testing.T) {
	f := start(t, nil)
	w := startIdentifyWorker(f, func(event.DiscoveryTask) *event.Identification { return identified() })
	r := f.post(identifyPath, `{"name":" Juno Abara ","company":"Quenlix","school":"Oslo","location":"Oslo","title":"CTO",`+
		`"phone":"+47 (555) 01-234","email":"Juno@Example.com","min_confidence":0.2}`)
	require.Equal(t, http.StatusOK, r.status, r.body)
	require.JSONEq(t, `{"matches":[{"confidence":0.93,"network_username":"juno abara","codehost_username":"Juno",
		"microblog_username":"juno_a","accounts":[
		{"platform":"network","username":"juno abara","link":"https://network.example/in/juno%20abara","confidence":1},
		{"platform":"codehost","username":"Juno","link":"https://codehost.example/Juno","confidence":0.98},
		{"platform":"microblog","username":"juno_a","link":"https://microblog.example/juno_a","confidence":0.95}],
		"profile":{"full_name":"Juno Abara","company":"Quenlix"},
		"evidence":[{"kind":"name","finding":"exact","weight":3.2}]},
		{"confidence":0.5,"network_username":"juno-abara-2","accounts":[{"platform":"network","username":"juno-abara-2",
		"link":"https://network.example/in/juno-abara-2","confidence":1}],"profile":{"full_name":"Juno Abara"}}]}`, r.body)
	require.Equal(t, "1", r.header.Get("X-Credits-Charged"))
	require.Equal(t, &event.PersonQuery{
		Name: "Juno Abara", Company: "Quenlix", School: "Oslo", Location: "Oslo", Title: "CTO", Phone: "4755501234",
		Email: "juno@example.com", MinConfidence: 0.2,
	}, w.tasks[0].Query)
	require.Zero(t, w.tasks[0].Input)

	f.post(identifyPath, `{"email_hash":"`+strings.Repeat("Ab", 16)+`"}`)
	require.Equal(t, &event.PersonQuery{EmailHash: strings.Repeat("ab", 16), MinConfidence: 0.45}, w.tasks[1].Query)

	// A repeated call with an Idempotency-Key is answered from the stored response.
	const body = `{"name":"Juno Abara"}`
	first := f.do(http.MethodPost, identifyPath, body, idempotent("identify"))
	before := w.asked()
	again := f.do(http.MethodPost, identifyPath, body, idempotent("identify"))
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, first.body, again.body)
	require.Equal(t, before, w.asked())
}

func TestIdentify_RejectsInvalidQueries(t *testing.T) {
	f := start(t, nil)
	for body, detail := range map[string]string{
		`{}`:                    "nothing to search by is given",
		`{"company":"Quenlix"}`: "send at least one of name, email, email_hash, phone",
		`{"name":"Juno"}`:       "name is a single word",
		`{"name":" "}`:          "name is empty",
		`{"name":"a\u0000b"}`:   "name holds control characters",
		`{"name":7}`:            "name must be a string",
		`{"email":"juno"}`:      "email",
		`{"email_hash":"00"}`:   "email_hash is not the MD5 or SHA-256",
		`{"phone":"juno"}`:      "phone is not a phone number",
		`{"nam":"Juno Abara"}`:  `did you mean "name"`,
		`{"name":"` + strings.Repeat("é", 401) + `"}`:                              "name is longer than 400 characters",
		`{"name":"Juno Abara","min_confidence":1.1}`:                               "min_confidence is 1.1",
		`{"email":"a@example.com","email_hash":"` + strings.Repeat("0", 32) + `"}`: "send one of them",
	} {
		r := f.post(identifyPath, body)
		require.Equal(t, http.StatusBadRequest, r.status, body)
		require.Contains(t, r.detail(), detail, body)
	}
}

func TestIdentify_EmptyResultSaysWhyAndIsFree(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) { cfg.DiscoveryBudget = time.Second })
	startIdentifyWorker(f, func(task event.DiscoveryTask) *event.Identification {
		switch task.Query.Name {
		case "Below Person":
			return &event.Identification{BelowConfidence: true}
		case "Degraded Person":
			return &event.Identification{Degraded: []string{event.StageWebSearch}}
		case "Silent Person":
			return nil
		}
		return &event.Identification{}
	})
	for name, want := range map[string][2]string{
		"Absent Person": {"not_found", ""}, "Below Person": {"below_confidence", ""},
		"Degraded Person": {"", "web_search"}, "Silent Person": {"", "input,known_links,web_search"},
	} {
		r := f.post(identifyPath, `{"name":"`+name+`"}`)
		require.Empty(t, r.json()["matches"], name)
		require.Equal(t, want[0], r.header.Get("X-Miss-Reason"), name)
		require.Equal(t, want[1], r.header.Get("X-Degraded"), name)
		require.Equal(t, "0", r.header.Get("X-Credits-Charged"), name)
	}
}

// Neither a new result nor a stored one shows an erased person.
func TestIdentify_ErasedPeopleAreNotShown(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	startIdentifyWorker(f, func(event.DiscoveryTask) *event.Identification { return identified() })
	want := func(replayed bool, accounts ...int) {
		t.Helper()
		r := f.do(http.MethodPost, identifyPath, `{"name":"Juno Abara"}`, idempotent("k"))
		require.Equal(t, replayed, r.header.Get("Idempotent-Replayed") == "true")
		var got []int
		for _, m := range r.json()["matches"].([]any) {
			got = append(got, len(m.(map[string]any)["accounts"].([]any)))
		}
		require.Equal(t, accounts, got)
	}
	want(false, 3, 1)
	want(true, 3, 1)
	erase(t, set, suppress.MicroblogUsername, "juno_a")
	want(false, 2, 1)
	want(true, 2, 1)
	erase(t, set, suppress.ProfileID, "p2")
	want(false, 2)
	want(true, 2)
	erase(t, set, suppress.ProfileID, "p1")
	want(false)
}
