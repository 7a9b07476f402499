package broker

import (
	"log/slog"
	"net"
	"sync"
)

// gate holds accepted connections back until the broker has replayed and
// compacted its log, and knows the open connections so that Close can end them:
// kfake itself leaves them to their clients.
type gate struct {
	opened   chan struct{}
	once     sync.Once
	shutting chan struct{} // closed when no connection is accepted any more
	failure  *failure
	vetter   *vetter
	// mechanisms are the SASL mechanisms that are enabled. Clients must authenticate if there are any.
	mechanisms []string

	mu    sync.Mutex
	ended bool
	conns map[net.Conn]struct{}
	held  chan struct{} // not nil while answers wait; closed when they go on
}

func newGate(failure *failure) *gate {
	return &gate{
		opened: make(chan struct{}), shutting: make(chan struct{}), failure: failure, vetter: newVetter(), conns: make(map[net.Conn]struct{}),
	}
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// hold makes answers wait that are not being sent already, until release is called.
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

// wait waits while answers are held. After a failure there are none.
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

// shut releases a waiting Accept and refuses every later connection.
func (g *gate) shut() {
	g.mu.Lock()
	if !g.ended {
		g.ended = true
		close(g.shutting)
	}
	g.mu.Unlock()
	g.open()
}

func (g *gate) add(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
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
		// The error says that the client was faster.
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
