package bus

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"

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
