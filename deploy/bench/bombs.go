package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	queryapi "muster/query-api"
	"muster/query-api/adversarialtest"
)

// searchBombs returns requests that are as expensive as a query may be.
func searchBombs() []string {
	list := adversarialtest.Queries()
	for i, q := range list {
		list[i] = `{"query":` + q + `}`
	}
	return list
}

// bombLimit is the maximum duration of a bomb that runs alone.
const bombLimit = 2 * time.Second

// measureEachBomb sends the bombs one by one.
func measureEachBomb(ctx context.Context, s *searchable, out io.Writer) error {
	list := searchBombs()
	took := make([]time.Duration, len(list))
	counts := map[int]int{}
	for i, bomb := range list {
		began := time.Now()
		status, text, err := s.send(ctx, bomb)
		if err != nil {
			return err
		}
		took[i] = time.Since(began)
		counts[status]++
		if !harmless(status) {
			fmt.Fprintf(out, "  answered with %d: %.120s: %.200s\n", status, bomb, text)
		}
		if took[i] > bombLimit {
			fmt.Fprintf(out, "  took %.2f s (%d): %.120s\n", took[i].Seconds(), status, bomb)
		}
	}
	slices.Sort(took)
	over := 0
	for _, d := range took {
		if d > bombLimit {
			over++
		}
	}
	fmt.Fprintf(out,
		"  %d expensive queries, one at a time: %d answered, %d rejected, %d with another status; the slowest took %.2f s, %d "+
			"longer than %v (bar: none)\n",
		len(list), counts[http.StatusOK], counts[http.StatusBadRequest]+counts[http.StatusRequestEntityTooLarge],
		len(list)-counts[http.StatusOK]-counts[http.StatusBadRequest]-counts[http.StatusRequestEntityTooLarge],
		took[len(took)-1].Seconds(), over, bombLimit)
	return nil
}

// harmless reports whether a bomb may get a status.
func harmless(status int) bool {
	return status == http.StatusOK || status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge
}

// bombRuns is the number of measurements of normal queries with and without bombs, alternating.
const bombRuns = 5

// measureBombs measures normal queries at 30% of the machine's capacity, with and without two bombs running.
func measureBombs(ctx context.Context, b *bench, out io.Writer) error {
	return b.serving(ctx, queryapi.Config{Addr: "127.0.0.1:0"}, func(base string) error {
		s := b.musterSearch(base)
		if err := measureEachBomb(ctx, s, out); err != nil {
			return err
		}
		normal := func(i int) string {
			list := searches()
			return list[i*7%len(list)].body
		}
		began, asked := time.Now(), 0
		for time.Since(began) < time.Duration(b.seconds)*time.Second/2 {
			if _, _, err := s.ask(ctx, normal(asked)); err != nil {
				return err
			}
			asked++
		}
		pause := time.Duration(float64(time.Since(began)) / float64(asked) / 0.3)
		fmt.Fprintf(out, "  one caller gets %.0f answers a second; a normal query every %v\n",
			float64(asked)/time.Since(began).Seconds(), pause.Round(time.Millisecond))
		var quiet, loud []time.Duration
		for range bombRuns {
			p99, err := b.atFixedRate(ctx, s, normal, pause)
			if err != nil {
				return err
			}
			quiet = append(quiet, p99)
			stop := bombs(ctx, s)
			p99, err = b.atFixedRate(ctx, s, normal, pause)
			if err := errors.Join(err, stop(out)); err != nil {
				return err
			}
			loud = append(loud, p99)
		}
		slices.Sort(quiet)
		slices.Sort(loud)
		before, beside := quiet[bombRuns/2], loud[bombRuns/2]
		fmt.Fprintf(out, "  p99 of normal queries, median of %d runs: %.1f ms, beside two bombs %.1f ms (bar: %.1f)\n",
			bombRuns, ms(before), ms(beside),
			max(1.5*ms(before), ms(before)+20))
		return nil
	})
}

// atFixedRate sends normal queries at a fixed rate, whether earlier ones are answered or not, and returns the 99th
// percentile of their latency.
func (b *bench) atFixedRate(ctx context.Context, s *searchable, normal func(i int) string,
	pause time.Duration) (time.Duration, error) {
	n := max(20, int(time.Duration(b.seconds)*time.Second/2/pause))
	took, errs := make([]time.Duration, n), make([]error, n)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var wg sync.WaitGroup
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			errs[i] = ctx.Err()
		}
		wg.Go(func() {
			if errs[i] == nil {
				_, took[i], errs[i] = s.ask(ctx, normal(i))
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return quantile(took, 0.99), errors.Join(errs...)
}

// bombs sends two bombs at a time until stop is called. Rejections count as answers, also those of the admission queue.
func bombs(ctx context.Context, s *searchable) (stop func(out io.Writer) error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	longest, counts, waited := make([]time.Duration, 2), make([]int, 2), make([]int, 2)
	errs := make([]error, 2)
	list := searchBombs()
	for i := range 2 {
		wg.Go(func() {
			for n := 61 * i; ctx.Err() == nil && errs[i] == nil; n++ { // from two positions in the list
				began := time.Now()
				status, _, err := s.send(ctx, list[n%len(list)])
				switch {
				case ctx.Err() != nil:
				case err != nil:
					errs[i] = err
				case !harmless(status) && status != http.StatusServiceUnavailable:
					errs[i] = fmt.Errorf("a bomb got the status %d", status)
				default:
					longest[i], counts[i] = max(longest[i], time.Since(began)), counts[i]+1
					if status == http.StatusServiceUnavailable {
						waited[i]++
					}
				}
			}
		})
	}
	return func(out io.Writer) error {
		cancel()
		wg.Wait()
		fmt.Fprintf(out,
			"  %d bombs answered or rejected, %d of them after waiting for the other one, the slowest in %.1f s\n",
			counts[0]+counts[1], waited[0]+waited[1], max(longest[0], longest[1]).Seconds())
		return errors.Join(errs...)
	}
}
