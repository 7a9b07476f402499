package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	queryapi "muster/query-api"
)

// measureLimits compares the enrich endpoint with and without authentication, limits and metering.
func measureLimits(ctx context.Context, b *bench, out io.Writer) error {
	if err := b.sayGrown(ctx, out); err != nil {
		return err
	}
	usernames, err := b.strings(ctx, `SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	q := question{keys: usernames, request: accountRequest}
	short := *b
	short.seconds, short.warm = min(b.seconds, limitsSlice), limitsWarm
	fmt.Fprintf(out, "  POST /v1/person/enrich by username, %d keys; two servers, alternating every %d s after %s\n",
		len(q.keys), short.seconds, short.warm)
	cfg := queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute}
	uncounted := cfg
	uncounted.Unmetered = true
	return b.serving(ctx, cfg, func(counting string) error {
		return b.serving(ctx, uncounted, func(bare string) error {
			c := comparison{q: q, servers: [2]string{bare, counting}}
			saturated, err := short.compareTurns(ctx, c, 32, limitsRounds, out)
			if err != nil {
				return err
			}
			atFixedRate := short
			atFixedRate.every = time.Duration(32 / (limitsLoad * saturated.rate()) * float64(time.Second))
			if _, err := atFixedRate.compareTurns(ctx, c, 32, limitsPacedRounds, out); err != nil {
				return err
			}
			_, err = short.compareTurns(ctx, c, 256, limitsManyRounds, out)
			return err
		})
	})
}

// The rounds of the comparisons. Together, with two turns per round, they take 13 minutes.
const (
	limitsRounds      = 20
	limitsPacedRounds = 10
	limitsManyRounds  = 6
)

// limitsSlice is the duration of a server's turn, in seconds: the interval of inserts of usage events, so that each
// turn has one. Background work of an engine changes within minutes, and by more than the difference to measure.
const limitsSlice = 5

// limitsWarm is longer than the projection of a usage event takes, so that the work after a call is measured in the
// turn of its own server.
const limitsWarm = 6 * time.Second

// limitsLoad is the load of callers with pauses, as in production, relative to the throughput of 32 callers without.
const limitsLoad = 0.3

// comparison compares a server without limits and metering with one that has them.
type comparison struct {
	q       question
	servers [2]string
}

// compareTurns measures both servers alternately with a number of callers, and compares them turn by turn. It
// returns the measurement of the server without metering.
func (b *bench) compareTurns(ctx context.Context, c comparison, callers, rounds int,
	out io.Writer) (measurement, error) {
	var all [2]measurement
	figures := []struct {
		name string
		of   func(measurement) float64
		by   []float64
	}{
		{name: "% less throughput", of: func(m measurement) float64 { return m.rate() }},
		{name: "ms more at p50", of: func(m measurement) float64 { return ms(quantile(m.calls, 0.5)) }},
		{name: "ms more on average", of: func(m measurement) float64 { return ms(mean(m.calls)) }},
		{name: "ms more CPU per call: API and callers",
			of: func(m measurement) float64 { return ms(m.bench) / float64(m.asked) }},
		{name: "ms more CPU per call: broker, projector",
			of: func(m measurement) float64 { return ms(m.platform) / float64(m.asked) }},
		{name: "ms more CPU per call: engine",
			of: func(m measurement) float64 { return ms(m.engine) / float64(m.asked) }},
	}
	for round := range rounds {
		var now [2]measurement
		turn := *b
		turn.draw = uint64(round) // both servers get the same requests
		for i := range now {
			which := (i + round) % 2 // the second one has warmer caches
			m, err := turn.ask(ctx, c.q, c.servers[which], callers)
			if err != nil {
				return m, err
			}
			slices.Sort(m.calls)
			now[which] = m
			all[which].addTurn(m)
		}
		for i := range figures {
			f := &figures[i]
			without, with := f.of(now[0]), f.of(now[1])
			if i == 0 {
				f.by = append(f.by, 100*(1-with/without))
			} else {
				f.by = append(f.by, with-without)
			}
		}
	}
	how := fmt.Sprintf("%d callers", callers)
	if b.every > 0 {
		how += fmt.Sprintf(", each every %d ms", b.every.Milliseconds())
	}
	fmt.Fprintf(out, "\n  %s, %d turns each\n", how, rounds)
	for which, what := range []string{"off", "on"} {
		fmt.Fprintf(out, "  %-24s %s\n", "limits and metering "+what, all[which])
	}
	for i, f := range figures {
		e := estimateDifference(f.by)
		fmt.Fprintf(out, "  %8.3f %s (95 %%: %.3f to %.3f)\n", e.shift, f.name, e.low, e.high)
		if i == 4 && b.every == 0 {
			both := make([]float64, rounds)
			for r := range both {
				both[r] = (figures[3].by[r] + f.by[r]) * float64(callers) / float64(runtime.NumCPU())
			}
			e := estimateDifference(both)
			fmt.Fprintf(out,
				"  %8.3f ms more: the average of these two with %d callers on %d busy cores (95 %%: %.3f "+
					"to %.3f)\n",
				e.shift, callers, runtime.NumCPU(), e.low, e.high)
		}
	}
	return all[0], nil
}

// mean returns the mean of calls, which must not be empty.
func mean(calls []time.Duration) time.Duration {
	var sum time.Duration
	for _, c := range calls {
		sum += c
	}
	return sum / time.Duration(len(calls))
}
