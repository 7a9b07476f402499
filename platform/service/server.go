package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// ServerConfig describes an HTTP server. Only Addr and Handler are required.
type ServerConfig struct {
	// Addr is host:port; port 0 picks a free port, which [Server.Addr] returns.
	Addr    string
	Handler http.Handler
	Logger  *slog.Logger
	// ReadHeaderTimeout limits the reading of a request's headers; the default is 10 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout limits the reading of a whole request, including the body; the default is 60 s, negative means no
	// limit, for streams.
	ReadTimeout time.Duration
	// WriteTimeout limits the time from the end of the headers to the end of the response; the default is no limit,
	// because handlers limit their work by context.
	WriteTimeout time.Duration
	// IdleTimeout closes a keep-alive connection without requests; the default is 120 s.
	IdleTimeout time.Duration
	// MaxHeaderBytes limits the request line and headers; the default is 64 KiB.
	MaxHeaderBytes int
	// StopTimeout is how long requests in flight may take after Run's context ends; the default is 4 s.
	StopTimeout time.Duration
}

// Server is an HTTP server that is already listening and serves once Run is called. Plain-text errors of its handler,
// and those that net/http gives to malformed requests, are answered as JSON with a detail.
type Server struct {
	cfg      ServerConfig
	listener net.Listener
	inflight sync.WaitGroup
}

// NewServer listens on cfg.Addr, so that the address is known and connections queue before the first request is
// served. A caller that does not call Run must call Close.
func NewServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	if cfg.Handler == nil {
		return nil, errors.New("http server: no handler")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.ReadHeaderTimeout = positive(cfg.ReadHeaderTimeout, 10*time.Second)
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = time.Minute
	}
	cfg.IdleTimeout = positive(cfg.IdleTimeout, 2*time.Minute)
	cfg.StopTimeout = positive(cfg.StopTimeout, 4*time.Second)
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = 64 << 10
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("http server: %w", err)
	}
	return &Server{cfg: cfg, listener: jsonErrorListener{Listener: l, maxHeaderBytes: cfg.MaxHeaderBytes}}, nil
}

// Addr returns the listen address as host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the URL at which this machine reaches the server: Addr as an http URL without a path. An unspecified
// address is replaced by the loopback address, because clients may use a proxy for an address that is not loopback.
func (s *Server) URL() string {
	addr, err := netip.ParseAddrPort(s.Addr())
	if err == nil && addr.Addr().IsUnspecified() {
		return "http://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port()).String()
	}
	return "http://" + s.Addr()
}

// Close stops listening. It is for a server whose Run is never called; Run closes the listener itself.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("http server: close: %w", err)
	}
	return nil
}

// Run serves until ctx ends, then stops accepting and waits up to StopTimeout for the requests in flight. Requests that
// are still running then, such as those whose clients have not sent the whole body, are aborted: their contexts end,
// their connections close, and Run waits for their handlers for another StopTimeout. Aborted requests are logged as a
// warning; handlers that do not return are an error. Requests in flight do not see the end of ctx before the abort.
func (s *Server) Run(ctx context.Context) error {
	base, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	unused := &unusedConns{conns: make(map[net.Conn]struct{})}
	handler := jsonErrors(s.cfg.Handler)
	srv := &http.Server{
		ConnState: unused.stateChanged,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.inflight.Add(1)
			defer s.inflight.Done()
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		ReadTimeout:       max(s.cfg.ReadTimeout, 0),
		WriteTimeout:      max(s.cfg.WriteTimeout, 0),
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		// The handler also answers OPTIONS *, with its own error format.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
		BaseContext:                  func(net.Listener) context.Context { return base },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("http server %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(base, s.cfg.StopTimeout)
	defer cancel()
	// For five seconds, Shutdown considers connections without a first request busy.
	unused.close()
	shut := srv.Shutdown(grace)
	var err error
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = fmt.Errorf("http server %s: %w", s.Addr(), e)
	}
	if shut == nil {
		return err
	}
	abort()
	// A deadline is due to a slow client or a slow store, not to the server.
	if errors.Is(shut, context.DeadlineExceeded) {
		s.cfg.Logger.Warn("stop timeout: aborting requests in flight",
			slog.String("address", s.Addr()), slog.Duration("after", s.cfg.StopTimeout))
	} else {
		err = errors.Join(err, fmt.Errorf("http server %s: stop: %w", s.Addr(), shut))
	}
	err = errors.Join(err, srv.Close())
	handlers := make(chan struct{})
	go func() { s.inflight.Wait(); close(handlers) }()
	select {
	case <-handlers:
		return err
	case <-time.After(s.cfg.StopTimeout):
		return errors.Join(err,
			fmt.Errorf("http server %s: handlers did not return when their context ended", s.Addr()))
	}
}

// unusedConns tracks the connections on which no request has started.
type unusedConns struct {
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	closing bool
}

func (u *unusedConns) stateChanged(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.conns, c)
		return
	}
	// The connection was accepted during the stop.
	if u.closing {
		_ = c.Close()
		return
	}
	u.conns[c] = struct{}{}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closing = true
	for c := range u.conns {
		_ = c.Close()
	}
}

// positive returns d if it is positive, and fallback otherwise.
func positive(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}
