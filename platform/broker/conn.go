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

// maxRequestBytes is the largest request that is read: kfake takes memory for all
// of it before it looks at it. It is socket.request.max.bytes of Apache Kafka.
const maxRequestBytes = 100 << 20

// headerBytes are the size, key, version and correlation id that every request of
// the Kafka protocol begins with.
const headerBytes = 4 + minRequestBytes

const minRequestBytes = 2 + 2 + 4

// gatedConn stands between a client and kfake and keeps from kfake what it would
// not survive:
//
//   - A request that is too large, or of a kind that the protocol does not have,
//     ends the connection. kfake would end the process.
//   - A client that goes away while it waits to join its group is gone for kfake
//     when its join is answered. kfake gives it a session only with an answer, so
//     that it would stay in the group for ever, and with it its partitions.
type gatedConn struct {
	net.Conn
	gate   *gate
	logger *slog.Logger

	// Used by Read alone.
	header []byte // of the request being read, what kfake has not yet taken
	body   int    // how many bytes of the request are still to come

	mu       sync.Mutex
	joinID   uint32        // the correlation id of the last join
	answered chan struct{} // closed when that join is answered; nil without one

	once   sync.Once
	closed chan struct{}
}

func newGatedConn(c net.Conn, g *gate, logger *slog.Logger) *gatedConn {
	return &gatedConn{Conn: c, gate: g, logger: logger, closed: make(chan struct{})}
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

// next reads the header of the next request.
func (c *gatedConn) next() error {
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(c.Conn, header); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(header)
	key := int16(binary.BigEndian.Uint16(header[4:])) //nolint:gosec // the protocol's keys are signed
	err := checkRequest(size, key)
	if err != nil {
		c.logger.Warn("kafka broker: connection ended", slog.String("client", c.RemoteAddr().String()), slog.Any("error", err))
		return err
	}
	c.header, c.body = header, int(size)-minRequestBytes
	if key == kmsg.JoinGroup.Int16() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.joinID, c.answered = binary.BigEndian.Uint32(header[8:]), make(chan struct{})
	}
	return nil
}

func checkRequest(size uint32, key int16) error {
	switch {
	case size < minRequestBytes || size > maxRequestBytes:
		return fmt.Errorf("a request of %d bytes; is this a client of Kafka, with TLS as the broker has it?", size)
	case kmsg.RequestForKey(key) == nil:
		return fmt.Errorf("a request of the unknown kind %d", key)
	}
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
	c.gate.wait()
	n, err := c.Conn.Write(p)
	if len(p) >= 8 {
		c.mu.Lock()
		if c.answered != nil && binary.BigEndian.Uint32(p[4:]) == c.joinID {
			close(c.answered)
			c.answered = nil
		}
		c.mu.Unlock()
	}
	return n, err
}

func (c *gatedConn) Close() error {
	c.gate.remove(c)
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
