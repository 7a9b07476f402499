package queryapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
)

// analystOf answers the statements of saved questions, and records them.
type analystOf struct {
	asked  []string
	answer func(out io.Writer) error
}

func (a *analystOf) run(_ context.Context, statement, format string, out io.Writer) error {
	a.asked = append(a.asked, format+" "+strings.ReplaceAll(statement, "\n", " "))
	return a.answer(out)
}

func startExplore(t *testing.T) (*fixture, *analystOf) {
	t.Helper()
	a := &analystOf{answer: func(out io.Writer) error {
		_, err := io.WriteString(out, `{"meta":[],"data":[]}`)
		return err
	}}
	f := start(t, func(_ *queryapi.Config, deps *queryapi.Deps) {
		deps.Questions = []queryapi.Question{{Number: 1, Title: "How many?", Statement: "SELECT 1 -- one",
			Chart: &queryapi.Chart{Kind: "bar", X: []string{"a"}, Y: []string{"b"}}}}
		deps.Analyze = a.run
	})
	f.client = http.DefaultClient // the page is not in the API description
	return f, a
}

func TestExplore_IsServedWithoutAKey(t *testing.T) {
	f, a := startExplore(t)
	anonymous := map[string]string{"Authorization": ""}
	for _, path := range []string{"/explore", "/explore/", "/explore/app.js"} {
		got := f.do(http.MethodGet, path, "", anonymous)
		require.Equal(t, http.StatusOK, got.status, path)
	}
	listed := f.do(http.MethodGet, "/explore/questions", "", anonymous)
	require.Equal(t, http.StatusOK, listed.status)
	require.JSONEq(t, `{"questions":[{"number":1,"title":"How many?","statement":"SELECT 1 -- one",
		"chart":{"kind":"bar","x":["a"],"y":["b"]}}]}`, listed.body)
	missing := f.do(http.MethodGet, "/explore/serch.js", "", anonymous)
	require.Equal(t, http.StatusNotFound, missing.status)
	require.Contains(t, missing.detail(), "/explore/search.js")
	require.Equal(t, http.StatusMethodNotAllowed, f.do(http.MethodPost, "/explore", "{}", anonymous).status)
	require.Empty(t, a.asked)
}

func TestQuestions_NeedTheScopeAnalyze(t *testing.T) {
	f, a := startExplore(t)
	const path = "/explore/questions/1.json"
	anonymous := map[string]string{"Authorization": ""}
	require.Equal(t, http.StatusUnauthorized, f.do(http.MethodGet, path, "", anonymous).status)
	caller := f.newKey(queryapi.KeyOptions{Name: "caller"})
	refused := waitForStatus(t, http.StatusForbidden, func() response { // the service has read the key
		return f.do(http.MethodGet, path, "", map[string]string{"Authorization": "Bearer " + caller})
	})
	require.Contains(t, refused.detail(), "lacks the scope analyze")
	require.Empty(t, a.asked)

	analyst := f.newKey(queryapi.KeyOptions{Name: "analyst", Scopes: []string{event.ScopeAnalyze}})
	header := map[string]string{"Authorization": "Bearer " + analyst}
	waitForStatus(t, http.StatusOK, func() response { return f.do(http.MethodHead, path, "", header) })
	for name, format := range map[string][2]string{
		"1.json":    {"application/json", "JSONCompact SELECT * FROM ( SELECT 1 -- one ) LIMIT 1000"},
		"1.csv":     {"text/csv; charset=utf-8", "CSVWithNames SELECT 1 -- one"},
		"1.parquet": {"application/vnd.apache.parquet", "Parquet SELECT 1 -- one"},
	} {
		a.asked = nil
		got := f.do(http.MethodGet, "/explore/questions/"+name, "", header)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, format[0], got.header.Get("Content-Type"))
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		require.NotEmpty(t, got.header.Get("X-RateLimit-Remaining"), "it counts towards the key's rate limit")
		require.Equal(t, []string{format[1]}, a.asked)
		require.JSONEq(t, `{"meta":[],"data":[]}`, got.body)

		a.asked = nil
		head := f.do(http.MethodHead, "/explore/questions/"+name, "", header)
		require.Equal(t, http.StatusOK, head.status)
		require.Equal(t, format[0], head.header.Get("Content-Type"))
		require.Empty(t, a.asked, "HEAD runs no statement")
	}
	for _, name := range []string{
		"0.json", "2.json", "1.xml", "1", "x.json", "-1.csv", "1.json/x", "99999999999999999999.csv",
	} {
		got := f.do(http.MethodGet, "/explore/questions/"+name, "", header)
		require.Equal(t, http.StatusNotFound, got.status, name)
	}
	require.Equal(t, http.StatusMethodNotAllowed, f.do(http.MethodPost, path, "{}", header).status)
	for _, query := range []string{"/explore/questions/1.json?x=1", "/explore/questions?x=1"} {
		got := f.do(http.MethodGet, query, "", header)
		require.Equal(t, http.StatusBadRequest, got.status, query)
		require.Contains(t, got.detail(), `unknown parameter "x": none are allowed here`)
	}
	enriched := f.do(http.MethodPost, "/v1/person/enrich", `{"codehost":"a"}`, header)
	require.Equal(t, http.StatusForbidden, enriched.status, "the scope is for questions only")
	require.Empty(t, a.asked)
}

func TestQuestions_FailuresAreNotTruncatedFiles(t *testing.T) {
	f, a := startExplore(t)
	analyst := f.newKey(queryapi.KeyOptions{Name: "analyst", Scopes: []string{event.ScopeAnalyze}})
	header := map[string]string{"Authorization": "Bearer " + analyst}
	a.answer = func(io.Writer) error { return errors.New("memory limit: SELECT secret") }
	for _, name := range []string{"1.json", "1.csv"} {
		got := f.do(http.MethodGet, "/explore/questions/"+name, "", header)
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.NotContains(t, got.body, "secret")
	}
	a.answer = func(out io.Writer) error {
		_, err := io.WriteString(out, strings.Repeat("row\n", 10_000))
		return errors.Join(err, errors.New("the engine stopped"))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.service.URL()+"/explore/questions/1.csv", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", header["Authorization"])
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	require.Error(t, err, "the connection breaks")
}
