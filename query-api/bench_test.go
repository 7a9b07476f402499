package queryapi_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// benchPeople is the number of linked account pairs in the store of the benchmarks. Benchmarks of the platform use
// larger data sets; this one is for CPU profiles.
const benchPeople = 10_000

func benchStore(b *testing.B, change func(*queryapi.Config, *queryapi.Deps)) *fixture {
	b.Helper()
	f := start(b, func(cfg *queryapi.Config, deps *queryapi.Deps) {
		deps.Logger = slog.New(slog.DiscardHandler)
		if change != nil {
			change(cfg, deps)
		}
	})
	summary := strings.Repeat("Compilers and kites. ", 40)
	for from := 0; from < benchPeople; from += 5000 {
		var codehost, network []string
		for i := from; i < from+5000; i++ {
			codehost = append(codehost,
				codehostPerson(i, fmt.Sprintf("user-%d", i), "2026-01-01",
					fmt.Sprintf(`"network_username":"slug-%d","bio":%q`, i, summary)))
			network = append(network,
				networkPerson(fmt.Sprintf("p%d", i), fmt.Sprintf("slug-%d", i), "2026-01-01",
					fmt.Sprintf(`"codehost_username":"user-%d","summary":%q`, i, summary)))
		}
		f.insert(record.KindCodehostPerson, codehost...)
		f.insert(record.KindNetworkPerson, network...)
	}
	return f
}

// BenchmarkEnrich measures enrichment of uniformly random people at the handler.
func BenchmarkEnrich(b *testing.B) {
	f := benchStore(b, nil)
	for _, tc := range []struct{ name, websets string }{{"codehost", `["codehost"]`},
		{"both", `["codehost","network"]`}} {
		for _, callers := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("%s/%d", tc.name, callers), func(b *testing.B) {
				handler := f.service.Handler()
				before := f.queries(readmodel.AnswersTable)
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for range callers {
					wg.Go(func() {
						for next.Add(1) <= int64(b.N) {
							r := httptest.NewRequest(http.MethodPost, enrichPath,
								strings.NewReader(fmt.Sprintf(`{"codehost":"user-%d","websets":%s}`,
									rand.IntN(benchPeople), tc.websets)))
							r.Header.Set("Authorization", "Bearer "+f.key)
							r.Header.Set("Content-Type", "application/json")
							w := httptest.NewRecorder()
							handler.ServeHTTP(w, r)
							if w.Code != http.StatusOK || w.Body.Len() < 500 {
								b.Errorf("%d %s", w.Code, w.Body)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
				b.ReportMetric(float64(b.N)/float64(f.queries(readmodel.AnswersTable)-before), "keys/query")
			})
		}
	}
}

// BenchmarkEnrichItems measures calls with 100 people, for comparison with BenchmarkEnrich.
func BenchmarkEnrichItems(b *testing.B) {
	f := benchStore(b, nil)
	for _, callers := range []int{1, 8} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			handler := f.service.Handler()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			for range callers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						items := make([]string, 100)
						for i := range items {
							items[i] = fmt.Sprintf(`{"codehost":"user-%d","websets":["codehost","network"]}`,
								rand.IntN(benchPeople))
						}
						r := httptest.NewRequest(http.MethodPost, enrichPath, strings.NewReader(withItems(items...)))
						r.Header.Set("Authorization", "Bearer "+f.key)
						r.Header.Set("Content-Type", "application/json")
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, r)
						if w.Code != http.StatusOK || w.Body.Len() < 50_000 {
							b.Errorf("%d %.1000s", w.Code, w.Body)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "answers/s")
		})
	}
}

// BenchmarkBadInput measures a rejected request.
func BenchmarkBadInput(b *testing.B) {
	f := start(b, func(_ *queryapi.Config, deps *queryapi.Deps) { deps.Logger = slog.New(slog.DiscardHandler) })
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, enrichPath, strings.NewReader(`{"codehst":"x"}`))
		r.Header.Set("Authorization", "Bearer "+f.key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.service.Handler().ServeHTTP(w, r)
		require.Equal(b, http.StatusUnprocessableEntity, w.Code)
	}
}
