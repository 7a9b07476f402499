package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// searches returns typical queries of recruiters and analysts.
func searches() []struct{ name, body string } {
	nested := func(query string) string { return `{"nested":{"path":"experience","query":` + query + `}}` }
	return []struct{ name, body string }{
		{"all people", `{"query":{"match_all":{}}}`},
		{"all people, newest first", `{"query":{"match_all":{}},"sort":[{"updated_at":"desc"}]}`},
		{"one word of a headline", `{"query":{"match":{"profile.headline":"engineer"}}}`},
		{"two words of a headline", `{"query":{"match":{"profile.headline":"data engineer"}}}`},
		{"two words, both required", `{"query":{"match":{"profile.headline":{"query":"data engineer","operator":"and"}}}}`},
		{"four words, three required",
			`{"query":{"match":{"profile.headline":{"query":"senior software platform engineer",` +
				`"minimum_should_match":3}}}}`},
		{"a phrase", `{"query":{"match_phrase":{"profile.headline":"software engineer"}}}`},
		{"a phrase with gaps", `{"query":{"match_phrase":{"profile.headline":{"query":"engineer data","slop":3}}}}`},
		{"a phrase prefix", `{"query":{"match_phrase_prefix":{"profile.headline":"software eng"}}}`},
		{"words while typing", `{"query":{"match_bool_prefix":{"profile.headline":"senior eng"}}}`},
		{"a name", `{"query":{"match":{"profile.full_name":"maria garcia"}}}`},
		{"a name with typing mistakes",
			`{"query":{"match":{"profile.full_name":{"query":"mraia garsia","fuzziness":"AUTO"}}}}`},
		{"a slug", `{"query":{"term":{"network_username.keyword":"no-such-username"}}}`},
		{"a country", `{"query":{"term":{"profile.location.country.keyword":"Germany"}}}`},
		{"three countries by connections",
			`{"query":{"terms":{"profile.location.country.keyword":["Germany","France","Spain"]}},` +
				`"sort":[{"profile.connections":"desc"}]}`},
		{"many connections", `{"query":{"range":{"profile.connections":{"gte":400}}}}`},
		{"many connections, newest first",
			`{"query":{"range":{"profile.connections":{"gte":400}}},"sort":[{"updated_at":"desc"}]}`},
		{"refreshed this year", `{"query":{"range":{"updated_at":{"gte":"2026-01-01"}}},"size":10}`},
		{"a title, at any time", `{"query":{"match":{"experience.title":"engineer"}}}`},
		{"a title phrase, at any time", `{"query":{"match_phrase":{"experience.title":"software engineer"}}}`},
		{"a title now", `{"query":` +
			nested(`{"bool":{"must":[{"match":{"experience.title":"engineer"}}],`+
				`"filter":[{"term":{"experience.is_current":true}}]}}`) + `}`},
		{"a title now, unscored", `{"query":{"bool":{"filter":[` +
			nested(`{"bool":{"filter":[{"match":{"experience.title":"engineer"}},`+
				`{"term":{"experience.is_current":true}}]}}`) + `]}}}`},
		{"a title at a company", `{"query":` +
			nested(`{"bool":{"must":[{"match":{"experience.title":"engineer"}},`+
				`{"match":{"experience.company_name":"labs"}}]}}`) + `}`},
		{"began lately", `{"query":` +
			nested(`{"bool":{"filter":[{"match":{"experience.title":"manager"}},`+
				`{"range":{"experience.start_date":{"gte":"2023"}}}]}}`) + `}`},
		{"a school", `{"query":{"match":{"education.school_name":"university"}}}`},
		{"a degree in a field",
			`{"query":{"nested":{"path":"education",` +
				`"query":{"bool":{"must":[{"match":{"education.degree":"bachelor"}},` +
				`{"match":{"education.field_of_study":"computer"}}]}}}}}`},
		{"a certificate", `{"query":{"match":{"certifications.name":"certified"}}}`},
		{"a language", `{"query":{"nested":{"path":"languages","query":{"match":{"languages.language":"german"}}}}}`},
		{"engineers of a country",
			`{"query":{"bool":{"must":[{"match":{"profile.headline":"engineer"}}],` +
				`"filter":[{"term":{"profile.location.country.keyword":"Germany"}}]}}}`},
		{"engineers without managers",
			`{"query":{"bool":{"must":[{"match":{"profile.headline":"engineer"}}],` +
				`"must_not":[{"match":{"profile.headline":"manager"}}]}}}`},
		{"engineers with many connections first",
			`{"query":{"function_score":{"query":{"match":{"profile.headline":"engineer"}},` +
				`"field_value_factor":{"field":"profile.connections","modifier":"log1p","missing":0}}}}`},
		{"several fields, the best",
			`{"query":{"multi_match":{"query":"data engineer","fields":["profile.headline^2","profile.summary",` +
				`"experience.title"]}}}`},
		{"several fields, all",
			`{"query":{"multi_match":{"query":"data engineer","type":"most_fields","fields":["profile.headline",` +
				`"experience.title"]}}}`},
		{"a name over two fields",
			`{"query":{"multi_match":{"query":"maria garcia","type":"cross_fields","operator":"and",` +
				`"fields":["profile.first_name","profile.last_name"]}}}`},
		{"prefix of a word", `{"query":{"prefix":{"profile.headline":"engin"}}}`},
		{"a wildcard", `{"query":{"wildcard":{"profile.headline":"*script*"}}}`},
		{"a regular expression", `{"query":{"regexp":{"profile.headline":"(java|type)script"}}}`},
		{"a query as text",
			`{"query":{"query_string":{"query":"(engineer OR developer) AND NOT manager",` +
				`"default_field":"profile.headline"}}}`},
		{"has an e-mail address", `{"query":{"exists":{"field":"profile.personal_email"}}}`},
		{"has no experience", `{"query":{"bool":{"must_not":[{"exists":{"field":"experience.title"}}]}}}`},
	}
}

// wideSearches returns texts over all fields, as typed into a search box. They run separately from the others, and with
// one caller: eight would queue for longer than a search may take.
func wideSearches() []struct{ name, body string } {
	return []struct{ name, body string }{
		{"data", `{"query":{"multi_match":{"query":"data"}}}`},
		{"data engineer", `{"query":{"multi_match":{"query":"data engineer"}}}`},
		{"data engineer, as a filter", `{"query":{"bool":{"filter":{"multi_match":{"query":"data engineer"}}}}}`},
		{"maria garcia", `{"query":{"multi_match":{"query":"maria garcia"}}}`},
		{"product manager london, each in any field",
			`{"query":{"multi_match":{"query":"product manager london","type":"cross_fields"}}}`},
		{"software engineer google new york",
			`{"query":{"multi_match":{"query":"software engineer google new york"}}}`},
		{"the phrase data engineer", `{"query":{"multi_match":{"query":"data engineer","type":"phrase"}}}`},
		{"senior data engineer, as text", `{"query":{"query_string":{"query":"senior data engineer"}}}`},
		{"\"data engineer\" AND berlin, as text",
			`{"query":{"query_string":{"query":"\"data engineer\" AND berlin"}}}`},
		{"data engineer berlin, as simple text", `{"query":{"simple_query_string":{"query":"data engineer berlin"}}}`},
	}
}

// searchable is a target for queries, and their form.
type searchable struct {
	client *http.Client
	url    string
	header http.Header
	// body builds a request from a query, total parses the total in a response.
	body  func(query string) string
	total func(answer []byte) (int64, error)
}

// many sends one query from a number of callers for a while, and returns the sorted durations of the calls.
func (s *searchable) many(ctx context.Context, query string, callers int,
	length time.Duration) ([]time.Duration, error) {
	end := time.Now().Add(length)
	lists := make([][]time.Duration, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for first := true; (first || time.Now().Before(end)) && errs[i] == nil; first = false {
				var took time.Duration
				_, took, errs[i] = s.ask(ctx, query)
				lists[i] = append(lists[i], took)
			}
		})
	}
	wg.Wait()
	calls := slices.Concat(lists...)
	slices.Sort(calls)
	return calls, errors.Join(errs...)
}

// send sends one query, and returns the response.
func (s *searchable) send(ctx context.Context, query string) (status int, text []byte, err error) {
	//nolint:gosec // servers of the bench
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(s.body(query)))
	if err != nil {
		return 0, nil, err
	}
	req.Header = s.header.Clone()
	resp, err := s.client.Do(req) //nolint:gosec // see above
	if err != nil {
		return 0, nil, err
	}
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, errors.Join(err, resp.Body.Close())
}

// ask sends one query, which must succeed.
func (s *searchable) ask(ctx context.Context, query string) (total int64, took time.Duration, err error) {
	begin := time.Now()
	status, text, err := s.send(ctx, query)
	took = time.Since(begin)
	switch {
	case err != nil:
		return 0, 0, err
	case status != http.StatusOK:
		return 0, 0, fmt.Errorf("status %d: %.600s", status, text)
	}
	total, err = s.total(text)
	return total, took, err
}

// facetSearches returns the calls with which /explore counts the facets of a view: of everyone, and of texts that are
// typed into its search box, without the fields of linked accounts, which the load of part search does not write.
func facetSearches() []struct{ name, body string } {
	const facets = `"size":0,"aggs":{` +
		`"Country":{"terms":{"field":"profile.location.country.keyword","size":8}},` +
		`"Title":{"terms":{"field":"experience.title.keyword","size":8}},` +
		`"Company":{"terms":{"field":"experience.company_name.keyword","size":8}},` +
		`"School":{"terms":{"field":"education.school_name.keyword","size":8}},` +
		`"Language":{"terms":{"field":"languages.language.keyword","size":8}}}}`
	const fields = `"fields":["profile.full_name","profile.headline","profile.summary","profile.location.raw_address",` +
		`"experience.title","experience.company_name","experience.location","experience.description",` +
		`"education.school_name","education.degree","education.field_of_study","certifications.name",` +
		`"languages.language","skills.skill","network_username"]`
	list := []struct{ name, body string }{{"everyone", `{"query":{"match_all":{}},` + facets}}
	for _, text := range []string{
		"data engineer", "product manager", "compiler", "sales director", "designer", "nurse", "marketing", "teacher",
		"accountant", "maria garcia", "software berlin",
	} {
		list = append(list, struct{ name, body string }{text, `{"query":{"simple_query_string":{"query":"` + text +
			`","default_operator":"and",` + fields + `}},` + facets})
	}
	return list
}
