package main

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/service"
	queryapi "muster/query-api"
	"muster/schemas/suppress"
)

// question is one kind of request, asked with uniformly drawn keys.
type question struct {
	about string
	keys  []string
	// request asks for one key.
	request func(ctx context.Context, base, key string) (*http.Request, error)
	// bare reads what the answers for keys need straight from the tables, with
	// one IN query a table and step, and returns how many of them have a record.
	bare func(ctx context.Context, keys []string) (found int, err error)
}

// miss is what an answer without a record begins with.
func miss(body []byte) bool {
	return bytes.Equal(body, []byte("{}")) || bytes.HasPrefix(body, []byte(`{"websets_matched":[]`))
}

func measureEnrich(ctx context.Context, b *bench, out io.Writer) error {
	usernames, err := b.strings(ctx, `SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	return b.compare(ctx, out, question{
		about: "by code-host username, both websets",
		keys:  usernames,
		request: func(ctx context.Context, base, key string) (*http.Request, error) {
			body, err := json.Marshal(map[string]any{"codehost": key, "websets": []string{"codehost", "network"}})
			if err != nil {
				return nil, err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/person/enrich", bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			req.Header.Set("Content-Type", "application/json")
			return req, nil
		},
		bare: b.bareEnrich,
	})
}

func measureAddons(ctx context.Context, b *bench, out io.Writer) error {
	profiles, err := b.strings(ctx, `SELECT username FROM network_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	return b.compare(ctx, out, question{
		about: "network webset by username, add-ons codehost and personal_email",
		keys:  profiles,
		request: func(ctx context.Context, base, key string) (*http.Request, error) {
			q := url.Values{"network": {key}, "addons": {"codehost,personal_email"}}
			return http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/webset/network/person?"+q.Encode(), nil)
		},
		bare: b.bareAddons,
	})
}

// compare asks a question in three arrangements that read the same columns of
// the same tables: bare IN queries of 128 keys; one query a table and step for
// each request, straight from the tables, without HTTP; and the API, which
// gathers the lookups of concurrent requests.
func (b *bench) compare(ctx context.Context, out io.Writer, q question) error {
	fmt.Fprintf(out, "  %s; %d keys, drawn uniformly, no result cache; %d s each\n", q.about, len(q.keys), b.seconds)
	if len(q.keys) == 0 {
		return errors.New("there are no keys to ask for")
	}
	bare, err := b.measureBare(ctx, q, 2, 128)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %-38s %s\n", "bare IN queries of 128 keys, 2 at a time", bare)
	callers := []int{1, 32, 256}
	var single []measurement
	for _, n := range callers {
		m, err := b.measureBare(ctx, q, n, 1)
		if err != nil {
			return err
		}
		single = append(single, m)
		fmt.Fprintf(out, "  %-38s %s\n", fmt.Sprintf("one query a request, %d callers", n), m)
	}
	return b.serving(ctx, queryapi.Config{
		Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute,
	}, func(base string) error {
		for i, n := range callers {
			m, err := b.ask(ctx, q, base, n)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "  %-38s %s\n", fmt.Sprintf("gathered, over HTTP, %d callers", n), m)
			fmt.Fprintf(out, "  ratio at %d callers: %.1f times one query a request, %.2f of the bare keys a second\n",
				n, m.rate()/single[i].rate(), m.rate()/bare.rate())
		}
		return nil
	})
}

// serving runs a query-api of its own over the same ClickHouse.
func (b *bench) serving(ctx context.Context, cfg queryapi.Config, do func(base string) error) error {
	return b.servingWith(ctx, cfg, nil, do)
}

// servingWith is serving with who was erased.
func (b *bench) servingWith(ctx context.Context, cfg queryapi.Config, suppressed *suppress.Set, do func(base string) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if cfg.DataDir, err = os.MkdirTemp("", "muster-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.DataDir)) }()
	secret, err := service.NewRootSecret([]byte(cryptorand.Text() + cryptorand.Text()))
	if err != nil {
		return err
	}
	api, err := queryapi.New(ctx, cfg, queryapi.Deps{
		Secret: secret, ClickHouse: b.conn, Bus: b.kafka, Logger: b.logger, Registerer: prometheus.NewRegistry(), Suppressed: suppressed,
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- api.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	for api.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return do(api.URL())
}

// ask sends requests from so many callers, each its next as soon as it has the
// answer, for the length of a measurement after a fifth of it to warm up.
func (b *bench) ask(ctx context.Context, q question, base string, callers int) (measurement, error) {
	client := &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true},
		Timeout:   time.Minute,
	}
	defer client.CloseIdleConnections()
	return b.timed(ctx, callers, 1, func(ctx context.Context, rng *rand.Rand) (int, error) {
		req, err := q.request(ctx, base, q.keys[rng.IntN(len(q.keys))])
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+b.in.APIKey)
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return 0, err
		}
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("status %s: %s", resp.Status, body)
		}
		if miss(body) {
			return 0, nil
		}
		return 1, nil
	})
}

func (b *bench) measureBare(ctx context.Context, q question, callers, batch int) (measurement, error) {
	return b.timed(ctx, callers, batch, func(ctx context.Context, rng *rand.Rand) (int, error) {
		keys := make([]string, batch)
		for i := range keys {
			keys[i] = q.keys[rng.IntN(len(q.keys))]
		}
		return q.bare(ctx, keys)
	})
}

// timed calls do from so many goroutines over and over, or every so often. each is the number of
// keys that one call asks for; do returns how many of them were found.
func (b *bench) timed(ctx context.Context, callers, each int, do func(context.Context, *rand.Rand) (int, error)) (measurement, error) {
	length := time.Duration(b.seconds) * time.Second
	warm := max(length/5, b.warm)
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg        sync.WaitGroup
		mu        sync.Mutex
		all       measurement
		measuring atomic.Bool
		failed    error
	)
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(b.seed, uint64(c)|b.draw<<32))
			var mine measurement
			next := time.Now()
			for ctx.Err() == nil {
				if b.every > 0 {
					next = next.Add(time.Duration(rng.ExpFloat64() * float64(b.every)))
					pause(ctx, time.Until(next))
				}
				counts := measuring.Load()
				began := time.Now()
				found, err := do(ctx, rng)
				if err != nil {
					if ctx.Err() == nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						cancel()
					}
					break
				}
				if counts && measuring.Load() {
					mine.calls = append(mine.calls, time.Since(began))
					mine.asked += each
					mine.found += found
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(mine)
		})
	}
	pause(ctx, warm)
	before, err := b.cpu()
	if err != nil {
		cancel()
	}
	measuring.Store(true)
	began := time.Now()
	pause(ctx, length)
	measuring.Store(false)
	all.elapsed = time.Since(began)
	after, cpuErr := b.cpu()
	cancel()
	wg.Wait()
	all.engine = after.engine - before.engine
	all.bench = after.bench - before.bench
	all.platform = after.platform - before.platform
	all.rss = after.rss
	if err := errors.Join(failed, err, cpuErr, context.Cause(asked)); err != nil {
		return all, err // a measurement that was cut short measures nothing
	}
	if all.asked == 0 {
		return all, fmt.Errorf("no call began and ended within %s: the machine is too busy, or -seconds are too few", length)
	}
	if all.found*10 < all.asked*9 {
		return all, fmt.Errorf("only %d of %d keys were found: this measures misses", all.found, all.asked)
	}
	return all, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
