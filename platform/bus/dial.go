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
		return &responseReader{Conn: conn, login: c.loginResponses()}, nil
	}
	conn, err := (&tls.Dialer{NetDialer: plain, Config: c.TLS}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &responseReader{Conn: conn, login: c.loginResponses()}, nil
}

// loginResponses returns the number of responses of a login: ApiVersions, SaslHandshake and those of the mechanism.
func (c Config) loginResponses() int {
	switch {
	case c.SASL == nil:
		return 0
	case c.SASL.Name() == "PLAIN":
		return 3 // one round
	}
	return 4 // SCRAM: two rounds
}

// responseReader is a connection that fails if the server sends something other than Kafka responses. kafka-go
// allocates whatever size a response claims: the first bytes of another protocol, such as HTTP, crashed the process.
// If the broker closes the connection before the client is authenticated, the error explains how to configure the
// login.
type responseReader struct {
	net.Conn
	login     int     // number of responses of the login; 0 without authentication
	started   int     // number of responses started, up to the end of the login
	size      [4]byte // size of the next response
	read      int     // number of bytes of size that were read
	remaining uint32  // bytes of the current response that are still to be read
}

// Read implements [net.Conn].
func (a *responseReader) Read(p []byte) (int, error) {
	if a.remaining > maxResponseBytes {
		return 0, explainNotKafka(a.RemoteAddr(), a.size)
	}
	n, err := a.Conn.Read(p)
	a.closeTimedOut(err)
	if n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		return 0, a.explainDisconnect(err)
	}
	for rest := p[:n]; len(rest) > 0; {
		if a.remaining > 0 {
			step := min(len(rest), int(a.remaining))
			rest, a.remaining = rest[step:], a.remaining-uint32(step)
			continue
		}
		step := copy(a.size[a.read:], rest)
		rest, a.read = rest[step:], a.read+step
		if a.read < len(a.size) {
			continue
		}
		a.read, a.remaining = 0, binary.BigEndian.Uint32(a.size[:])
		a.started = min(a.started+1, max(a.login, 2))
		if a.remaining > maxResponseBytes {
			return 0, explainNotKafka(a.RemoteAddr(), a.size)
		}
	}
	return n, err
}

// Write implements [net.Conn].
func (a *responseReader) Write(p []byte) (int, error) {
	n, err := a.Conn.Write(p)
	a.closeTimedOut(err)
	return n, err
}

// closeTimedOut closes the connection after a timeout and discards what the kernel has not sent. The kernel would retry
// for minutes: a delayed batch could arrive after its own retry and after newer writes, and the log would end with an
// older version of a key.
func (a *responseReader) closeTimedOut(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	conn := a.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
		_ = plain.Close() // the user of the connection closes it as well and gets this error
	}
}

// explainDisconnect adds the likely cause to a disconnect during login: a disconnect is all that brokers send to an
// unauthenticated client, and some after a wrong password.
func (a *responseReader) explainDisconnect(err error) error {
	cause := err
	if errors.Is(err, io.EOF) { // kafka-go replaces errors that wrap io.EOF
		cause = io.ErrUnexpectedEOF
	}
	switch {
	case a.started > 1 && a.started < a.login:
		return fmt.Errorf("%s closed the connection during login: check user and password (KAFKA_SASL_USERNAME and "+
			"KAFKA_SASL_PASSWORD, or those of standalone.json in its data directory): %w", a.RemoteAddr(), cause)
	case a.login == 0 && a.started == 1:
		return fmt.Errorf("%s closed the connection at the first request: if it requires a user and a password, "+
			"set KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD; for the broker of `muster up`, "+
			"pass its data directory with --data-dir instead of KAFKA_BROKERS, or use kafka_user and kafka_password "+
			"of its standalone.json with SCRAM-SHA-256: %w", a.RemoteAddr(), cause)
	}
	return err
}

// explainNotKafka returns an error that names the protocol of a server from its first bytes.
func explainNotKafka(addr net.Addr, first [4]byte) error {
	switch {
	case first[0] == 0x15 && first[1] == 3: // a TLS alert, RFC 8446, section 5.1
		return fmt.Errorf("%s requires TLS: set KAFKA_TLS", addr)
	case string(first[:]) == "HTTP":
		return fmt.Errorf("%s speaks HTTP, not the Kafka protocol", addr)
	}
	return fmt.Errorf("%s does not speak the Kafka protocol: it sent %q", addr, first)
}
