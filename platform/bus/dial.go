package bus

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
)

// dial connects to a broker, with TLS if the Config has it.
func (c Config) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	if c.TLS == nil {
		conn, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &answers{Conn: conn}, nil
	}
	conn, err := (&tls.Dialer{NetDialer: plain, Config: c.TLS}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &answers{Conn: conn}, nil
}

// answers is a connection that ends where no answer of a broker begins. kafka-go makes
// room for whatever an answer says that it has: the few bytes that a server of another
// protocol says, such as an HTTP server, ended the process.
type answers struct {
	net.Conn
	size [4]byte // of the next answer: its first bytes
	read int     // how many of them there are
	left uint32  // bytes of an answer that are to come
}

// Read implements [net.Conn].
func (a *answers) Read(p []byte) (int, error) {
	if a.left > maxAnswerBytes {
		return 0, notABroker(a.RemoteAddr(), a.size)
	}
	n, err := a.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if a.left > 0 {
			step := min(len(rest), int(a.left))
			rest, a.left = rest[step:], a.left-uint32(step)
			continue
		}
		step := copy(a.size[a.read:], rest)
		rest, a.read = rest[step:], a.read+step
		if a.read < len(a.size) {
			continue
		}
		a.read, a.left = 0, binary.BigEndian.Uint32(a.size[:])
		if a.left > maxAnswerBytes {
			return 0, notABroker(a.RemoteAddr(), a.size)
		}
	}
	return n, err
}

// notABroker says what it can of a server from its first bytes.
func notABroker(addr net.Addr, first [4]byte) error {
	switch {
	case first[0] == 0x15 && first[1] == 3: // RFC 8446, section 5.1: an alert
		return fmt.Errorf("%s wants TLS: set KAFKA_TLS", addr)
	case string(first[:]) == "HTTP":
		return fmt.Errorf("%s speaks HTTP, not the protocol of Kafka", addr)
	}
	return fmt.Errorf("%s does not speak the protocol of Kafka: it said %q", addr, first)
}
