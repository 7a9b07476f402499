package main

import (
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
	fmt.Fprintf(out, "  POST /v1/person/enrich by username, %d keys; %d s each, the better of two runs in turns\n", len(q.keys), b.seconds)
	best := make(map[string]measurement)
	callers := []int{32, 256}
	for range 2 {
		for _, off := range []bool{true, false} {
			err := b.serving(ctx, queryapi.Config{
				Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute, Uncounted: off,
			}, func(base string) error {
				for _, n := range callers {
					m, err := b.ask(ctx, q, base, n)
					if err != nil {
						return err
					}
					name := arrangement(off, n)
					if m.rate() > best[name].rate() || best[name].elapsed == 0 {
						best[name] = m
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, n := range callers {
		off, on := best[arrangement(true, n)], best[arrangement(false, n)]
		fmt.Fprintf(out, "  %-38s %s\n", arrangement(true, n), off)
		fmt.Fprintf(out, "  %-38s %s\n", arrangement(false, n), on)
		fmt.Fprintf(out, "  at %d callers: %.1f%% of the throughput less, p50 %+.2f ms\n",
			n, 100*(1-on.rate()/off.rate()), ms(median(on.calls)-median(off.calls)))
	}
	return nil
}

func arrangement(off bool, callers int) string {
	return fmt.Sprintf("limits and metering %s, %d callers", map[bool]string{true: "off", false: "on"}[off], callers)
}

func median(calls []time.Duration) time.Duration {
	slices.Sort(calls)
	return quantile(calls, 0.5)
}
