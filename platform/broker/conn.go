package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// headerBytes is the size of a request header: size, API key, version and correlation ID.
const headerBytes = 4 + minRequestBytes

const minRequestBytes = 2 + 2 + 4

// gatedConn filters the traffic between a client and kfake:
//
//   - It closes the connection on a request that is too large, unknown or not authenticated. kfake would exit the
//     process or run out of memory.
//   - It validates the records of produced batches. kfake validates only headers.
//   - It reports a disconnect during a JoinGroup to kfake only after the response. kfake starts the member's session
//     with the response, and the member would otherwise keep its partitions forever.
type gatedConn struct {
	net.Conn
	gate   *gate
	logger *slog.Logger

	// header holds the bytes of the current request that kfake has not read yet: the header or the whole request.
	// Only Read uses it and body.
	header []byte
	// body is the number of bytes of the current request that are still to be read from the connection.
	body int

	mu       sync.Mutex
	login    login
	rejected []*rejections // of unanswered Produce requests, in order
	joinID   uint32        // correlation ID of the last JoinGroup
	joined   chan struct{} // closed when that JoinGroup is answered; nil if none is pending

	once   sync.Once
	closed chan struct{}
}

func newGatedConn(c net.Conn, g *gate, logger *slog.Logger) *gatedConn {
	return &gatedConn{
		Conn: c, gate: g, logger: logger, closed: make(chan struct{}),
		login: login{authenticated: len(g.mechanisms) == 0, mechanisms: g.mechanisms},
	}
}

func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if err != nil {
		c.awaitJoin()
	}
	return n, err
}

func (c *gatedConn) read(p []byte) (int, error) {
	if len(c.header) == 0 && c.body == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.header) > 0 {
		n := copy(p, c.header)
		c.header = c.header[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.body)])
	c.body -= n
	return n, err
}

// next reads the header of the next request, or the whole request if it needs inspection.
func (c *gatedConn) next() error {
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(c.Conn, header[:4]); err != nil {
		return err
	}
	c.mu.Lock()
	// Each login request follows the response to the previous one, so the state is current.
	authenticated, rawTokens := c.login.authenticated, c.login.rawTokens
	c.mu.Unlock()
	if rawTokens {
		return c.nextToken(binary.BigEndian.Uint32(header))
	}
	if _, err := io.ReadFull(c.Conn, header[4:]); err != nil {
		return err
	}
	r := parseRequest(header)
	err := r.check(authenticated)
	if err == nil && r.needsInspection(authenticated) {
		return c.inspect(r, header, authenticated)
	}
	if err != nil {
		c.logDisconnect(err)
		return err
	}
	c.header, c.body = header, int(r.size)-minRequestBytes
	if r.is(kmsg.JoinGroup) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.joinID, c.joined = r.id, make(chan struct{})
	}
	return nil
}

// nextToken reads a login token that has no request header.
func (c *gatedConn) nextToken(size uint32) error {
	if size > maxUnauthenticatedBytes {
		err := fmt.Errorf("login token of %d bytes is too large", size)
		c.logDisconnect(err)
		return err
	}
	token := make([]byte, size)
	if _, err := io.ReadFull(c.Conn, token); err != nil {
		return err
	}
	raw := wrapToken(token)
	c.mu.Lock()
	err := c.login.onRequest(parseRequest(raw), raw)
	c.mu.Unlock()
	if err != nil {
		c.logDisconnect(err)
		return err
	}
	c.header, c.body = raw, 0
	return nil
}

// logDisconnect logs why a connection is closed: as a warning, unless the broker stops.
func (c *gatedConn) logDisconnect(err error) {
	level := slog.LevelWarn
	if errors.Is(err, errClosed) {
		level = slog.LevelDebug
	}
	c.logger.LogAttrs(context.Background(), level, "kafka broker: connection closed",
		slog.String("client", c.RemoteAddr().String()), slog.Any("error", err))
}

// inspect reads the whole request and validates or rewrites it.
func (c *gatedConn) inspect(r request, header []byte, authenticated bool) error {
	raw := make([]byte, 4+int(r.size))
	copy(raw, header)
	if _, err := io.ReadFull(c.Conn, raw[headerBytes:]); err != nil {
		return err
	}
	var err error
	switch {
	case !authenticated:
		c.mu.Lock()
		err = c.login.onRequest(r, raw)
		c.mu.Unlock()
	case r.is(kmsg.Produce):
		var rejected *rejections
		if rejected, err = c.gate.validator.validateProduce(r, raw, c.logger); rejected != nil {
			c.mu.Lock()
			c.rejected = append(c.rejected, rejected)
			c.mu.Unlock()
		}
	default:
		raw, err = limitPartitions(r, raw)
	}
	if err != nil {
		c.logDisconnect(err)
		return err
	}
	c.header, c.body = raw, 0
	return nil
}

// awaitJoin waits until the pending JoinGroup is answered or the connection is closed.
func (c *gatedConn) awaitJoin() {
	c.mu.Lock()
	joined := c.joined
	c.mu.Unlock()
	if joined == nil {
		return
	}
	select {
	case <-joined:
	case <-c.closed:
	}
}

// Write writes one response; kfake calls it once for each.
func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.gate.wait(); err != nil {
		return 0, err
	}
	response := p
	id := uint32(0)
	if len(p) >= 8 {
		id = binary.BigEndian.Uint32(p[4:])
		var err error
		if response, err = c.rewrite(id, p); err != nil {
			c.logDisconnect(err)
			return 0, err
		}
	}
	n, err := c.Conn.Write(response)
	if len(p) >= 8 {
		c.mu.Lock()
		if c.joined != nil && id == c.joinID {
			close(c.joined)
			c.joined = nil
		}
		c.mu.Unlock()
	}
	// The rewritten response may have another length.
	if err == nil {
		return len(p), nil
	}
	return min(n, len(p)), err
}

// rewrite returns the response for the client, derived from kfake's response p.
func (c *gatedConn) rewrite(id uint32, p []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Before the write: the client may continue as soon as it has the response.
	p, err := c.login.onResponse(id, p)
	if err != nil {
		return nil, err
	}
	if len(c.rejected) == 0 || c.rejected[0].id != id {
		return p, nil
	}
	rejected := c.rejected[0]
	c.rejected = c.rejected[1:]
	return rejected.rewrite(p)
}

func (c *gatedConn) Close() error {
	c.gate.remove(c)
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
