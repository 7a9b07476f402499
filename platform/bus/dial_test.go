package bus_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
)

// Somebody who configures the address of another server is told so, and has a process
// that goes on: kafka-go takes the first bytes of an HTTP server for gigabytes.
func TestOtherServers(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for name, tc := range map[string]struct {
		cfg  bus.Config
		says string
	}{
		"HTTP":          {bus.Config{Brokers: []string{plain.Listener.Addr().String()}}, "speaks HTTP"},
		"HTTPS":         {bus.Config{Brokers: []string{secure.Listener.Addr().String()}, TLS: secure.Client().Transport.(*http.Transport).TLSClientConfig}, "speaks HTTP"},
		"TLS is wanted": {bus.Config{Brokers: []string{speaking(t, "\x15\x03\x01\x00\x02\x02\x46")}}, "set KAFKA_TLS"},
		"Redis":         {bus.Config{Brokers: []string{speaking(t, "-ERR Protocol error\r\n")}}, `it said "-ERR"`},
		"as long as it gets": {
			bus.Config{Brokers: []string{speaking(t, "\x7f\xff\xff\xff\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff")}}, "does not speak the protocol of Kafka",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, does := range map[string]func(ctx context.Context) error{
				"ends": func(ctx context.Context) error {
					_, err := bus.EndOffsets(ctx, tc.cfg, []string{"t"})
					return err
				},
				"read": func(ctx context.Context) error {
					_, err := bus.Read(ctx, tc.cfg, "t", nil, func(kafka.Message) error { return nil })
					return err
				},
				"create": func(ctx context.Context) error {
					return bus.EnsureTopics(ctx, tc.cfg, []bus.Topic{{Name: "t", Partitions: 1}})
				},
				"write": func(ctx context.Context) error {
					w := bus.NewWriter(tc.cfg)
					defer func() { require.NoError(t, w.Close()) }()
					return w.WriteMessages(ctx, kafka.Message{Topic: "t"})
				},
			} {
				// Some try until their time is over, in which a busy machine may not come to an answer.
				for within := time.Second; ; within *= 2 {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					err := does(ctx)
					cancel()
					require.Error(t, err, what)
					if within > time.Minute || strings.Contains(err.Error(), tc.says) {
						require.ErrorContains(t, err, tc.says, what)
						break
					}
				}
			}
		})
	}
}

// A time that ends while a server is being asked again does not hide what it had said.
func TestReadTellsWhyNotThatItsTimeIsOver(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			if n < 2 {
				_, _ = c.Read(make([]byte, 1<<10))
				_, _ = fmt.Fprint(c, "-ERR Protocol error")
			} else {
				cancel()
			}
		}
	})
	_, err = bus.Read(ctx, bus.Config{Brokers: []string{l.Addr().String()}}, "t", nil, func(kafka.Message) error { return nil })
	require.ErrorContains(t, err, `it said "-ERR"`)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, l.Close())
	serving.Wait()
}

// A broker ends the connection of somebody who does not say who they are, and the embedded
// one at a wrong password too: they are told what that may mean.
func TestWhoIsIt(t *testing.T) {
	b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), Users: []broker.User{{Mechanism: "SCRAM-SHA-256", Name: "muster", Password: "secret"}}})
	login := func(user, password string) bus.Config {
		mechanism, err := bus.SCRAM(user, password)
		require.NoError(t, err)
		return bus.Config{Brokers: b.Addrs(), SASL: mechanism}
	}
	for name, tc := range map[string]struct {
		cfg  bus.Config
		says string
	}{
		"nobody":           {bus.Config{Brokers: b.Addrs()}, "KAFKA_SASL_MECHANISM"},
		"a wrong password": {login("muster", "guess"), "user and password right"},
		"a wrong user":     {login("anna", "secret"), "user and password right"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, does := range map[string]func(ctx context.Context) error{
				"ends": func(ctx context.Context) error {
					_, err := bus.EndOffsets(ctx, tc.cfg, []string{"t"})
					return err
				},
				"write": func(ctx context.Context) error {
					w := bus.NewWriter(tc.cfg)
					defer func() { require.NoError(t, w.Close()) }()
					return w.WriteMessages(ctx, kafka.Message{Topic: "t"})
				},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				require.ErrorContains(t, does(ctx), tc.says, what)
				cancel()
			}
		})
	}
}

// speaking returns the address of a server that says one thing to everybody who says
// something.
func speaking(t *testing.T, says string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				if _, err := c.Read(make([]byte, 1)); err == nil {
					_, _ = fmt.Fprint(c, says)
					_, _ = c.Read(make([]byte, 1<<10))
				}
			}()
		}
	}()
	return l.Addr().String()
}
