package v1

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/query-api/internal/account"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// counting is a server whose person enrichment reads nothing, to measure the overhead around a response.
type counting struct {
	url    string
	client *http.Client
	key    string
}

// benchDisclosed seals the people of returned records like the service.
func benchDisclosed(b *testing.B) func([]string) []string {
	b.Helper()
	sealing, err := event.NewDisclosureCipher(make([]byte, event.DisclosureKeySize))
	require.NoError(b, err)
	hashing := suppress.NoKey()
	return func(identities []string) (out []string) {
		for _, name := range identities {
			if d, ok := hashing.Record(name); ok {
				out = append(out, sealing.Seal(d))
			}
		}
		return out
	}
}

// startCounting starts it with or without authentication, limits and metering. Usage events are written to an outbox on
// disk but not to Kafka.
func startCounting(b *testing.B, counted bool) *counting {
	b.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	directory, key := benchAccount(b)
	outbox, err := ledger.Open(ledger.Config{Dir: b.TempDir()})
	require.NoError(b, err)
	rates, err := limits.NewMemory(time.Now)
	require.NoError(b, err)
	kept, err := idempotency.OpenDisk(idempotency.DiskConfig{Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, kept.Close()) })
	answers, err := idempotency.NewAnswers(kept, make([]byte, idempotency.KeyBytes))
	require.NoError(b, err)
	meter := metering.New(metering.Config{Lease: time.Minute}, metering.Deps{
		Credits: credits.NewMemory(time.Now), Limits: rates, Ledger: outbox, Answers: answers,
		Disclosed: benchDisclosed(b), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Balances: func(context.Context, string) (credits.Balances, error) { return nil, nil },
	})
	publish := func(context.Context, []ledger.Event) error { return nil }
	var running sync.WaitGroup
	running.Go(func() { meter.Run(ctx) })
	running.Go(func() {
		if err := outbox.Run(ctx, time.Second, publish, meter.Settle); err != nil {
			b.Error(err)
		}
	})
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(b, err)
	s := &Server{
		cfg: Config{RequestTimeout: time.Minute, MaxBodyBytes: 1 << 20, Uncounted: !counted}, accounts: directory,
		meter:  meter,
		logger: slog.New(slog.DiscardHandler), tracer: noop.NewTracerProvider().Tracer(""), metrics: m, now: time.Now,
		routes: make(map[*mux.Route]*operation),
	}
	router := mux.NewRouter().SkipClean(true)
	router.Use(s.gate)
	record := answer(`{"websets_matched":["codehost"],"person":{"codehost":"` + strings.Repeat("x", 4000) + `"}}`)
	route := router.HandleFunc("/v1/person/enrich", func(w http.ResponseWriter, r *http.Request) {
		res, err := metering.FromContext(r.Context()).Reserve(r.Context(), 1)
		if err != nil {
			b.Error(err)
			return
		}
		defer res.Release()
		if _, err := res.Commit(r.Context(),
			metering.Used{Units: 1, Identities: []string{"codehost-person 4711"},
				Groups: []string{"codehost"}}); err != nil {
			b.Error(err)
			return
		}
		_ = record.write(w)
	}).Methods(http.MethodPost)
	s.routes[route] = &operations()[0]
	server := httptest.NewServer(s.observe(router))
	b.Cleanup(func() {
		server.Close()
		stop()
		running.Wait()
	})
	transport := &http.Transport{MaxIdleConnsPerHost: benchCallers, DisableCompression: true}
	return &counting{url: server.URL + "/v1/person/enrich", client: &http.Client{Transport: transport}, key: key}
}

// benchAccount returns a directory with one organization without limits, and its key.
func benchAccount(b *testing.B) (*account.Directory, string) {
	b.Helper()
	secret, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(b, err)
	organization := event.Organization{ID: "org", Name: "Bench", Plan: event.PlanDevelopment, Active: true,
		CreatedAt: time.Now()}
	key := event.Key{ID: secret.ID(), OrganizationID: organization.ID, SHA256: secret.Hash(),
		Scopes:    event.DefaultScopes(),
		CreatedAt: time.Now()}
	d := account.NewDirectory()
	for name, state := range map[string]any{organization.EventKey(): organization, key.EventKey(): key} {
		value, err := json.Marshal(state)
		require.NoError(b, err)
		require.NoError(b, d.Apply([]byte(name), value))
	}
	return d, secret.Reveal()
}

// benchCallers is the number of concurrent callers.
const benchCallers = 32

// ask makes the given number of calls.
func (c *counting) ask(b *testing.B, calls int) {
	var callers sync.WaitGroup
	for i := range benchCallers {
		callers.Go(func() {
			for range (calls + benchCallers - 1 - i) / benchCallers {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.url,
					bytes.NewReader([]byte(`{"codehost":"person"}`)))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+c.key)
				req.Header.Set("Content-Type", "application/json")
				resp, err := c.client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Error(resp.Status, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
	callers.Wait()
}

// BenchmarkCounting measures the CPU time per call of authentication, limits and metering, of server and client
// together: without them, with them, and the difference in alternating rounds of 320 calls, which are one operation.
func BenchmarkCounting(b *testing.B) {
	for _, tc := range []struct {
		name    string
		counted bool
	}{{"off", false}, {"on", true}} {
		b.Run(tc.name, func(b *testing.B) {
			c := startCounting(b, tc.counted)
			c.ask(b, benchCallers)
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			c.ask(b, b.N)
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
	b.Run("more", func(b *testing.B) {
		servers := []*counting{startCounting(b, false), startCounting(b, true)}
		var took [2]time.Duration
		const turn = 10 * benchCallers
		for n := 0; b.Loop(); n++ {
			for i := range servers {
				which := (n + i) % 2
				before := processorTime(b)
				servers[which].ask(b, turn)
				took[which] += processorTime(b) - before
			}
		}
		b.ReportMetric(float64((took[1]-took[0]).Nanoseconds())/1e3/float64(b.N*turn), "cpu-µs/call-more")
	})
}

// processorTime returns the CPU time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
