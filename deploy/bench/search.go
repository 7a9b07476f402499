package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	queryapi "muster/query-api"
	"muster/schemas/readmodel"
)

// searches are queries of the kind that recruiters and analysts ask.
func searches() []struct{ name, body string } {
	nested := func(query string) string { return `{"nested":{"path":"experience","query":` + query + `}}` }
	return []struct{ name, body string }{
		{"everybody", `{"query":{"match_all":{}}}`},
		{"everybody, newest first", `{"query":{"match_all":{}},"sort":[{"updated_at":"desc"}]}`},
		{"one word of a headline", `{"query":{"match":{"profile.headline":"engineer"}}}`},
		{"two words of a headline", `{"query":{"match":{"profile.headline":"data engineer"}}}`},
		{"two words, both", `{"query":{"match":{"profile.headline":{"query":"data engineer","operator":"and"}}}}`},
		{"four words, three of them", `{"query":{"match":{"profile.headline":{"query":"senior software platform engineer","minimum_should_match":3}}}}`},
		{"a phrase", `{"query":{"match_phrase":{"profile.headline":"software engineer"}}}`},
		{"a phrase with gaps", `{"query":{"match_phrase":{"profile.headline":{"query":"engineer data","slop":3}}}}`},
		{"an unfinished phrase", `{"query":{"match_phrase_prefix":{"profile.headline":"software eng"}}}`},
		{"words as they are typed", `{"query":{"match_bool_prefix":{"profile.headline":"senior eng"}}}`},
		{"a name", `{"query":{"match":{"profile.full_name":"maria garcia"}}}`},
		{"a name with typing mistakes", `{"query":{"match":{"profile.full_name":{"query":"mraia garsia","fuzziness":"AUTO"}}}}`},
		{"a slug", `{"query":{"term":{"network_username.keyword":"nobody-of-this-name"}}}`},
		{"a country", `{"query":{"term":{"profile.location.country.keyword":"Germany"}}}`},
		{"three countries by connections", `{"query":{"terms":{"profile.location.country.keyword":["Germany","France","Spain"]}},"sort":[{"profile.connections":"desc"}]}`},
		{"many connections", `{"query":{"range":{"profile.connections":{"gte":400}}}}`},
		{"many connections, newest first", `{"query":{"range":{"profile.connections":{"gte":400}}},"sort":[{"updated_at":"desc"}]}`},
		{"refreshed this year", `{"query":{"range":{"updated_at":{"gte":"2026-01-01"}}},"size":10}`},
		{"a title, at any time", `{"query":{"match":{"experience.title":"engineer"}}}`},
		{"a title phrase, at any time", `{"query":{"match_phrase":{"experience.title":"software engineer"}}}`},
		{"a title now", `{"query":` + nested(`{"bool":{"must":[{"match":{"experience.title":"engineer"}}],"filter":[{"term":{"experience.is_current":true}}]}}`) + `}`},
		{"a title now, unscored", `{"query":{"bool":{"filter":[` + nested(`{"bool":{"filter":[{"match":{"experience.title":"engineer"}},{"term":{"experience.is_current":true}}]}}`) + `]}}}`},
		{"a title at a company", `{"query":` + nested(`{"bool":{"must":[{"match":{"experience.title":"engineer"}},{"match":{"experience.company_name":"labs"}}]}}`) + `}`},
		{"began lately", `{"query":` + nested(`{"bool":{"filter":[{"match":{"experience.title":"manager"}},{"range":{"experience.start_date":{"gte":"2023"}}}]}}`) + `}`},
		{"a school", `{"query":{"match":{"education.school_name":"university"}}}`},
		{"a degree in a field", `{"query":{"nested":{"path":"education","query":{"bool":{"must":[{"match":{"education.degree":"bachelor"}},{"match":{"education.field_of_study":"computer"}}]}}}}}`},
		{"a certificate", `{"query":{"match":{"certifications.name":"certified"}}}`},
		{"a language", `{"query":{"nested":{"path":"languages","query":{"match":{"languages.language":"german"}}}}}`},
		{"engineers of a country", `{"query":{"bool":{"must":[{"match":{"profile.headline":"engineer"}}],"filter":[{"term":{"profile.location.country.keyword":"Germany"}}]}}}`},
		{"engineers, no managers", `{"query":{"bool":{"must":[{"match":{"profile.headline":"engineer"}}],"must_not":[{"match":{"profile.headline":"manager"}}]}}}`},
		{"engineers with many connections first", `{"query":{"function_score":{"query":{"match":{"profile.headline":"engineer"}},"field_value_factor":{"field":"profile.connections","modifier":"log1p","missing":0}}}}`},
		{"several fields, the best", `{"query":{"multi_match":{"query":"data engineer","fields":["profile.headline^2","profile.summary","experience.title"]}}}`},
		{"several fields, all", `{"query":{"multi_match":{"query":"data engineer","type":"most_fields","fields":["profile.headline","experience.title"]}}}`},
		{"a name over two fields", `{"query":{"multi_match":{"query":"maria garcia","type":"cross_fields","operator":"and","fields":["profile.first_name","profile.last_name"]}}}`},
		{"beginning of a word", `{"query":{"prefix":{"profile.headline":"engin"}}}`},
		{"a wildcard", `{"query":{"wildcard":{"profile.headline":"*script*"}}}`},
		{"a regular expression", `{"query":{"regexp":{"profile.headline":"(java|type)script"}}}`},
		{"a query as text", `{"query":{"query_string":{"query":"(engineer OR developer) AND NOT manager","default_field":"profile.headline"}}}`},
		{"has an e-mail address", `{"query":{"exists":{"field":"profile.personal_email"}}}`},
		{"has no experience", `{"query":{"bool":{"must_not":[{"exists":{"field":"experience.title"}}]}}}`},
	}
}

// measureSearch asks each query alone and from eight callers.
func measureSearch(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.searchBytes(ctx, out); err != nil {
		return err
	}
	return b.serving(ctx, queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, SearchTimeout: 50 * time.Second}, func(base string) error {
		logs := [4]float64{}
		list := searches()
		fmt.Fprintf(out, "  %-40s %9s %9s | %8s %8s | %8s %8s\n", "ms", "total", "first", "1: p50", "p99", "8: p50", "p99")
		for _, q := range list {
			total, first, err := b.search(ctx, base, q.body)
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			var quantiles [4]time.Duration
			for i, callers := range []int{1, 8} {
				calls, err := b.searchMany(ctx, base, q.body, callers, 5*time.Duration(b.seconds)*time.Second/100)
				if err != nil {
					return fmt.Errorf("%s: %w", q.name, err)
				}
				quantiles[2*i], quantiles[2*i+1] = quantile(calls, 0.5), quantile(calls, 0.99)
			}
			for i, d := range quantiles {
				logs[i] += math.Log(ms(d))
			}
			fmt.Fprintf(out, "  %-40s %9d %9.1f | %8.1f %8.1f | %8.1f %8.1f\n", q.name, total, ms(first),
				ms(quantiles[0]), ms(quantiles[1]), ms(quantiles[2]), ms(quantiles[3]))
		}
		n := float64(len(list))
		fmt.Fprintf(out, "  geometric mean of %d queries: 1 caller p50 %.1f ms p99 %.1f ms; 8 callers p50 %.1f ms p99 %.1f ms\n",
			len(list), math.Exp(logs[0]/n), math.Exp(logs[1]/n), math.Exp(logs[2]/n), math.Exp(logs[3]/n))
		return nil
	})
}

// searchBytes says how much of the disk search reads.
func (b *bench) searchBytes(ctx context.Context, out io.Writer) error {
	counts, err := readmodel.Counts(ctx, b.conn)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if c.Table == "search_people" || c.Table == "network_people" {
			fmt.Fprintf(out, "  %s: %d people, %d parts, %d MB\n", c.Table, c.Rows, c.Parts, c.Bytes>>20)
		}
	}
	return nil
}

// searchMany sends one query from so many callers for a while.
func (b *bench) searchMany(ctx context.Context, base, body string, callers int, length time.Duration) ([]time.Duration, error) {
	end := time.Now().Add(length)
	lists := make([][]time.Duration, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for first := true; (first || time.Now().Before(end)) && errs[i] == nil; first = false {
				var took time.Duration
				_, took, errs[i] = b.search(ctx, base, body)
				lists[i] = append(lists[i], took)
			}
		})
	}
	wg.Wait()
	calls := slices.Concat(lists...)
	slices.Sort(calls)
	return calls, errors.Join(errs...)
}

// search asks one query.
func (b *bench) search(ctx context.Context, base, body string) (total int64, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/person/search", bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+b.in.APIKey)
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	text, err := io.ReadAll(resp.Body)
	took = time.Since(begin)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("status %s: %s", resp.Status, text)
	}
	var answer struct {
		Total int64 `json:"total"`
	}
	err = json.Unmarshal(text, &answer)
	return answer.Total, took, err
}
