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
	// Addr is host:port; port 0 takes a free one, which [Server.Addr] then tells.
	Addr    string
	Handler http.Handler
	Logger  *slog.Logger
	// ReadHeaderTimeout bounds the reading of a request's headers; default 10 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout bounds the reading of a whole request, body included; default 60 s, negative for none (streams).
	ReadTimeout time.Duration
	// WriteTimeout bounds the time from the end of the headers to the end of the answer; default none, because
	// handlers know better: they bound their work by context.
	WriteTimeout time.Duration
	// IdleTimeout closes a kept-alive connection without requests; default 120 s.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds request line and headers; default 64 KiB.
	MaxHeaderBytes int
	// StopTimeout is how long requests in flight may take after Run's context ends; default 4 s.
	StopTimeout time.Duration
}

// Server is an HTTP server that is listening already and serves once Run is called. Errors that its handler writes in
// plain text, and those that net/http gives to malformed requests, are answered as JSON with a detail.
type Server struct {
	cfg      ServerConfig
	listener net.Listener
	inflight sync.WaitGroup
}

// NewServer listens on cfg.Addr, so that the address is known, and connections queue, before the first request is
// served. Whoever does not call Run must call Close.
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

// Addr is the address that is listened on, as host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is where this machine reaches the server: Addr as an http URL without a path, with the loopback address for all
// of the machine's, which clients do not know for loopback and would ask a proxy for.
func (s *Server) URL() string {
	addr, err := netip.ParseAddrPort(s.Addr())
	if err == nil && addr.Addr().IsUnspecified() {
		return "http://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port()).String()
	}
	return "http://" + s.Addr()
}

// Close stops listening. It is for a server whose Run is never called; Run closes by itself.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("http server: close: %w", err)
	}
	return nil
}

// Run serves until ctx ends, then stops accepting and waits for the requests in flight, at most StopTimeout. Requests
// that are still running then, such as those whose callers have not sent all of the body, are cut off: their contexts
// end, their connections close, and Run waits for their handlers for another StopTimeout. That is a warning in the log;
// handlers that go on all the same are an error. Requests in flight do not see ctx's end before they are cut off.
func (s *Server) Run(ctx context.Context) error {
	base, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	silent := &silentConns{conns: make(map[net.Conn]struct{})}
	handler := jsonErrors(s.cfg.Handler)
	srv := &http.Server{
		ConnState: silent.changed,
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
		// The handler answers OPTIONS * as well, in its own form.
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
	// Shutdown takes connections without a first request for busy ones, for five seconds.
	silent.close()
	shut := srv.Shutdown(grace)
	var err error
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = fmt.Errorf("http server %s: %w", s.Addr(), e)
	}
	if shut == nil {
		return err
	}
	cutOff()
	if errors.Is(shut, context.DeadlineExceeded) { // a caller's doing, or a slow store's
		s.cfg.Logger.Warn("requests were cut off, since they had not ended in time for the stop", slog.String("address", s.Addr()), slog.Duration("after", s.cfg.StopTimeout))
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
		return errors.Join(err, fmt.Errorf("http server %s: handlers ignore the end of their context", s.Addr()))
	}
}

// silentConns are the connections on which no request has begun.
type silentConns struct {
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	closing bool
}

func (s *silentConns) changed(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.conns, c)
		return
	}
	if s.closing {
		_ = c.Close() // came in with the stop
		return
	}
	s.conns[c] = struct{}{}
}

func (s *silentConns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for c := range s.conns {
		_ = c.Close()
	}
}

func positive(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
