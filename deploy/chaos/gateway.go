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

// stage is a point in the processing of an insert.
type stage int

const (
	beforeInsert stage = iota
	middleOfInsert
	afterInsert
)

// gateway is a proxy of the engine that runs an action at a stage of an insert, and then closes the connection of that
// insert.
type gateway struct {
	addr  string
	serve *http.Server
	done  chan error

	mu    sync.Mutex
	armed *trigger
}

// trigger is an action that runs once.
type trigger struct {
	at     stage
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
		// Clients must notice a killed engine.
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		FlushInterval: -1,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	g.serve = &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// arm arms a trigger. The returned channel is closed when the action has run.
func (g *gateway) arm(at stage, action func()) <-chan struct{} {
	t := &trigger{at: at, action: action, fired: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = t
	return t.fired
}

func (g *gateway) take(r *http.Request) *trigger {
	if !strings.HasPrefix(strings.TrimSpace(r.URL.Query().Get("query")), "INSERT") {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.armed
	g.armed = nil
	return t
}

func (t *trigger) intercept(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	defer close(t.fired)
	switch t.at {
	case beforeInsert:
		t.action()
	case middleOfInsert:
		// The engine gets a part of the rows, and then an invalid end.
		r.Body = &cut{ReadCloser: r.Body, left: 256, action: t.action}
		r.ContentLength = -1
		func() {
			defer func() { _ = recover() }() // ErrAbortHandler of the proxy, as intended
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

// cut is a body that is truncated.
type cut struct {
	io.ReadCloser
	left   int
	action func()
	acted  atomic.Bool
}

var errCut = errors.New("truncated")

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		if !c.acted.Swap(true) {
			c.action()
		}
		return 0, errCut
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil && !c.acted.Swap(true) { // the insert is smaller than the cut
		c.action()
		err = errCut
	}
	return n, err
}

// discard drops a response.
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
