package redistest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Slow returns the URL of a proxy that delays the responses of the server by the given time, until the test ends.
func (s *Server) Slow(tb testing.TB, by time.Duration) (url string) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	address := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "redis://"), "/0")
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { relay(tb, client, address, by) })
		}
	})
	tb.Cleanup(func() {
		require.NoError(tb, l.Close())
		all.Wait()
	})
	return "redis://" + l.Addr().String() + "/0"
}

// relay forwards bytes until the client closes its connection.
func relay(tb testing.TB, client net.Conn, address string, by time.Duration) {
	defer client.Close()
	server, err := (&net.Dialer{}).Dial("tcp", address)
	if err != nil {
		tb.Error(err)
		return
	}
	type chunk struct {
		at    time.Time
		bytes []byte
	}
	answers := make(chan chunk, 1024)
	var both sync.WaitGroup
	both.Go(func() {
		defer close(answers)
		for {
			b := make([]byte, 32<<10)
			n, err := server.Read(b)
			if err != nil {
				return
			}
			answers <- chunk{time.Now().Add(by), b[:n]}
		}
	})
	both.Go(func() {
		for c := range answers {
			<-time.After(time.Until(c.at))
			_, _ = client.Write(c.bytes) // fails if the client has left
		}
	})
	_, _ = io.Copy(server, client) // ends with either
	_ = server.Close()
	both.Wait()
}
