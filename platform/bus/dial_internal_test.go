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

func TestResponseReader_DetectsForeignProtocolAtAnyChunking(t *testing.T) {
	good := []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x00\x04HTTP")
	bad := append(bytes.Clone(good), "HTTP/1.1 400"...)
	for name, chunks := range map[string]func(io.Reader) io.Reader{
		"whole":  func(r io.Reader) io.Reader { return r },
		"singly": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(&responseReader{Conn: readConn{Reader: chunks(bytes.NewReader(good))}})
			require.NoError(t, err)
			require.Equal(t, good, got)
			a := &responseReader{Conn: readConn{Reader: chunks(bytes.NewReader(bad))}}
			got, err = io.ReadAll(a)
			require.ErrorContains(t, err, "speaks HTTP")
			require.LessOrEqual(t, len(got), len(good)+3)
			_, err = a.Read(make([]byte, 1))
			require.Error(t, err)
		})
	}
}

func TestResponseReader_ExplainsDisconnectOnlyDuringLogin(t *testing.T) {
	scram, err := SCRAM("muster", "secret")
	require.NoError(t, err)
	const login, first = "check user and password", "at the first request"
	for name, tc := range map[string]struct {
		sasl      sasl.Mechanism
		responses int
		want      string
	}{
		"none, before any":  {nil, 0, ""},
		"none, the first":   {nil, 1, first},
		"none, later":       {nil, 2, ""},
		"PLAIN, versions":   {plain.Mechanism{}, 1, ""},
		"PLAIN, handshake":  {plain.Mechanism{}, 2, login},
		"PLAIN, logged in":  {plain.Mechanism{}, 3, ""},
		"PLAIN, later":      {plain.Mechanism{}, 9, ""},
		"SCRAM, versions":   {scram, 1, ""},
		"SCRAM, handshake":  {scram, 2, login},
		"SCRAM, challenge":  {scram, 3, login},
		"SCRAM, logged in":  {scram, 4, ""},
		"SCRAM, much later": {scram, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sent := bytes.NewReader(bytes.Repeat([]byte{0, 0, 0, 1, 7}, tc.responses))
			login := Config{SASL: tc.sasl}.loginResponses()
			_, err := io.ReadAll(&responseReader{Conn: readConn{Reader: sent}, login: login})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
