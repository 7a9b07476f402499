package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	queryapi "muster/query-api"
)

// measureLimits compares the enrich endpoint with itself, authentication,
// limits and metering off.
func measureLimits(ctx context.Context, b *bench, out io.Writer) error {
	usernames, err := b.strings(ctx, `SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	q := question{
		keys: usernames,
		request: func(ctx context.Context, base, key string) (*http.Request, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/person/enrich", strings.NewReader(`{"codehost":"`+key+`"}`))
			if err == nil {
				req.Header.Set("Content-Type", "application/json")
			}
			return req, err
		},
	}
	fmt.Fprintf(out, "  POST /v1/person/enrich by username, %d keys; %d s each, the medians of %d runs in turns\n", len(q.keys), b.seconds, limitsRounds)
	runs := make(map[string][]measurement)
	callers := []int{32, 256}
	for round := range limitsRounds {
		first := round%2 == 0 // whoever comes second finds the caches warmer
		for _, off := range []bool{first, !first} {
			err := b.serving(ctx, queryapi.Config{
				Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute, Uncounted: off,
			}, func(base string) error {
				for _, n := range callers {
					m, err := b.ask(ctx, q, base, n)
					if err != nil {
						return err
					}
					name := arrangement(off, n)
					runs[name] = append(runs[name], m)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, n := range callers {
		var less, more []float64 // round by round
		for round := range limitsRounds {
			off, on := runs[arrangement(true, n)][round], runs[arrangement(false, n)][round]
			less = append(less, 100*(1-on.rate()/off.rate()))
			more = append(more, ms(median(on.calls)-median(off.calls)))
		}
		for _, off := range []bool{true, false} {
			all := runs[arrangement(off, n)]
			slices.SortFunc(all, func(a, b measurement) int { return cmp.Compare(a.rate(), b.rate()) })
			fmt.Fprintf(out, "  %-38s %s\n", arrangement(off, n), all[len(all)/2])
		}
		slices.Sort(less)
		slices.Sort(more)
		last := limitsRounds - 1
		fmt.Fprintf(out, "  at %d callers: %.1f%% of the throughput less (%.1f to %.1f), p50 %+.2f ms (%+.2f to %+.2f)\n",
			n, less[last/2], less[0], less[last], more[last/2], more[0], more[last])
	}
	return nil
}

// limitsRounds is odd, so that there is a middle one.
const limitsRounds = 7

func arrangement(off bool, callers int) string {
	return fmt.Sprintf("limits and metering %s, %d callers", map[bool]string{true: "off", false: "on"}[off], callers)
}

func median(calls []time.Duration) time.Duration {
	slices.Sort(calls)
	return quantile(calls, 0.5)
}
