package queryapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/record"
)

// Walks over two replicas and a restart, while a fifth of the people are refreshed: no other person is returned twice
// or omitted.
func TestSearch_WalkIsCompleteWhileRefreshing(t *testing.T) {
	people := 600
	if !testing.Short() {
		people = 20_000
		if n, err := strconv.Atoi(os.Getenv("MUSTER_TEST_WALK")); err == nil {
			people = n
		}
	}
	var deps queryapi.Deps
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { deps = *d })
	person := func(i, version int) string {
		r := rand.New(rand.NewPCG(uint64(i), uint64(version)))
		words := []string{"data", "engineer"}
		headline := strings.Repeat(words[r.IntN(2)]+" ", 1+r.IntN(3)) + strings.Repeat("word ", r.IntN(12))
		connections := strconv.Itoa(r.IntN(50))
		if r.IntN(10) == 0 {
			connections = "null"
		}
		return fmt.Sprintf(
			`{"profile_id":"w%d","last_updated":"20%02d-%02d-%02d","username":"w%d","headline":%q,"connections":%s}`,
			i, 10+version%80, 1+r.IntN(12), 1+r.IntN(28), i, headline, connections)
	}
	insert := func(from, to, version int) {
		for begin := from; begin < to; begin += 5000 {
			var batch []string
			for i := begin; i < min(begin+5000, to); i++ {
				batch = append(batch, person(i, version))
			}
			f.insert(record.KindNetworkPerson, batch...)
		}
	}
	insert(0, people, 0)
	// replica runs a second service with the same store and secret.
	replica := func() (url string, stop func()) {
		deps.Registerer = nil
		s, err := queryapi.New(t.Context(), queryapi.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()}, deps)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		ready(t, s)
		return s.URL(), func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	second, stop := replica()
	defer func() { stop() }()
	ask := func(url, body string) map[string]any {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/person/search",
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+f.key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		var out map[string]any
		require.NoError(t, json.UnmarshalRead(resp.Body, &out))
		require.Equal(t, http.StatusOK, resp.StatusCode, out)
		return out
	}
	for walk, sort := range []string{`["_score"]`, `[{"profile.connections":"desc"}]`, `["updated_at"]`} {
		body := `{"query":{"match":{"profile.headline":"data engineer"}},"size":100,"_source":false,"sort":` + sort
		seen := make(map[string]int, people)
		refreshed := people / 5
		next, pages := "", people/100+people/500
		for page := 0; ; page++ {
			if page == pages/2 { // a restart in the middle
				stop()
				second, stop = replica()
			}
			if page < pages/2 { // the first fifth is refreshed gradually
				step := refreshed*2/pages + 1
				insert(min(page*step, refreshed), min((page+1)*step, refreshed), walk+1)
			}
			url := f.service.URL()
			if page%2 == 1 {
				url = second
			}
			answer := ask(url, body+next+`}`)
			for _, id := range ids(answer) {
				seen[id]++
			}
			cursor, ok := answer["next_cursor"].(string)
			if !ok {
				break
			}
			next = fmt.Sprintf(`,"cursor":%q`, cursor)
		}
		for i := refreshed; i < people; i++ {
			require.Equal(t, 1, seen["w"+strconv.Itoa(i)], "%s: w%d", sort, i)
		}
	}
}
