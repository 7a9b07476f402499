package bus

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// dial connects to a broker, with TLS if the Config has it.
func (c Config) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	if c.TLS == nil {
		conn, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &answers{Conn: conn, login: c.loginAnswers()}, nil
	}
	conn, err := (&tls.Dialer{NetDialer: plain, Config: c.TLS}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &answers{Conn: conn, login: c.loginAnswers()}, nil
}

// loginAnswers is how many answers a login has: the versions, the handshake, and those of the mechanism.
func (c Config) loginAnswers() int {
	switch {
	case c.SASL == nil:
		return 0
	case c.SASL.Name() == "PLAIN":
		return 3 // the end
	}
	return 4 // SCRAM: the challenge, the end
}

// answers is a connection that ends where no answer of a broker begins. kafka-go makes
// room for whatever an answer says that it has: the few bytes that a server of another
// protocol says, such as an HTTP server, ended the process. One that the broker ends
// before it knows who the client is ends with what can be done about it.
type answers struct {
	net.Conn
	login int     // how many answers the login has: none if the client does not say who it is
	begun int     // how many answers have begun, as far as that is of interest
	size  [4]byte // of the next answer: its first bytes
	read  int     // how many of them there are
	left  uint32  // bytes of an answer that are to come
}

// Read implements [net.Conn].
func (a *answers) Read(p []byte) (int, error) {
	if a.left > maxAnswerBytes {
		return 0, notABroker(a.RemoteAddr(), a.size)
	}
	n, err := a.Conn.Read(p)
	a.overdue(err)
	if n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		return 0, a.ended(err)
	}
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
		a.begun = min(a.begun+1, max(a.login, 2))
		if a.left > maxAnswerBytes {
			return 0, notABroker(a.RemoteAddr(), a.size)
		}
	}
	return n, err
}

// Write implements [net.Conn].
func (a *answers) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	a.overdue(err)
	return n, err
}

// overdue ends the connection when its time is over, and has the system throw away what it has not
// delivered yet. It would go on trying for minutes: a batch that the network had held up arrived
// behind what was written after its retry, and the log ended with a key's older version.
func (a *answers) overdue(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	conn := a.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
		_ = plain.Close() // who has the connection ends it, too, and gets this error
	}
}

// ended says what an end of the connection may mean, which is all that brokers say to
// somebody who has to say who they are and does not, and some to a wrong password.
func (a *answers) ended(err error) error {
	lost := err
	if errors.Is(err, io.EOF) { // which kafka-go would put in place of what is said here
		lost = io.ErrUnexpectedEOF
	}
	switch {
	case a.begun > 1 && a.begun < a.login:
		return fmt.Errorf("%s ended the connection at the login: are user and password right (KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD, "+
			"or those of standalone.json in its data folder)? %w", a.RemoteAddr(), lost)
	case a.login == 0 && a.begun == 1:
		return fmt.Errorf("%s ended the connection at the first request: if it wants a user and a password, set KAFKA_SASL_MECHANISM, "+
			"KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD; for the broker of `muster up`, name its data folder with --data-dir instead of "+
			"KAFKA_BROKERS, or take kafka_user and kafka_password of standalone.json there, with SCRAM-SHA-256: %w",
			a.RemoteAddr(), lost)
	}
	return err
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
