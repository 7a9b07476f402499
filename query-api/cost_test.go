package queryapi_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/record"
)

func TestCost_IsKnownBeforeTheCallAndBounded(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01"))
	f.insert(record.KindCodehostPerson, codehostPerson(7, "octa", "2026-01-01"))
	f.withLimits(func(l *event.Limits) { l.Prices.PersonEnrich, l.Prices.Webset, l.Prices.Discover = 3, 2, 5 })
	for _, tc := range []struct {
		path, body, field string // body without the closing brace
		cost              float64
		invalid           int
		fix               string
	}{
		{enrichPath, `{"codehost":"octa"`, "PersonEnrich", 3, 422, ""},
		{companyPath, `{"network_slug":"acme"`, "CompanyEnrich", 1, 422, ""},
		{networkPath, `{"network":"octavia"`, "Webset", 2, 400, ""},
		{codehostPath, `{"codehost":["octa","8","9"]`, "Webset", 6, 400, ", or send fewer identifiers"},
		{"/v1/person/discover", `{"codehost":"octa"`, "Discover", 5, 400, ""},
		{"/v1/person/identify", `{"name":"Octavia Lin"`, "Discover", 5, 400, ""},
		{"/v1/context", `{"person":"Octavia Lin"`, "Context", 1, 400, ""},
	} {
		remaining := 10_000. - f.remaining()
		got := f.post(tc.path, tc.body+`,"dry_run":true}`)
		require.Equal(t, http.StatusOK, got.status, tc.path)
		require.Equal(t, 0, charged(t, got), tc.path)
		require.Equal(
			t,
			map[string]any{"dry_run": true, "max_credits": tc.cost, "credits_remaining": 10_000. - remaining},
			got.json(),
			tc.path,
		)
		require.Equal(t, http.StatusOK,
			f.post(tc.path, tc.body+`,"dry_run":true,"max_credits":`+strconv.Itoa(int(tc.cost))+`}`).status, "enough")
		got = f.post(tc.path, tc.body+`,"max_credits":`+strconv.Itoa(int(tc.cost)-1)+`}`)
		require.Equal(t, tc.invalid, got.status, tc.path)
		require.Equal(
			t,
			"max_credits is "+strconv.Itoa(int(tc.cost)-1)+", and the call may cost "+strconv.Itoa(int(tc.cost))+
				": raise it"+tc.fix,
			got.detail(),
		)
		got = f.post(tc.path, tc.body+`,"max_credits":-1}`)
		require.Equal(t, tc.invalid, got.status)
		require.Equal(t, "max_credits must not be negative", got.detail())
	}
	require.Equal(t, 2, charged(t, f.get(networkPath+"?network=octavia&max_credits=2")))
	require.Equal(t, 400, f.get(networkPath+"?network=octavia&max_credits=1").status)
	got := f.get(networkPath + "?network=octavia&max_credits=1.5")
	require.Equal(t, `the parameter "max_credits" must be an integer`, got.detail())
}

// remaining returns the credits of the period that are left.
func (f *fixture) remaining() float64 {
	f.t.Helper()
	return f.post(networkPath, `{"network":"x","dry_run":true}`).json()["credits_remaining"].(float64)
}

func TestMissReason_SaysWhyThereIsNoRecord(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkPerson, networkPerson("p1", "octavia", "2026-01-01", `"headline":"Compilers"`))
	f.insert(record.KindCodehostPerson, codehostPerson(7, "octa", "2026-01-01"))
	for _, tc := range []struct {
		got  response
		want string
	}{
		{f.post(enrichPath, `{"codehost":"octa"}`), ""},
		{f.post(enrichPath, `{"codehost":"octa","websets":["network","codehost"]}`), ""},
		{f.post(enrichPath, `{"codehost":"missing"}`), "not_found"},
		{f.post(enrichPath, `{"codehost":"octa","websets":["network"]}`), "not_found"},
		{f.post(companyPath, `{"network_slug":"missing"}`), "not_found"},
		{f.get(networkPath + "?network=octavia"), ""},
		{f.get(networkPath + "?network=missing"), "not_found"},
		{f.get(networkPath + "?network=missing&must_have=education"), "not_found"},
		{f.get(networkPath + "?network=octavia&must_have=headline,education"), ""},
		{f.get(networkPath + "?network=octavia&must_have=education,skills"), "must_have: education, skills"},
		{f.get(networkPath + "?network=octavia&must_have=codehost"), "must_have: codehost"},
		{f.post(codehostPath, `{"codehost":"7","must_have":["repos"]}`), "must_have: repos"},
		{f.post(codehostPath, `{"codehost":["7","8"],"must_have":["repos"]}`), ""},
		{f.get(networkPath + "?network=octavia&dry_run=true"), ""},
	} {
		require.Equal(t, http.StatusOK, tc.got.status)
		require.Equal(t, tc.want, tc.got.header.Get("X-Miss-Reason"), tc.got.body)
	}
	key := map[string]string{"Idempotency-Key": "k", "Content-Type": "application/json"}
	for range 2 {
		got := f.do(http.MethodPost, enrichPath, `{"codehost":"missing"}`, key)
		require.Equal(t, "not_found", got.header.Get("X-Miss-Reason"), "also of the stored response")
	}
}
