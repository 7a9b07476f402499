package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// moment is a place in the life of an insert.
type moment int

const (
	beforeInsert moment = iota
	middleOfInsert
	afterInsert
)

// gateway stands before the engine and lets something happen at a moment of an
// insert, after which that insert's connection is cut.
type gateway struct {
	addr  string
	serve *http.Server
	done  chan error

	mu    sync.Mutex
	armed *trap
}

// trap is what happens once.
type trap struct {
	at     moment
	action func()
	fired  chan struct{}
}

func newGateway(ctx context.Context, engine string) (*gateway, error) {
	target, err := url.Parse("http://" + engine)
	if err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gateway{addr: ln.Addr().String(), done: make(chan error, 1)}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		// A killed engine is what the clients are to notice.
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		FlushInterval: -1,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	g.serve = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := g.take(r)
		if t == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		t.intercept(proxy, w, r)
	})}
	go func() { g.done <- g.serve.Serve(ln) }()
	return g, nil
}

// on arms a trap; the returned channel closes when it has gone off.
func (g *gateway) on(at moment, action func()) <-chan struct{} {
	t := &trap{at: at, action: action, fired: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = t
	return t.fired
}

func (g *gateway) take(r *http.Request) *trap {
	if !strings.HasPrefix(strings.TrimSpace(r.URL.Query().Get("query")), "INSERT") {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.armed
	g.armed = nil
	return t
}

func (t *trap) intercept(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	defer close(t.fired)
	switch t.at {
	case beforeInsert:
		t.action()
	case middleOfInsert:
		// The engine gets a part of the rows and then an end that is none.
		r.Body = &cut{ReadCloser: r.Body, left: 256, action: t.action}
		r.ContentLength = -1
		func() {
			defer func() { _ = recover() }() // ErrAbortHandler of the proxy: the cut has worked
			proxy.ServeHTTP(discard{header: make(http.Header)}, r)
		}()
	case afterInsert:
		func() {
			defer func() { _ = recover() }()
			proxy.ServeHTTP(discard{header: make(http.Header)}, r)
		}()
		t.action()
	}
	panic(http.ErrAbortHandler)
}

// cut is a body that ends too early.
type cut struct {
	io.ReadCloser
	left   int
	action func()
	acted  atomic.Bool
}

var errCut = errors.New("cut off")

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		if !c.acted.Swap(true) {
			c.action()
		}
		return 0, errCut
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil && !c.acted.Swap(true) { // a small insert
		c.action()
		err = errCut
	}
	return n, err
}

// discard takes an answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func (g *gateway) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := g.serve.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = g.serve.Close()
	}
	if served := <-g.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
