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

// kafka-go would allocate gigabytes for the first bytes of an HTTP server.
func TestDial_NamesProtocolOfOtherServers(t *testing.T) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	trusted := secure.Client().Transport.(*http.Transport).TLSClientConfig
	for name, tc := range map[string]struct {
		cfg  bus.Config
		want string
	}{
		"HTTP":         {bus.Config{Brokers: []string{plain.Listener.Addr().String()}}, "speaks HTTP"},
		"HTTPS":        {bus.Config{Brokers: []string{secure.Listener.Addr().String()}, TLS: trusted}, "speaks HTTP"},
		"TLS required": {bus.Config{Brokers: []string{serveText(t, "\x15\x03\x01\x00\x02\x02\x46")}}, "set KAFKA_TLS"},
		"Redis":        {bus.Config{Brokers: []string{serveText(t, "-ERR Protocol error\r\n")}}, `it sent "-ERR"`},
		"a large size": {
			bus.Config{Brokers: []string{serveText(t, "\x7f\xff\xff\xff\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff")}},
			"does not speak the Kafka protocol",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, do := range map[string]func(ctx context.Context) error{
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
				// Some retry until the timeout, which may be too short for a response on a busy machine.
				for timeout := time.Second; ; timeout *= 2 {
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					err := do(ctx)
					cancel()
					require.Error(t, err, name)
					if timeout > time.Minute || strings.Contains(err.Error(), tc.want) {
						require.ErrorContains(t, err, tc.want, name)
						break
					}
				}
			}
		})
	}
}

func TestRead_TimeoutErrorIncludesLastCause(t *testing.T) {
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
	_, err = bus.Read(ctx, bus.Config{Brokers: []string{l.Addr().String()}}, "t", nil,
		func(kafka.Message) error { return nil })
	require.ErrorContains(t, err, `it sent "-ERR"`)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, l.Close())
	serving.Wait()
}

// Brokers close the connection of unauthenticated clients, and the embedded broker also after a wrong password.
func TestDial_ExplainsDisconnectDuringLogin(t *testing.T) {
	users := []broker.User{{Mechanism: "SCRAM-SHA-256", Name: "muster", Password: "secret"}}
	b := brokertest.StartConfig(t, broker.Config{DataDir: t.TempDir(), Users: users})
	login := func(user, password string) bus.Config {
		mechanism, err := bus.SCRAM(user, password)
		require.NoError(t, err)
		return bus.Config{Brokers: b.Addrs(), SASL: mechanism}
	}
	for name, tc := range map[string]struct {
		cfg  bus.Config
		want string
	}{
		"no login":         {bus.Config{Brokers: b.Addrs()}, "KAFKA_SASL_MECHANISM"},
		"a wrong password": {login("muster", "guess"), "check user and password"},
		"a wrong user":     {login("anna", "secret"), "check user and password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, do := range map[string]func(ctx context.Context) error{
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
				require.ErrorContains(t, do(ctx), tc.want, name)
				cancel()
			}
		})
	}
}

// serveText returns the address of a server that sends text to each client after its first byte.
func serveText(t *testing.T, text string) string {
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
					_, _ = fmt.Fprint(c, text)
					_, _ = c.Read(make([]byte, 1<<10))
				}
			}()
		}
	}()
	return l.Addr().String()
}
