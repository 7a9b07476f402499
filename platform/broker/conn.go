package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// headerBytes are the size, key, version and correlation id that every request of
// the Kafka protocol begins with.
const headerBytes = 4 + minRequestBytes

const minRequestBytes = 2 + 2 + 4

// gatedConn stands between a client and kfake and keeps from kfake what it would
// not survive:
//
//   - A request that is too large, or of a kind that the protocol does not have,
//     or of somebody who has not said who they are, ends the connection. kfake would
//     end the process, or take as much memory as there is.
//   - A record batch is stored when its records can be read. kfake looks at headers.
//   - A client that goes away while it waits to join its group is gone for kfake
//     when its join is answered. kfake gives it a session only with an answer, so
//     that it would stay in the group for ever, and with it its partitions.
type gatedConn struct {
	net.Conn
	gate   *gate
	logger *slog.Logger

	// Used by Read alone.
	header []byte // of the request being read, or all of it: what kfake has not yet taken
	body   int    // how many bytes of the request are still to come

	mu       sync.Mutex
	login    login
	refused  []*refusals   // Produces that are not answered yet, in order
	joinID   uint32        // the correlation id of the last join
	answered chan struct{} // closed when that join is answered; nil without one

	once   sync.Once
	closed chan struct{}
}

func newGatedConn(c net.Conn, g *gate, logger *slog.Logger) *gatedConn {
	return &gatedConn{Conn: c, gate: g, logger: logger, login: login{known: len(g.mechanisms) == 0, mechanisms: g.mechanisms}, closed: make(chan struct{})}
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

// next reads the header of the next request, or all of it where more than that is
// looked at.
func (c *gatedConn) next() error {
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(c.Conn, header[:4]); err != nil {
		return err
	}
	c.mu.Lock()
	known, bare := c.login.known, c.login.bare // now: what is read next answers the last answer
	c.mu.Unlock()
	if bare {
		return c.nextToken(binary.BigEndian.Uint32(header))
	}
	if _, err := io.ReadFull(c.Conn, header[4:]); err != nil {
		return err
	}
	r := parseRequest(header)
	err := r.check(known)
	if err == nil && r.wanted(known) {
		return c.whole(r, header, known)
	}
	if err != nil {
		c.ended(err)
		return err
	}
	c.header, c.body = header, int(r.size)-minRequestBytes
	if r.is(kmsg.JoinGroup) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.joinID, c.answered = r.id, make(chan struct{})
	}
	return nil
}

// nextToken reads a token of a login without the head of a request.
func (c *gatedConn) nextToken(size uint32) error {
	if size > maxForeignBytes {
		err := fmt.Errorf("a login of %d bytes", size)
		c.ended(err)
		return err
	}
	token := make([]byte, size)
	if _, err := io.ReadFull(c.Conn, token); err != nil {
		return err
	}
	raw := bareRequest(token)
	c.mu.Lock()
	err := c.login.ask(parseRequest(raw), raw)
	c.mu.Unlock()
	if err != nil {
		c.ended(err)
		return err
	}
	c.header, c.body = raw, 0
	return nil
}

func (c *gatedConn) ended(err error) {
	c.logger.Warn("kafka broker: connection ended", slog.String("client", c.RemoteAddr().String()), slog.Any("error", err))
}

// whole reads all of a request and looks into it.
func (c *gatedConn) whole(r request, header []byte, known bool) error {
	raw := make([]byte, 4+int(r.size))
	copy(raw, header)
	if _, err := io.ReadFull(c.Conn, raw[headerBytes:]); err != nil {
		return err
	}
	var err error
	switch {
	case !known:
		c.mu.Lock()
		err = c.login.ask(r, raw)
		c.mu.Unlock()
	case r.is(kmsg.Produce):
		var refused *refusals
		if refused, err = c.gate.vetter.produce(r, raw, c.logger); refused != nil {
			c.mu.Lock()
			c.refused = append(c.refused, refused)
			c.mu.Unlock()
		}
	default:
		raw, err = limitPartitions(r, raw)
	}
	if err != nil {
		c.ended(err)
		return err
	}
	c.header, c.body = raw, 0
	return nil
}

// awaitJoin waits until a join that was read is answered.
func (c *gatedConn) awaitJoin() {
	c.mu.Lock()
	answered := c.answered
	c.mu.Unlock()
	if answered == nil {
		return
	}
	select {
	case <-answered:
	case <-c.closed:
	}
}

// Write writes one answer, as kfake does.
func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.gate.wait(); err != nil {
		return 0, err
	}
	answer := p
	id := uint32(0)
	if len(p) >= 8 {
		id = binary.BigEndian.Uint32(p[4:])
		var err error
		if answer, err = c.answer(id, p); err != nil {
			c.ended(err)
			return 0, err
		}
	}
	n, err := c.Conn.Write(answer)
	if len(p) >= 8 {
		c.mu.Lock()
		if c.answered != nil && id == c.joinID {
			close(c.answered)
			c.answered = nil
		}
		c.mu.Unlock()
	}
	if err == nil { // what was written may be shorter
		return len(p), nil
	}
	return min(n, len(p)), err
}

// answer returns what the client gets instead of kfake's answer.
func (c *gatedConn) answer(id uint32, p []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.login.answered(id, p) // now: the client may go on as soon as it has the answer
	if err != nil {
		return nil, err
	}
	if len(c.refused) == 0 || c.refused[0].id != id {
		return p, nil
	}
	refused := c.refused[0]
	c.refused = c.refused[1:]
	return refused.rewrite(p)
}

func (c *gatedConn) Close() error {
	c.gate.remove(c)
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
