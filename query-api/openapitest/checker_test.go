package openapitest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/openapitest"
)

func TestChecker_ReportsMissingAndUndocumentedHeaders(t *testing.T) {
	const usage, enrich, checkUndocumented = "GET /v1/usage", "POST /v1/person/enrich", "GET /v1/nothing"
	rated := []string{"X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit",
		"RateLimit-Policy"}
	for _, c := range []struct {
		call    string
		status  int
		headers []string
		lacks   string // empty: nothing
		extra   string
	}{
		{call: usage, status: 400, headers: rated},
		{call: usage, status: 403, headers: rated},
		{call: usage, status: 503, headers: append([]string{"Retry-After"}, rated...)},
		{call: enrich, status: 422, headers: rated},
		{call: enrich, status: 413, headers: rated[:1]},
		{call: usage, status: 401, headers: []string{"X-Request-Id", "WWW-Authenticate"}},
		{call: checkUndocumented, status: 404, headers: rated[:1]},
		{call: usage, status: 400, headers: rated[:5], lacks: "RateLimit-Policy"},
		{call: enrich, status: 500, headers: rated[:1], lacks: "RateLimit"},
		{call: usage, status: 400, headers: append([]string{"X-Foo"}, rated...), extra: "X-Foo"},
		{call: enrich, status: 422, headers: append([]string{"X-Credits-Charged"}, rated...),
			extra: "X-Credits-Charged"},
		{call: enrich, status: 413, headers: rated[:2], extra: "X-Ratelimit-Limit"},
		{call: checkUndocumented, status: 404, headers: rated[:2], extra: "X-Ratelimit-Limit"},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		checker, err := openapitest.New()
		require.NoError(t, err)
		answer := httptest.NewRecorder()
		answer.Header().Set("Content-Type", "application/json")
		for _, name := range c.headers {
			answer.Header().Set(name, "1")
		}
		answer.WriteHeader(c.status)
		err = checker.Check(httptest.NewRequest(method, path, http.NoBody), nil, answer.Result(),
			[]byte(`{"detail":"x"}`))
		switch {
		case c.lacks != "":
			require.ErrorContains(t, err, c.lacks, "%s %d", c.call, c.status)
			require.ErrorContains(t, err, "missing")
		case c.extra != "":
			require.ErrorContains(t, err, "undocumented response header "+c.extra, "%s %d", c.call, c.status)
		default:
			require.NoError(t, err, "%s %d", c.call, c.status)
		}
	}
}
