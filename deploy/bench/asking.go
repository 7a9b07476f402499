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
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muster/platform/service"
	queryapi "muster/query-api"
)

// question is a kind of request with uniformly drawn keys.
type question struct {
	about string
	keys  []string
	// each is the number of keys per request; 0 means 1.
	each int
	// request creates a request for keys.
	request func(ctx context.Context, base string, keys []string) (*http.Request, error)
}

// serving runs do with a separate query-api on the same ClickHouse.
func (b *bench) serving(ctx context.Context, cfg queryapi.Config, do func(base string) error) error {
	return b.servingWith(ctx, cfg, queryapi.Deps{}, do)
}

// servingWith is like serving, with some optional dependencies.
func (b *bench) servingWith(ctx context.Context, cfg queryapi.Config, optional queryapi.Deps,
	do func(base string) error) (err error) {
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
		Secret: secret, ClickHouse: b.conn, Bus: b.kafka, Logger: b.logger, Registerer: prometheus.NewRegistry(),
		Suppressed: optional.Suppressed, OpenSearch: optional.OpenSearch,
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

// errNoCalls reports a measurement without completed calls.
var errNoCalls = errors.New("no call completed during the measurement: the machine is too busy, or -seconds too small")

// ask measures a server of this program with a number of callers. It returns an error if a call failed or most were
// misses.
func (b *bench) ask(ctx context.Context, q question, base string, callers int) (measurement, error) {
	m, err := b.measure(ctx, q, system{base: base, used: b.cpu}, callers)
	switch {
	case err != nil:
		return m, err
	case m.failure != nil:
		return m, fmt.Errorf("%d calls failed, the first: %w", m.errors, m.failure)
	case len(m.calls) == 0:
		return m, errNoCalls
	case m.misses*10 > m.asked:
		return m, fmt.Errorf("%d misses of %d keys: this measures misses", m.misses, m.asked)
	}
	return m, nil
}

// measure sends requests from a number of callers, each its next on completion or at an interval, for the length of
// a measurement after a warm-up of a fifth of it. Calls that complete within the measurement are measured; errors
// and misses are counted from the start.
func (b *bench) measure(ctx context.Context, q question, s system, callers int) (measurement, error) {
	client := b.client(callers)
	defer client.CloseIdleConnections()
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
	)
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(b.seed, uint64(c)|b.draw<<32))
			keys := make([]string, max(1, q.each))
			var mine measurement
			next := time.Now()
			for ctx.Err() == nil {
				if b.every > 0 {
					next = next.Add(time.Duration(rng.ExpFloat64() * float64(b.every)))
					pause(ctx, time.Until(next))
				}
				for i := range keys {
					keys[i] = q.keys[rng.IntN(len(q.keys))]
				}
				began := time.Now()
				body, err := b.call(ctx, client, q, s.base, keys)
				switch took := time.Since(began); {
				case err != nil && ctx.Err() != nil: // the end of the measurement
				case err != nil:
					mine.fail(err)
				case !namesAll(body, keys):
					mine.misses++
					fallthrough
				default:
					if measuring.Load() {
						mine.calls = append(mine.calls, took)
						mine.asked += len(keys)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(mine)
		})
	}
	pause(ctx, warm)
	before, err := s.used()
	measuring.Store(true)
	began := time.Now()
	pause(ctx, length)
	measuring.Store(false)
	all.elapsed = time.Since(began)
	after, cpuErr := s.used()
	cancel()
	wg.Wait()
	all.engine = after.engine - before.engine
	all.bench = after.bench - before.bench
	all.platform = after.platform - before.platform
	all.rss = after.rss
	if err := errors.Join(err, cpuErr, context.Cause(asked)); err != nil {
		return all, err // an interrupted measurement is invalid
	}
	return all, nil
}

// client returns an HTTP client for a number of callers.
func (*bench) client(callers int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true},
		Timeout:   time.Minute,
	}
}

// call sends one request and returns the response body.
func (b *bench) call(ctx context.Context, client *http.Client, q question, base string, keys []string) ([]byte, error) {
	req, err := q.request(ctx, base, keys)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+b.in.APIKey)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s: %.600s", resp.Status, body)
	}
	return body, nil
}

// namesAll reports whether a response has the usernames, in order.
func namesAll(body []byte, usernames []string) bool {
	var quoted []byte
	for _, u := range usernames {
		quoted = append(append(append(quoted[:0], '"'), u...), '"')
		at := bytes.Index(body, quoted)
		if at < 0 {
			return false
		}
		body = body[at:] // a list may have a person twice
	}
	return true
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
