package bus_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// A request that was not answered in time, because the network held it up, does not arrive behind what
// was written after its retry: the log would end with a key's older version.
func TestLateRequestIsNotWritten(t *testing.T) {
	t.Parallel()
	line := &slowLine{released: make(chan struct{}), ended: make(chan struct{})}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8388608"}),
		kfake.ListenFn(func(network, addr string) (net.Listener, error) {
			var err error
			line.Listener, err = net.Listen(network, addr)
			return line, err
		}))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	cfg := bus.Config{Brokers: cluster.ListenAddrs()}
	w := bustest.Writer(t, cfg)
	w.Compression = 0
	w.WriteTimeout = time.Second // then the first try, which is held up, is over; another may be, too
	older := kafka.Message{Topic: "t", Key: []byte("k"), Value: []byte("older" + strings.Repeat(".", 2_000_000))}
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{older}))
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: "t", Key: []byte("k"), Value: []byte("newer")}}))
	close(line.released)
	<-line.ended
	var last string
	_, err = bus.Read(t.Context(), cfg, "t", nil, func(m kafka.Message) error {
		last = string(m.Value[:5])
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "newer", last)
}

// slowLine lets no more than the first bytes of the first request through that holds a word, until it is released.
type slowLine struct {
	net.Listener
	held            atomic.Pointer[slowConn]
	once            sync.Once
	released, ended chan struct{} // ended: the broker has closed the connection that was held up
}

func (l *slowLine) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.held.Load() == nil { // it holds no more than this up: what has arrived has arrived
		err = c.(*net.TCPConn).SetReadBuffer(128 << 10)
	}
	return &slowConn{Conn: c, line: l}, err
}

type slowConn struct {
	net.Conn
	line *slowLine
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bytes.Contains(p[:n], []byte("older")) && c.line.held.CompareAndSwap(nil, c) {
		<-c.line.released
	}
	return n, err
}

func (c *slowConn) Close() error {
	if c.line.held.Load() == c {
		c.line.once.Do(func() { close(c.line.ended) })
	}
	return c.Conn.Close()
}
