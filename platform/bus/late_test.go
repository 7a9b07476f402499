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

// A request that the network delayed until after its retry must not be stored after newer writes: the log would end
// with an older version of a key.
func TestWriteAll_DelayedRequestIsNotStoredAfterNewerWrites(t *testing.T) {
	t.Parallel()
	line := &slowLine{released: make(chan struct{}), ended: make(chan struct{})}
	listen := func(network, addr string) (net.Listener, error) {
		var err error
		line.Listener, err = net.Listen(network, addr)
		return line, err
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(listen),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8388608"}))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	cfg := bus.Config{Brokers: cluster.ListenAddrs()}
	w := bustest.Writer(t, cfg)
	w.Compression = 0
	w.WriteTimeout = time.Second // ends the delayed attempt
	older := kafka.Message{Topic: "t", Key: []byte("k"), Value: []byte("older" + strings.Repeat(".", 2_000_000))}
	newer := kafka.Message{Topic: "t", Key: []byte("k"), Value: []byte("newer")}
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{older}))
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{newer}))
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

// slowLine delays the first request that contains "older" after its first bytes, until it is released.
type slowLine struct {
	net.Listener
	held            atomic.Pointer[slowConn]
	once            sync.Once
	released, ended chan struct{} // ended: the broker has closed the delayed connection
}

func (l *slowLine) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.held.Load() == nil { // limits what the kernel has received before the delay
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
