package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"muster/platform/service"
)

// start calls run until the test ends or until stop is called, which returns run's error.
func start(t *testing.T, run func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var result error
	stopped := false
	stop = func() error {
		if !stopped {
			cancel()
			result, stopped = <-done, true
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestServer_ReturnsLoopbackURLForUnspecifiedAddress(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		s, err := service.NewServer(t.Context(), service.ServerConfig{Addr: addr, Handler: http.NotFoundHandler()})
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(s.Addr())
		require.NoError(t, err)
		require.Equal(t, "http://127.0.0.1:"+port, s.URL())
		require.NoError(t, s.Close())
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(content)
}

func TestServer_FinishesRequestsInFlight(t *testing.T) {
	entered, proceed := make(chan struct{}), make(chan struct{})
	s, err := service.NewServer(t.Context(), service.ServerConfig{Addr: "127.0.0.1:0", StopTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-proceed
			if r.Context().Err() == nil {
				_, _ = io.WriteString(w, "whole")
			}
		})})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	answer := make(chan string, 1)
	go func() { _, body := get(t, s.URL()); answer <- body }()
	<-entered
	cancel()
	require.Eventually(t, func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, 30*time.Second, time.Millisecond, "no longer accepts")
	close(proceed)
	require.Equal(t, "whole", <-answer)
	require.NoError(t, <-done)
}

func TestServer_AbortsSlowRequestsOnStop(t *testing.T) {
	stuck := make(chan struct{})
	for name, tc := range map[string]struct {
		handle func(*http.Request)
		within time.Duration // also for the handler to return after the abort
		fails  string
	}{
		"incomplete body": {
			handle: func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, within: time.Second,
		},
		"slow handler": {handle: func(r *http.Request) { <-r.Context().Done() }, within: time.Second},
		"stuck handler": {
			handle: func(*http.Request) { <-stuck }, within: 20 * time.Millisecond,
			fails: "handlers did not return when their context ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan struct{})
			var log strings.Builder
			s, err := service.NewServer(t.Context(), service.ServerConfig{
				Addr: "127.0.0.1:0", StopTimeout: tc.within, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Handler: http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) { close(entered); tc.handle(r) },
				),
			})
			require.NoError(t, err)
			stop := start(t, s.Run)
			caller, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
			require.NoError(t, err)
			defer func() { require.NoError(t, caller.Close()) }()
			_, err = io.WriteString(caller, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of")
			require.NoError(t, err)
			<-entered
			err = stop()
			require.Contains(t, log.String(), "aborting requests in flight")
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
		})
	}
	close(stuck)
}

func TestServer_RejectsInvalidConfig(t *testing.T) {
	_, err := service.NewServer(t.Context(), service.ServerConfig{Addr: "127.0.0.1:0"})
	require.ErrorContains(t, err, "no handler")
	_, err = service.NewServer(t.Context(),
		service.ServerConfig{Addr: "127.0.0.1:none", Handler: http.NotFoundHandler()})
	require.ErrorContains(t, err, "http server")
}

func TestServer_LimitsHeaders(t *testing.T) {
	s, err := service.NewServer(t.Context(), service.ServerConfig{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler()})
	require.NoError(t, err)
	start(t, s.Run)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil)
	require.NoError(t, err)
	req.Header.Set("X-Long", strings.Repeat("x", 128<<10))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
}

func TestServer_PassesOptionsAsteriskToHandler(t *testing.T) {
	s, err := service.NewServer(t.Context(), service.ServerConfig{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler()})
	require.NoError(t, err)
	start(t, s.Run)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, s.URL(), nil)
	require.NoError(t, err)
	req.URL.Opaque = "*"
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func TestAdmin_ServesMetricsHealthAndReadiness(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_test_total", Help: "A test's counter."})
	registry.MustRegister(counter)
	counter.Inc()
	a, err := service.NewAdmin(t.Context(), service.AdminConfig{
		Addr: "127.0.0.1:0", Registry: registry, CheckTimeout: time.Minute,
	})
	require.NoError(t, err)
	a.Handle("GET /status", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "page")
	}))
	start(t, a.Run)

	status, body := get(t, a.URL()+"/healthz")
	require.Equal(t, 200, status)
	require.Equal(t, "ok\n", body)
	_, body = get(t, a.URL()+"/metrics")
	require.Contains(t, body, "muster_test_total 1")
	_, body = get(t, a.URL()+"/status")
	require.Equal(t, "page", body)
	status, body = get(t, a.URL()+"/debug/pprof/goroutine?debug=1")
	require.Equal(t, 200, status)
	require.Contains(t, body, "goroutine profile")
	status, body = get(t, a.URL()+"/readyz")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"ready":true,"checks":[]}`, body)

	require.NoError(t, a.AddCheck("engine", func(context.Context) error { return nil }))
	require.NoError(t, a.AddCheck("broker", func(context.Context) error { return errors.New("unavailable") }))
	require.NoError(t, a.AddCheck("cache", func(context.Context) error { panic("cold") }))
	require.ErrorContains(t, a.AddCheck("engine", nil), "engine")
	status, body = get(t, a.URL()+"/readyz")
	require.Equal(t, 503, status)
	var got service.Readiness
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, service.Readiness{Checks: []service.CheckResult{
		{Name: "engine", Ready: true},
		{Name: "broker", Reason: "unavailable"},
		{Name: "cache", Reason: "panic: cold"},
	}}, got)
}

func TestAdmin_LimitsCheckDuration(t *testing.T) {
	a, err := service.NewAdmin(t.Context(), service.AdminConfig{
		Addr: "127.0.0.1:0", Registry: prometheus.NewRegistry(), CheckTimeout: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	start(t, a.Run)
	require.NoError(t, a.AddCheck("broker", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
	status, body := get(t, a.URL()+"/readyz")
	require.Equal(t, 503, status)
	const want = `{"ready":false,"checks":[{"name":"broker","ready":false,"reason":"context deadline exceeded"}]}`
	require.JSONEq(t, want, body)
}

func TestWithSignals_EndsContextThenExits(t *testing.T) {
	exited := make(chan int, 1)
	tel, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{Output: io.Discard})
	require.NoError(t, err)
	ctx, release := service.WithSignals(t.Context(), tel.Logger, func(code int) { exited <- code })
	defer release()
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	<-ctx.Done()
	var cause *service.SignalError
	require.ErrorAs(t, context.Cause(ctx), &cause)
	require.Equal(t, syscall.SIGTERM, cause.Signal)
	require.EqualError(t, cause, "signal: terminated")
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGINT))
	require.Equal(t, 130, <-exited)
}

func TestIgnoreInterrupt_KeepsOtherErrors(t *testing.T) {
	signaled := &service.SignalError{Signal: syscall.SIGINT}
	ctx, end := context.WithCancelCause(t.Context())
	failed := errors.New("disk is full")
	require.ErrorIs(t, service.IgnoreInterrupt(ctx, context.Canceled), context.Canceled, "of another context")
	end(signaled)
	require.NoError(t, service.IgnoreInterrupt(ctx, fmt.Errorf("open clickhouse: %w", signaled)))
	require.NoError(t, service.IgnoreInterrupt(ctx, fmt.Errorf("migrate: %w", context.Canceled)))
	require.NoError(t, service.IgnoreInterrupt(ctx, nil))
	require.ErrorIs(t, service.IgnoreInterrupt(ctx, failed), failed)
	require.NoError(t, service.IgnoreInterrupt(ctx, errors.Join(signaled, fmt.Errorf("close: %w", context.Canceled))))
	require.ErrorIs(t, service.IgnoreInterrupt(ctx, fmt.Errorf("run: %w", errors.Join(signaled, failed))), failed)
	require.NoError(t, service.IgnoreInterrupt(ctx, fmt.Errorf("create topics: %w (last: %w)", signaled, failed)))
}

func TestWithSignals_CanBeReleasedUnused(t *testing.T) {
	tel, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{Output: io.Discard})
	require.NoError(t, err)
	ctx, release := service.WithSignals(t.Context(), tel.Logger, func(int) { t.Error("exited") })
	require.NoError(t, ctx.Err())
	release()
	require.ErrorIs(t, context.Cause(ctx), context.Canceled)
}
