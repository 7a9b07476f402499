package v1

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	stdjson "encoding/json" //nolint:depguard // the oracle: an independent parser

	"github.com/stretchr/testify/require"

	"muster/platform/publicnet"
	"muster/query-api/internal/api"
)

// Input that passes the strict check is read the same way by the generated code; other input gives an [*invalid] with
// valid UTF-8.
func FuzzCheckBody(f *testing.F) {
	for _, seed := range []string{
		`{"codehost":"x"}`, `{"codehost":null,"websets":["network"]}`, `{"Codehost":"x"}`,
		`{"codehost":"x","codehost":"y"}`, `{"codehost":"\ud800"}`,
		`{`, ``, ` `, `[]`, `null`, `{"websets":[1]}`, "{\"codehost\":\"\xff\"}", `{"x":{"y":[{"z":1}]}}`,
		`{"codehost":1e999}`, `{"":""}`, `{"codehost":"x"}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var strict, loose api.PersonEnrichRequest
		if _, err := checkBody(body, &strict); err != nil {
			var in *invalid
			require.ErrorAs(t, err, &in)
			require.NotEmpty(t, in.detail)
			require.True(t, utf8.ValidString(in.detail))
			require.Less(t, len(in.detail), 2000)
			return
		}
		require.True(t, utf8.Valid(body))
		require.NoError(t, stdjson.Unmarshal(body, &loose))
		require.Equal(t, strict, loose)
	})
}

// Identifiers are a union type of the generated code.
func FuzzIdentifiers(f *testing.F) {
	for _, seed := range []string{`"x"`, `["x","y"]`, `[]`, `[1]`, `null`, `{}`, `true`, ` [ "x" ] `, `7`} {
		f.Add([]byte(`{"network":` + seed + `}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var strict, loose api.NetworkPersonRequest
		if _, err := checkBody(body, &strict); err != nil {
			return
		}
		require.NoError(t, stdjson.Unmarshal(body, &loose))
		list, isList, err := identifiers("network", loose.Network)
		if err != nil {
			var in *invalid
			require.ErrorAs(t, err, &in)
			return
		}
		require.NotEmpty(t, list)
		require.LessOrEqual(t, len(list), maxIdentifiers)
		require.True(t, isList || len(list) == 1)
	})
}

func FuzzCheckQuery(f *testing.F) {
	for _, seed := range []string{"network=x", "network=x&addons=a,b", "network=%ff", "network=x&network=y", "netwrk=x",
		"a;b", "%zz", "=", "&", "network=%00", "network=x&dry_run=yes"} {
		f.Add(seed)
	}
	parameters := []parameter{{name: "network", required: true, hint: "give one"}, {name: "addons"},
		{name: "dry_run", boolean: true}}
	f.Fuzz(func(t *testing.T, raw string) {
		if err := checkQuery(raw, parameters); err != nil {
			var in *invalid
			require.ErrorAs(t, err, &in)
			require.True(t, utf8.ValidString(in.detail))
			require.Less(t, len(in.detail), 2000)
		}
	})
}

func TestCheckQuery_HintsAtListsOnlyForLists(t *testing.T) {
	parameters := []parameter{{name: "network"}, {name: "addons", list: true}}
	require.EqualError(t, checkQuery("network=x&network=y", parameters),
		`the parameter "network" is given 2 times: give it once`)
	require.EqualError(t, checkQuery("addons=x&addons=y&addons=z", parameters),
		`the parameter "addons" is given 3 times: give it once, a list comma separated`)
}

func TestUnknown_NamesClosest(t *testing.T) {
	known := []string{"codehost", "email"}
	require.Equal(t, `unknown field "codehst": did you mean "codehost"? Known are codehost, email`,
		unknown("field", "codehst", known).Error())
	require.Equal(t, `unknown field "phone": known are codehost, email`, unknown("field", "phone", known).Error())
	require.Equal(t, `unknown parameter "x": none are allowed here`, unknown("parameter", "x", nil).Error())
	require.Contains(t, unknown("field", strings.Repeat("é", 100), known).Error(), `..."`)
}

func TestNumericID_RejectsLeadingZeros(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "12": 12, " 12 ": 12, "9223372036854775807": 9223372036854775807} {
		id, ok := numericID(text)
		require.True(t, ok, text)
		require.Equal(t, want, id)
	}
	for _, text := range []string{"", "x", "-1", "+1", "012", "9223372036854775808", "1e3", "１２"} {
		_, ok := numericID(text)
		require.False(t, ok, text)
	}
}

func TestProblemOf(t *testing.T) {
	op := &operation{invalid: 422, unavailable: 503}
	require.Equal(t, 422, problemOf(op, invalidf("x")).status)
	p := problemOf(op, errors.New("SELECT * FROM secrets at db-7.internal"))
	require.Equal(t, 500, p.status)
	require.NotContains(t, p.detail, "secrets")
	require.Error(t, p.cause)
}

// JSON Schema allows 1.0 and 1e0 as integers.
func TestCheckBody_RewritesIntegers(t *testing.T) {
	var search api.SearchRequest
	body, err := checkBody(
		[]byte(`{"query":{"range":{"profile.connections":{"gte":1.0}}}, "size":10.0,"max_credits" : 1e2}`), &search)
	require.NoError(t, err)
	require.Equal(t, `{"query":{"range":{"profile.connections":{"gte":1.0}}}, "size":10,"max_credits" : 100}`,
		string(body))
	var discover api.PersonDiscoverRequest
	body, err = checkBody([]byte(`{"network":"o","max_age_days":7.0}`), &discover)
	require.NoError(t, err)
	require.Equal(t, `{"network":"o","max_age_days":7}`, string(body))
	for text, want := range map[string]string{
		`{"query":{},"size":1.5}`:                   "size must be an integer, not a number",
		`{"query":{},"size":1.0,"max_credits":.5}`:  "syntax error",
		`{"query":{},"size":1.0,"max_credits":"1"}`: "max_credits must be an integer, not a string",
		`{"query":{},"size":1.0,"sizes":1}`:         `unknown field "sizes"`,
		`{"query":{},"size":99999999999999999999}`:  "size is too large a number",
		`{"query":{},"size":-1e30}`:                 "size is too large a number",
		"\ufeff" + `{"query":{}}`:                   "byte-order mark",
	} {
		_, err := checkBody([]byte(text), &search)
		require.ErrorContains(t, err, want, text)
	}
}

func TestCheckBody_NamesTheLimitOfNesting(t *testing.T) {
	nested := func(levels int) string {
		return `{"query":` + strings.Repeat(`{"bool":{"must":[`, levels/3) + `{"match_all":{}}` +
			strings.Repeat("]}}", levels/3) + "}"
	}
	var search api.SearchRequest
	_, err := checkBody([]byte(nested(9_990)), &search)
	require.NoError(t, err, "the query has a separate limit")
	for _, body := range []string{
		nested(10_001), nested(60_000), `{"query":` + strings.Repeat("[", 200_000), strings.Repeat(`{"query":`, 10_002),
	} {
		_, err := checkBody([]byte(body), &search)
		require.ErrorContains(t, err, "nested too deeply: at most 10000 levels")
	}
	var person api.ContextRequest
	_, err = checkBody([]byte(`{"person":`+strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_001)), &person)
	require.ErrorContains(t, err, "nested too deeply")
}

func TestIsJSON_HoldsForEveryContentType(t *testing.T) {
	for _, c := range []struct {
		types []string
		want  bool
	}{
		{nil, true}, {[]string{"application/json"}, true}, {[]string{"application/json; charset=UTF-8"}, true},
		{[]string{"application/json", "application/json"}, true}, {[]string{"application/json", "text/plain"}, false},
		{[]string{"text/plain", "application/json"}, false},
		{[]string{"application/json", "application/json; charset=latin1"}, false},
		{[]string{"application/json, text/plain"}, false},
	} {
		r := &http.Request{Header: http.Header{"Content-Type": c.types}}
		require.Equal(t, c.want, isJSON(r), c.types)
	}
}

func TestCheckWebhook_RejectsAddressesThatAreNotPublic(t *testing.T) {
	s := &Server{public: publicnet.NewGuardian()}
	for _, host := range []string{
		"169.254.169.254", "168.63.129.16", "168.63.129.16.", "[::ffff:168.63.129.16]", "[64:ff9b::a83f:8110]",
		"0xa83f8110", "2822734096",
		"100.100.100.200", "192.0.0.192", "[fd00:ec2::254]", "[fd20:ce::254]", "192.80.8.124", "localhost",
		"metadata.google.internal", "10.0.0.1",
	} {
		var in *invalid
		require.ErrorAs(t, s.checkWebhook("webhook_url", "o", "https://"+host+"/"), &in, host)
	}
	for _, host := range []string{"hooks.example", "168.63.129.17", "[2606:2800:220:1::1]"} {
		require.NoError(t, s.checkWebhook("webhook_url", "o", "https://"+host+":8443/"), host)
	}
}
