package post_test

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/webhook-sender/internal/post"
)

// The HTTP/2 connection dies silently, as behind a load balancer that fails over.
func TestClient_ReplacesDeadHTTP2Connection(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var dead atomic.Bool // drops the data of the first connection
	var connections atomic.Int32
	var pipes sync.WaitGroup
	pipe := func(to, from net.Conn, first bool) {
		pipes.Go(func() {
			defer func() { _ = to.Close() }()
			b := make([]byte, 16<<10)
			for {
				n, err := from.Read(b)
				if err != nil {
					return
				}
				if first && dead.Load() {
					continue
				}
				if _, err := to.Write(b[:n]); err != nil {
					return
				}
			}
		})
	}
	pipes.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				_ = in.Close()
				return
			}
			first := connections.Add(1) == 1
			pipe(in, out, first)
			pipe(out, in, first)
		}
	})
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	client := post.New(post.Config{Timeout: time.Second, PingTimeout: 50 * time.Millisecond, Allow: loopback(),
		RootCAs: pool})
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, l.Close())
		server.CloseClientConnections()
		server.Close()
		pipes.Wait()
	})
	send := func() post.Result {
		return client.Post(t.Context(), "https://"+l.Addr().String()+"/", http.Header{}, []byte("{}"))
	}
	require.Equal(t, 200, send().Status)
	dead.Store(true)
	require.Eventually(t, func() bool { return send().Status == 200 }, 10*time.Second, time.Millisecond)
}
