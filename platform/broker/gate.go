package broker

import (
	"log/slog"
	"net"
	"sync"
)

// gate accepts connections only after the log is replayed, and tracks open connections so that Close can close them,
// which kfake does not do.
type gate struct {
	opened    chan struct{}
	once      sync.Once
	shutting  chan struct{} // closed when no more connections are accepted
	failure   *failure
	validator *batchValidator
	// mechanisms are the enabled SASL mechanisms. If there are any, clients must authenticate.
	mechanisms []string

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	held   chan struct{} // not nil while responses are held back; closed when they continue
}

func newGate(failure *failure) *gate {
	return &gate{
		opened: make(chan struct{}), shutting: make(chan struct{}), failure: failure,
		validator: newBatchValidator(), conns: make(map[net.Conn]struct{}),
	}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// hold blocks responses that are not being written yet, until release is called.
func (g *gate) hold() (release func()) {
	held := make(chan struct{})
	g.mu.Lock()
	g.held = held
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		g.held = nil
		g.mu.Unlock()
		close(held)
	}
}

// wait waits while responses are held back. It returns the broker's error after a failure.
func (g *gate) wait() error {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-g.failure.happened:
		}
	}
	return g.failure.get()
}

// shut unblocks a waiting Accept and rejects later connections.
func (g *gate) shut() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.shutting)
	}
	g.mu.Unlock()
	g.open()
}

func (g *gate) add(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.conns[c] = struct{}{}
	return true
}

func (g *gate) remove(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

func (g *gate) closeConns() {
	g.mu.Lock()
	open := make([]net.Conn, 0, len(g.conns))
	for c := range g.conns {
		open = append(open, c)
	}
	g.mu.Unlock()
	for _, c := range open {
		// The client may have closed it already.
		_ = c.Close()
	}
}

type gatedListener struct {
	net.Listener
	gate      *gate
	logger    *slog.Logger
	advertise advertised // empty: the listener's own address
}

func (l *gatedListener) Addr() net.Addr {
	if l.advertise != "" {
		return l.advertise
	}
	return l.Listener.Addr()
}

func (l *gatedListener) Accept() (net.Conn, error) {
	<-l.gate.opened
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	gc := newGatedConn(c, l.gate, l.logger)
	if !l.gate.add(gc) {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return gc, nil
}
