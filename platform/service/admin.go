package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"muster/platform/hostcheck"
)

// Check reports whether one dependency of a program is ready: nil means ready, an error says what is missing. It must
// return when ctx ends.
type Check func(ctx context.Context) error

// AdminConfig describes the admin server.
type AdminConfig struct {
	// Addr is host:port; port 0 takes a free one. The admin server has no authentication: keep it on a loopback or
	// cluster-internal address.
	Addr string
	// Hosts are the host names that the server answers to, in addition to IP addresses, localhost and the name in
	// Addr; "*.DOMAIN" matches all names below the domain. Requests for other hosts, and from pages of other origins,
	// are answered with 403.
	Hosts    []string
	Logger   *slog.Logger
	Registry *prometheus.Registry
	// CheckTimeout bounds each readiness check; default 2 s.
	CheckTimeout time.Duration
}

// Admin is the operators' HTTP server of one process:
//
//	/metrics        Prometheus (OpenMetrics on request)
//	/healthz        200 while the process is running
//	/readyz         200 when every check passes, else 503; JSON ([Readiness]) either way
//	/debug/pprof/   Go profiles
//
// plus the pages added with Handle.
type Admin struct {
	server  *Server
	mux     *http.ServeMux
	timeout time.Duration

	mu     sync.Mutex
	checks []namedCheck
}

type namedCheck struct {
	name string
	run  Check
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready  bool          `json:"ready"`
	Checks []CheckResult `json:"checks"`
}

// CheckResult is one check of a [Readiness]. Reason is empty when the check passed.
type CheckResult struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// NewAdmin listens on cfg.Addr; call Run to serve.
func NewAdmin(ctx context.Context, cfg AdminConfig) (*Admin, error) {
	if cfg.Registry == nil {
		return nil, errors.New("admin server: no registry")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Admin{mux: http.NewServeMux(), timeout: positive(cfg.CheckTimeout, 2*time.Second)}
	names := cfg.Hosts
	if host, _, err := net.SplitHostPort(cfg.Addr); err == nil && host != "" && !hostcheck.IsAddress(host) {
		names = append(slices.Clone(names), host)
	}
	guard, err := hostcheck.NewGuard(names)
	if err != nil {
		return nil, fmt.Errorf("admin server: %w", err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal := guard.Refusal(r); refusal != "" {
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		a.mux.ServeHTTP(w, r)
	})
	server, err := NewServer(ctx, ServerConfig{
		Addr: cfg.Addr, Handler: handler, Logger: cfg.Logger, StopTimeout: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("admin server: %w", err)
	}
	a.server = server
	a.mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
		Registry: cfg.Registry, EnableOpenMetrics: true,
	}))
	a.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	a.mux.HandleFunc("GET /readyz", a.serveReady)
	a.mux.HandleFunc("/debug/pprof/", pprof.Index)
	a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return a, nil
}

// URL returns the listen address as an http URL without a path.
func (a *Admin) URL() string { return a.server.URL() }

// Handle adds a page. The pattern is that of [http.ServeMux]; a pattern that is already taken panics, as there.
func (a *Admin) Handle(pattern string, h http.Handler) { a.mux.Handle(pattern, h) }

// AddCheck adds a readiness check. A name that is already taken is an error.
func (a *Admin) AddCheck(name string, check Check) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.checks {
		if c.name == name {
			return fmt.Errorf("admin server: duplicate readiness check %q", name)
		}
	}
	a.checks = append(a.checks, namedCheck{name, check})
	return nil
}

// Readiness runs all checks concurrently and returns their results in the order in which they were added. Without
// checks the program is ready.
func (a *Admin) Readiness(ctx context.Context) Readiness {
	a.mu.Lock()
	checks := a.checks[:len(a.checks):len(a.checks)]
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	out := Readiness{Ready: true, Checks: make([]CheckResult, len(checks))}
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			out.Checks[i] = CheckResult{Name: c.name, Ready: true}
			if err := guard(func() error { return c.run(ctx) }); err != nil {
				out.Checks[i] = CheckResult{Name: c.name, Reason: err.Error()}
			}
		})
	}
	wg.Wait()
	for _, c := range out.Checks {
		out.Ready = out.Ready && c.Ready
	}
	return out
}

// Run serves until ctx ends. Profiles in progress are aborted after a second.
func (a *Admin) Run(ctx context.Context) error { return a.server.Run(ctx) }

// Close stops listening. It is for an Admin whose Run is never called.
func (a *Admin) Close() error { return a.server.Close() }

func (a *Admin) serveReady(w http.ResponseWriter, r *http.Request) {
	result := a.Readiness(r.Context())
	body, err := json.Marshal(result)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !result.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(append(body, '\n'))
}
