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

// Whoever waits for brokers that are away, or refuse, says so in the log: first after 20 seconds, when a command
// has given up, then each minute.
func TestWaitingIsTold(t *testing.T) {
	refused := errors.New("password is wrong")
	// As HTTP push does, which gives up earlier than it would be told.
	inTurns := func(ctx context.Context, w *Writer) error {
		for ctx.Err() == nil {
			turn, cancel := context.WithTimeout(ctx, 11*time.Second)
			_ = WriteAll(turn, w, []kafka.Message{{Topic: "t"}})
			cancel()
		}
		return errors.Join(ctx.Err(), w.Close())
	}
	for name, waits := range map[string]func(context.Context, Config) error{
		"for topics": func(ctx context.Context, cfg Config) error {
			_, err := awaitTopics(ctx, cfg, []string{"t"})
			return err
		},
		"to make topics": func(ctx context.Context, cfg Config) error {
			return createMissing(ctx, cfg, &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: refusing{refused}}, []Topic{{Name: "t", Partitions: 1}})
		},
		"to write": func(ctx context.Context, cfg Config) error {
			w := NewWriter(cfg, func(w *kafka.Writer) { w.Transport = refusing{refused} })
			var lanes sync.WaitGroup
			lanes.Go(func() { _ = WriteAll(ctx, w, []kafka.Message{{Topic: "u"}}) }) // it says nothing more
			err := WriteAll(ctx, w, []kafka.Message{{Topic: "t"}})
			lanes.Wait()
			return errors.Join(err, w.Close())
		},
		"to write each by itself": func(ctx context.Context, cfg Config) error {
			w := NewWriter(cfg, func(w *kafka.Writer) { w.Transport = refusing{refused} })
			return errors.Join(WriteAll(ctx, w.Alone(), []kafka.Message{{Topic: "t"}}), w.Close())
		},
		"to write in turns": func(ctx context.Context, cfg Config) error {
			return inTurns(ctx, NewWriter(cfg, func(w *kafka.Writer) { w.Transport = refusing{refused} }))
		},
		"to write in turns, without an answer": func(ctx context.Context, cfg Config) error {
			return inTurns(ctx, NewWriter(cfg, func(w *kafka.Writer) { w.Transport = silent{} }))
		},
	} {
		for after, lines := range map[time.Duration]int{19 * time.Second: 0, 30 * time.Second: 1, 3 * time.Minute: 3} {
			t.Run(name+" "+after.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					// Nobody is at an address without a port: no connection is tried.
					cfg := Config{Brokers: []string{"127.0.0.1:-1"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
					require.ErrorIs(t, waits(ctx, cfg), context.DeadlineExceeded)
					require.Equal(t, lines, strings.Count(log.String(), "still waited for"), log.String())
					require.Equal(t, lines, strings.Count(log.String(), "error="), log.String())
				})
			})
		}
	}
}

// What failed before something was written is not waited for any more, unless somebody still does.
func TestWaitingIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWaiting(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lane := time.Now()
		w.why(t.Context(), lane, errors.New("first"))
		time.Sleep(time.Hour)
		w.over()
		w.why(t.Context(), time.Now(), errors.New("second"))
		require.Empty(t, log.String())
		w.why(t.Context(), lane, errors.New("third"))
		require.Contains(t, log.String(), "error=third")
	})
}

// silent is a transport to brokers that answer nothing.
type silent struct{}

func (silent) RoundTrip(ctx context.Context, _ net.Addr, _ kafka.Request) (kafka.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// refusing is a transport to brokers that refuse everything.
type refusing struct{ err error }

func (r refusing) RoundTrip(context.Context, net.Addr, kafka.Request) (kafka.Response, error) {
	return nil, r.err
}
