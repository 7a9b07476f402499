package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	discovery "muster/discovery-worker"
	"muster/platform/clickhouse"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Limits of part discover.
const (
	discoverRecorded = 150 // discoveries whose statements are recorded and replayed
	discoverCallers  = 100
	discoverBareMax  = 4 // maximum number of concurrently replayed discoveries
)

// measureDiscover measures uncached discoveries over HTTP, from 2 and from 100 callers, and replays the statements
// of such discoveries: the same requests to the engine in the same order, without processing the responses.
func measureDiscover(ctx context.Context, b *bench, out io.Writer) error {
	inputs, err := b.accounts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"  %d accounts of three platforms, drawn uniformly; max_age_days 0; no web search, no language model; %d s "+
			"each\n", len(inputs), b.seconds)
	recorded, err := b.record(ctx, inputs)
	if err != nil {
		return err
	}
	statements := 0
	for _, r := range recorded {
		statements += len(r)
	}
	if err := b.breakdown(ctx, out, recorded); err != nil {
		return err
	}
	bare := 0.0
	for n := 1; n <= discoverBareMax; n *= 2 {
		rate, err := b.repeat(ctx, recorded, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-38s %7.1f calls/s (%.1f statements a call)\n",
			fmt.Sprintf("its statements bare, %d at a time", n), rate, float64(statements)/float64(len(recorded)))
		bare = max(bare, rate)
	}
	return b.serving(ctx, queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, QueryTimeout: time.Minute},
		func(base string) error {
			for _, n := range []int{2, discoverCallers} {
				m, err := b.discover(ctx, inputs, base, n)
				if err != nil {
					return err
				}
				m.print(out, n, bare)
			}
			return nil
		})
}

// accounts returns the accounts of people on all platforms.
func (b *bench) accounts(ctx context.Context) ([]event.Account, error) {
	var out []event.Account
	for platform, query := range map[string]string{
		identity.Network: `SELECT username FROM network_people FINAL WHERE NOT deleted`,
		identity.Codehost: `SELECT codehost_username FROM codehost_people FINAL WHERE NOT deleted
		    AND type NOT IN ('Organization', 'Bot')`,
		identity.Microblog: `SELECT username FROM microblog_people FINAL WHERE NOT deleted`,
	} {
		names, err := b.strings(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			out = append(out, event.Account{Platform: platform, Username: n})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no accounts found")
	}
	slices.SortFunc(out, func(x, y event.Account) int {
		return bytes.Compare([]byte(x.Platform+x.Username), []byte(y.Platform+y.Username))
	})
	return out, nil
}

// statement is a request of a discovery to the engine.
type statement struct {
	method, address string
	header          http.Header
	body            []byte
}

// record records the statements of some discoveries, with a separate worker that connects to the engine through a
// proxy.
func (b *bench) record(ctx context.Context, inputs []event.Account) (recorded [][]statement, err error) {
	engine, err := url.Parse(b.in.ClickHouseURL)
	if err != nil {
		return nil, fmt.Errorf("read the engine's address: %w", err)
	}
	var mu sync.Mutex
	var noted []statement
	target := &url.URL{Scheme: engine.Scheme, Host: engine.Host}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				return // the engine returns the error
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			mu.Lock()
			defer mu.Unlock()
			noted = append(noted, statement{r.Out.Method, r.Out.URL.String(), r.Out.Header.Clone(), body})
		},
	})
	defer proxy.Close()
	through := *engine
	through.Host = proxy.Listener.Addr().String()
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: through.String(), MaxOpenConns: 4})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	//nolint:contextcheck // Close ends its reads, not a context
	worker, err := discovery.New(discovery.Config{Bus: b.kafka}, discovery.Deps{ClickHouse: conn, Logger: b.logger})
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(b.seed, 77))
	take := func() []statement {
		mu.Lock()
		defer mu.Unlock()
		list := noted
		noted = nil
		return list
	}
	worker.Find(ctx, inputs[rng.IntN(len(inputs))]) // runs the statements of a new connection
	for take(); len(recorded) < discoverRecorded; {
		if d := worker.Find(ctx, inputs[rng.IntN(len(inputs))]); !d.Complete() {
			return nil, fmt.Errorf("degraded discovery: %v", d.Degraded)
		}
		if list := take(); len(list) > 0 {
			recorded = append(recorded, list)
		}
	}
	return recorded, ctx.Err()
}

// repeat replays recorded statements for a while, n discoveries at a time, and returns the discoveries per second.
func (b *bench) repeat(ctx context.Context, recorded [][]statement, n int) (float64, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true},
		Timeout: time.Minute}
	defer client.CloseIdleConnections()
	length := time.Duration(b.seconds) * time.Second
	var done, next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			for time.Since(began) < length && ctx.Err() == nil {
				for _, s := range recorded[int(next.Add(1))%len(recorded)] {
					if errs[i] = s.send(ctx, client); errs[i] != nil {
						return
					}
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}

// breakdown prints the duration of a discovery's statements, run sequentially, by the table that they read.
func (b *bench) breakdown(ctx context.Context, out io.Writer, recorded [][]statement) error {
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	took, count := map[string]time.Duration{}, map[string]int{}
	before, err := b.cpu()
	if err != nil {
		return err
	}
	for _, list := range recorded {
		for _, s := range list {
			began := time.Now()
			if err := s.send(ctx, client); err != nil {
				return err
			}
			table := s.table()
			took[table] += time.Since(began)
			count[table]++
		}
	}
	after, err := b.cpu()
	if err != nil {
		return err
	}
	n := float64(len(recorded))
	for _, table := range slices.Sorted(maps.Keys(took)) {
		fmt.Fprintf(out, "  of a call: %4.1f statements on %-16s %6.1f ms\n", float64(count[table])/n, table,
			ms(took[table])/n)
	}
	fmt.Fprintf(out, "  of a call: %.1f ms of the engine's processor time\n", ms(after.engine-before.engine)/n)
	return nil
}

// table returns the first table in a statement.
func (s statement) table() string {
	address, err := url.Parse(s.address)
	if err != nil {
		return "?"
	}
	text := address.Query().Get("query") + string(s.body)
	for _, t := range readmodel.Tables() {
		if strings.Contains(text, "FROM "+t+"\n") || strings.Contains(text, "FROM "+t+" ") {
			return t
		}
	}
	return "?"
}

func (s statement) send(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, s.method, s.address, bytes.NewReader(s.body))
	if err != nil {
		return err
	}
	req.Header = s.header.Clone()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("replayed statement: status %s", resp.Status)
	}
	return nil
}

// discoveries are the results of callers of discovery.
type discoveries struct {
	measurement
	degraded, late, failed int
	failure                error // one of the failures
}

// print prints the results of a number of callers, relative to the replayed statements. Processor times are those
// of the engine, of muster with worker, broker and projector, and of the query-api with its callers.
func (m discoveries) print(out io.Writer, callers int, bare float64) {
	fmt.Fprintf(out, "  %-38s %7.1f calls/s  p50 %7.1f ms  p99 %7.1f ms  longest %7.1f ms\n",
		fmt.Sprintf("POST /v1/person/discover, %d callers", callers), m.rate(), ms(quantile(m.calls, 0.5)),
		ms(quantile(m.calls, 0.99)), ms(m.calls[len(m.calls)-1]))
	fmt.Fprintf(out,
		"  at %d callers: %d answers, %d errors, %d over %s, %d incomplete; %.2f of the call rate of the bare "+
			"statements\n",
		callers, len(m.calls), m.failed, m.late, event.DiscoveryBudget, m.degraded, m.rate()/bare)
	if m.failure != nil {
		fmt.Fprintf(out, "  one of the errors: %v\n", m.failure)
	}
	n := float64(len(m.calls))
	fmt.Fprintf(out,
		"  of a call, processor time: engine %.1f ms, worker with broker and projector %.1f ms, query-api with "+
			"callers %.1f ms\n",
		ms(m.engine)/n, ms(m.platform)/n, ms(m.bench)/n)
}

// discover calls discovery from a number of callers for the length of a measurement, after a warm-up of a fifth of
// it, and waits for the last responses. A status other than 200 is an error.
func (b *bench) discover(ctx context.Context, inputs []event.Account, base string, callers int) (out discoveries,
	err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true},
		Timeout: time.Minute}
	defer client.CloseIdleConnections()
	length := time.Duration(b.seconds) * time.Second
	warm := time.Now().Add(length / 5)
	end := warm.Add(length)
	before, err := b.cpu()
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(b.seed, uint64(callers+i)))
			for time.Now().Before(end) && ctx.Err() == nil {
				began := time.Now()
				degraded, err := b.discoverOne(ctx, client, base, inputs[rng.IntN(len(inputs))])
				now := time.Now()
				mu.Lock()
				out.calls = append(out.calls, now.Sub(began))
				switch {
				case err != nil:
					out.failed++
					out.failure = err
				case now.After(warm) && !now.After(end):
					out.asked++
				}
				if degraded {
					out.degraded++
				}
				if now.Sub(began) > event.DiscoveryBudget {
					out.late++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	after, err := b.cpu()
	out.elapsed, out.engine, out.platform, out.bench = length, after.engine-before.engine,
		after.platform-before.platform, after.bench-before.bench
	slices.Sort(out.calls)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return out, err
	}
	if out.asked == 0 {
		return out, errors.Join(fmt.Errorf("no response for %d callers within %s", callers, length), out.failure)
	}
	return out, nil
}

func (b *bench) discoverOne(ctx context.Context, client *http.Client, base string, in event.Account) (degraded bool,
	err error) {
	body, err := json.Marshal(map[string]any{in.Platform: in.Username, "max_age_days": 0})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/person/discover", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.in.APIKey)
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("status %s: %s", resp.Status, answer)
	}
	return resp.Header.Get("X-Degraded") != "", nil
}
