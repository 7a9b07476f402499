package bus

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/require"
)

type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func (readConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// Answers are told from what is none however the bytes arrive.
func TestAnswers(t *testing.T) {
	good := []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x00\x04HTTP")
	bad := append(bytes.Clone(good), "HTTP/1.1 400"...)
	for name, chunks := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r },
		"singly":  iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(&answers{Conn: readConn{Reader: chunks(bytes.NewReader(good))}})
			require.NoError(t, err)
			require.Equal(t, good, got)
			a := &answers{Conn: readConn{Reader: chunks(bytes.NewReader(bad))}}
			got, err = io.ReadAll(a)
			require.ErrorContains(t, err, "speaks HTTP")
			require.LessOrEqual(t, len(got), len(good)+3)
			_, err = a.Read(make([]byte, 1))
			require.Error(t, err)
		})
	}
}

// An end of the connection is told as one of the login until the login is over, which is an answer earlier with PLAIN.
func TestEndOfTheLogin(t *testing.T) {
	scram, err := SCRAM("muster", "secret")
	require.NoError(t, err)
	const login, first = "user and password right", "at the first request"
	for name, tc := range map[string]struct {
		sasl    sasl.Mechanism
		answers int
		says    string
	}{
		"none, before any":    {nil, 0, ""},
		"none, the first":     {nil, 1, first},
		"none, later":         {nil, 2, ""},
		"PLAIN, versions":     {plain.Mechanism{}, 1, ""},
		"PLAIN, handshake":    {plain.Mechanism{}, 2, login},
		"PLAIN, logged in":    {plain.Mechanism{}, 3, ""},
		"PLAIN, later":        {plain.Mechanism{}, 9, ""},
		"SCRAM, versions":     {scram, 1, ""},
		"SCRAM, handshake":    {scram, 2, login},
		"SCRAM, challenge":    {scram, 3, login},
		"SCRAM, logged in":    {scram, 4, ""},
		"SCRAM, long a while": {scram, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			said := bytes.NewReader(bytes.Repeat([]byte{0, 0, 0, 1, 7}, tc.answers))
			_, err := io.ReadAll(&answers{Conn: readConn{Reader: said}, login: Config{SASL: tc.sasl}.loginAnswers()})
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}
