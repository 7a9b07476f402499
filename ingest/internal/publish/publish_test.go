package publish_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/ingest/internal/publish"
	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
)

const topic = "things"

func start(t *testing.T) (*broker.Broker, bus.Config, *bus.Writer) {
	t.Helper()
	b := brokertest.Start(t)
	cfg := bus.Config{Brokers: b.Addrs()}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: topic, Partitions: 4}}))
	w := bus.NewWriter(cfg)
	// Failures must reach the publisher soon.
	w.MaxAttempts, w.WriteBackoffMin, w.BatchSize = 1, time.Millisecond, 50
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return b, cfg, w
}

func read(t *testing.T, cfg bus.Config) []kafka.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var messages []kafka.Message
	var mu sync.Mutex
	f := bus.Follow(
		ctx, cfg,
		bus.FollowConfig{
			Topics:  []string{topic},
			MaxWait: 50 * time.Millisecond,
			Handle: func(_ context.Context, m kafka.Message) error {
				mu.Lock()
				defer mu.Unlock()
				messages = append(messages, m)
				return nil
			},
		},
	)
	require.NoError(t, f.WaitReady(ctx))
	require.NoError(t, f.Close())
	return messages
}

// completions counts how batches completed.
type completions struct {
	mu     sync.Mutex
	stored int
	errs   []error
}

func (s *completions) complete(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.stored++
	} else {
		s.errs = append(s.errs, err)
	}
}

// A fifth of all writes fail, half of those after they were stored. Every message is stored, and
// the last one stored per key is the last one published.
func TestPublisher_KeepsOrderUnderFaults(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const keys, batches, size = 23, 30, 40
			b, cfg, w := start(t)
			random := rand.New(rand.NewPCG(seed, 0)) // used only in the cluster's goroutine
			failing := func(kmsg.Request) bool { return random.IntN(10) == 0 }
			faults := b.Cluster().Fault(
				kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1, When: failing},
				kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: -1, When: failing},
			)
			p := publish.New(t.Context(), w, 4, publish.Options{})
			var got completions
			n := 0
			for range batches {
				batch := p.NewBatch(got.complete)
				for range size {
					batch.Add(
						kafka.Message{
							Topic: topic,
							Key:   []byte(strconv.Itoa(n % keys)),
							Value: []byte(strconv.Itoa(n)),
						},
					)
					n++
				}
				require.Equal(t, size, batch.Len())
				p.Publish(batch)
			}
			require.NoError(t, p.Close())
			require.NotZero(t, faults.Hits())
			faults.Remove()
			require.Equal(t, batches, got.stored)
			require.Empty(t, got.errs)

			last := make(map[string]string)
			present := make(map[string]bool)
			messages := read(t, cfg)
			for _, m := range messages {
				last[string(m.Key)] = string(m.Value)
				present[string(m.Value)] = true
			}
			require.Equal(t, n, len(present))
			for i := n - keys; i < n; i++ {
				require.Equal(t, strconv.Itoa(i), last[strconv.Itoa(i%keys)])
			}
			t.Logf("%d messages, %d stored, %d faults", n, len(messages), faults.Hits())
		})
	}
}

func TestPublisher_StoresOnceInOrder(t *testing.T) {
	const keys, batches, size = 50, 40, 200
	_, cfg, w := start(t)
	w.WriteTimeout = time.Minute                           // a slow broker would store messages twice
	p := publish.New(t.Context(), w, 3, publish.Options{}) // does not divide the partitions
	var got completions
	n := 0
	for range batches {
		batch := p.NewBatch(got.complete)
		for range size {
			batch.Add(kafka.Message{Topic: topic, Key: []byte(strconv.Itoa(n % keys)), Value: []byte(strconv.Itoa(n))})
			n++
		}
		p.Publish(batch)
	}
	p.Publish(p.NewBatch(got.complete)) // an empty batch completes too
	require.NoError(t, p.Close())
	require.Equal(t, batches+1, got.stored)
	next := make(map[string]int)
	for i := range keys {
		next[strconv.Itoa(i)] = i
	}
	for _, m := range read(t, cfg) {
		require.Equal(t, strconv.Itoa(next[string(m.Key)]), string(m.Value))
		next[string(m.Key)] += keys
	}
	for i := range keys {
		require.Equal(t, n+i, next[strconv.Itoa(i)])
	}
}

// Nothing published later is stored, and every batch completes.
func TestPublisher_UnstorableMessageStopsPublisher(t *testing.T) {
	_, cfg, w := start(t)
	p := publish.New(t.Context(), w, 2, publish.Options{})
	var got completions
	bad := p.NewBatch(got.complete)
	bad.Add(kafka.Message{Topic: topic, Key: []byte("a"), Value: make([]byte, 3<<20)})
	p.Publish(bad)
	<-p.Stopped()
	next := p.NewBatch(got.complete)
	for i := range 20 {
		next.Add(kafka.Message{Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte("x")})
	}
	p.Publish(next)
	err := p.Close()
	require.ErrorIs(t, err, kafka.MessageSizeTooLarge)
	require.Zero(t, got.stored)
	require.Len(t, got.errs, 2)
	for _, e := range got.errs {
		require.ErrorIs(t, e, publish.ErrStopped)
	}
	require.Empty(t, read(t, cfg))
}

func TestPublisher_ContextEndsWaitForBroker(t *testing.T) {
	b, _, w := start(t)
	require.NoError(t, b.Close())
	ctx, cancel := context.WithCancelCause(t.Context())
	p := publish.New(ctx, w, 2, publish.Options{})
	var got completions
	batch := p.NewBatch(got.complete)
	for i := range 20 {
		batch.Add(kafka.Message{Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte("x")})
	}
	p.Publish(batch)
	enough := errors.New("enough")
	cancel(enough)
	require.ErrorIs(t, p.Close(), enough)
	require.Zero(t, got.stored)
	require.Len(t, got.errs, 1, "completed once")
}
