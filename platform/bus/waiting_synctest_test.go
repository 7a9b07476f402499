package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// Commands time out within 20 seconds and print the cause themselves.
func TestWaitReporter_LogsCauseAfter20SecondsAndThenEachMinute(t *testing.T) {
	errPassword := errors.New("password is wrong")
	// As HTTP push does, whose calls time out before a warning is due.
	repeatedly := func(ctx context.Context, w *Writer) error {
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, 11*time.Second)
			_ = WriteAll(attempt, w, []kafka.Message{{Topic: "t"}})
			cancel()
		}
		return errors.Join(ctx.Err(), w.Close())
	}
	withTransport := func(rt kafka.RoundTripper) WriterOption { return func(w *kafka.Writer) { w.Transport = rt } }
	for name, waits := range map[string]func(context.Context, Config) error{
		"await topics": func(ctx context.Context, cfg Config) error {
			_, err := awaitTopics(ctx, cfg, []string{"t"})
			return err
		},
		"create topics": func(ctx context.Context, cfg Config) error {
			client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: failing{errPassword}}
			return createMissing(ctx, cfg, client, []Topic{{Name: "t", Partitions: 1}})
		},
		"concurrent writes": func(ctx context.Context, cfg Config) error {
			w := NewWriter(cfg, withTransport(failing{errPassword}))
			var other sync.WaitGroup
			other.Go(func() { _ = WriteAll(ctx, w, []kafka.Message{{Topic: "u"}}) }) // logs nothing more
			err := WriteAll(ctx, w, []kafka.Message{{Topic: "t"}})
			other.Wait()
			return errors.Join(err, w.Close())
		},
		"unbatched write": func(ctx context.Context, cfg Config) error {
			w := NewWriter(cfg, withTransport(failing{errPassword}))
			return errors.Join(WriteAll(ctx, w.Unbatched(), []kafka.Message{{Topic: "t"}}), w.Close())
		},
		"repeated writes": func(ctx context.Context, cfg Config) error {
			return repeatedly(ctx, NewWriter(cfg, withTransport(failing{errPassword})))
		},
		"repeated writes, no response": func(ctx context.Context, cfg Config) error {
			return repeatedly(ctx, NewWriter(cfg, withTransport(silent{})))
		},
	} {
		for after, lines := range map[time.Duration]int{19 * time.Second: 0, 30 * time.Second: 1, 3 * time.Minute: 3} {
			t.Run(name+" "+after.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					// The port is invalid, so no connection is attempted.
					cfg := Config{Brokers: []string{"127.0.0.1:-1"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
					require.ErrorIs(t, waits(ctx, cfg), context.DeadlineExceeded)
					require.Equal(t, lines, strings.Count(log.String(), "still waiting for Kafka"), log.String())
					require.Equal(t, lines, strings.Count(log.String(), "error="), log.String())
				})
			})
		}
	}
}

func TestWaitReporter_SuccessEndsFinishedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWaitReporter(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		began := time.Now()
		w.failed(t.Context(), began, errors.New("first"))
		// The clock is synctest's: no real time passes.
		time.Sleep(time.Hour)
		w.succeeded()
		w.failed(t.Context(), time.Now(), errors.New("second"))
		require.Empty(t, log.String())
		w.failed(t.Context(), began, errors.New("third"))
		require.Contains(t, log.String(), "error=third")
	})
}

// silent is a transport to brokers that do not respond.
type silent struct{}

func (silent) RoundTrip(ctx context.Context, _ net.Addr, _ kafka.Request) (kafka.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// failing is a transport to brokers that reject everything.
type failing struct{ err error }

func (r failing) RoundTrip(context.Context, net.Addr, kafka.Request) (kafka.Response, error) {
	return nil, r.err
}
