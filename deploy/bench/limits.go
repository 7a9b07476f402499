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
	short := *b
	short.seconds, short.warm = min(b.seconds, limitsSlice), limitsWarm
	fmt.Fprintf(out, "  POST /v1/person/enrich by username, %d keys; two servers, asked in turns for %d s, %d times each\n", len(q.keys), short.seconds, limitsRounds)
	cfg := queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute}
	uncounted := cfg
	uncounted.Uncounted = true
	return b.serving(ctx, cfg, func(counting string) error {
		return b.serving(ctx, uncounted, func(bare string) error {
			for _, n := range []int{32, 256} {
				if err := short.besideLimits(ctx, q, bare, counting, n, out); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// limitsRounds is odd, so that there is a middle one.
const limitsRounds = 15

// limitsSlice is how long one server is asked at a time, in seconds: what an engine does
// beside its answers changes within minutes, and by more than is to be seen.
const limitsSlice = 4

// limitsWarm is longer than it takes until a usage event is projected: so the work that
// a call leaves behind is measured in the turn of its own server.
const limitsWarm = 3 * time.Second

// besideLimits asks two servers in turns from so many callers, and compares them turn by
// turn.
func (b *bench) besideLimits(ctx context.Context, q question, bare, counting string, callers int, out io.Writer) error {
	var all [2]measurement
	var less, more []float64
	for round := range limitsRounds {
		var now [2]measurement
		for i := range now {
			which := (i + round) % 2 // whoever comes second finds the caches warmer
			m, err := b.ask(ctx, q, []string{bare, counting}[which], callers)
			if err != nil {
				return err
			}
			now[which] = m
			all[which].add(m)
			all[which].elapsed += m.elapsed
			all[which].engine += m.engine
			all[which].bench += m.bench
			all[which].platform += m.platform
			all[which].rss = m.rss
		}
		less = append(less, 100*(1-now[1].rate()/now[0].rate()))
		more = append(more, ms(median(now[1].calls)-median(now[0].calls)))
	}
	fmt.Fprintf(out, "  %-38s %s\n", arrangement(true, callers), all[0])
	fmt.Fprintf(out, "  %-38s %s\n", arrangement(false, callers), all[1])
	slices.Sort(less)
	slices.Sort(more)
	quarter := limitsRounds / 4
	fmt.Fprintf(out, "  at %d callers: %.1f%% of the throughput less (turn by turn %.1f, half of them between %.1f and %.1f), p50 %+.2f ms (%+.2f, %+.2f to %+.2f)\n",
		callers, 100*(1-all[1].rate()/all[0].rate()), less[limitsRounds/2], less[quarter], less[limitsRounds-1-quarter],
		ms(median(all[1].calls)-median(all[0].calls)), more[limitsRounds/2], more[quarter], more[limitsRounds-1-quarter])
	for which, m := range all {
		each := func(cpu time.Duration) float64 { return ms(cpu) / float64(m.asked) }
		fmt.Fprintf(out, "  %-38s CPU ms a call: engine %.3f, API and callers %.3f, broker and projector %.3f (%d calls)\n",
			arrangement(which == 0, callers), each(m.engine), each(m.bench), each(m.platform), m.asked)
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
