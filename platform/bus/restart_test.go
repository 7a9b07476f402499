package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// Messages finished after an unfinished one are redelivered after a restart.
func TestSubscriber_LimitsUncommittedMessages(t *testing.T) {
	const limit = 256 // MaxInFlight times 128
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, limit+100)
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{
		Config: cfg, Group: "g", MaxInFlight: 2, Timing: bustest.SlowTiming(),
	})
	require.NoError(t, err)
	out, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	slow := <-out
	for range limit - 1 {
		(<-out).Ack()
	}
	select {
	case m := <-out:
		t.Fatalf("%s is delivered, %d after the unfinished one", m.Payload, limit)
	case <-time.After(200 * time.Millisecond):
	}
	slow.Ack()
	for i := range 100 {
		m := <-out
		require.Equal(t, fmt.Sprintf("v%d", limit+i), string(m.Payload))
		m.Ack()
	}
	require.NoError(t, sub.Close())
	bustest.RequireNoLag(t, cfg, "g", topic)
}

func TestSubscriber_DrainsAfterContextOfRouterEnds(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 1)
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cfg, Group: "g", Timing: bustest.SlowTiming()})
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 20 * time.Second}, watermill.NopLogger{})
	require.NoError(t, err)
	started := make(chan struct{})
	router.AddConsumerHandler("h", topic, sub, func(m *message.Message) error {
		close(started)
		select {
		case <-m.Context().Done():
			return context.Cause(m.Context())
		case <-time.After(300 * time.Millisecond):
			return nil
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- router.Run(ctx) }()
	<-started
	stop()
	require.NoError(t, <-done)
	bustest.RequireNoLag(t, cfg, "g", topic)
}

func TestSubscriber_CommitsAcksDuringDrain(t *testing.T) {
	_, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 2)
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cfg, Group: "g", Timing: bustest.SlowTiming()})
	require.NoError(t, err)
	out, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	m := <-out
	var closed atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := sub.Close()
		closed.Store(true)
		done <- err
	}()
	select {
	case <-m.Context().Done():
		t.Fatal("the message's context ended immediately")
	case <-time.After(100 * time.Millisecond):
	}
	require.False(t, closed.Load())
	m.Ack()
	require.NoError(t, <-done)
	_, open := <-out
	require.False(t, open)
	lag, err := bus.Lag(t.Context(), cfg, "g", []string{topic})
	require.NoError(t, err)
	require.Equal(t, int64(1), lag[0].Committed)
	_, err = sub.Subscribe(t.Context(), topic)
	require.ErrorIs(t, err, bus.ErrClosed)
}

func TestFollow_BacksOffWhenValidPositionIsRejected(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 1)
	fault := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: -1})
	var fetches atomic.Int32
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		fetches.Add(1)
		return nil, nil, false
	})
	handled := make(chan struct{})
	handle := func(context.Context, kafka.Message) error {
		close(handled)
		return nil
	}
	f := bus.Follow(t.Context(), cfg, bus.FollowConfig{Topics: []string{topic}, Handle: handle})
	<-time.After(300 * time.Millisecond)
	require.Less(t, fetches.Load(), int32(20))
	fault.Remove()
	<-handled
	require.NoError(t, f.Close())
}

// The log may have other messages below the position, which cannot be detected otherwise.
func TestConsumer_LogsThatLogWasShorter(t *testing.T) {
	b, cfg := startOwn(t)
	topic := bustest.Topic(t, cfg, 1, nil)
	bustest.Produce(t, bustest.Writer(t, cfg), topic, 0, 3)
	client := &kafka.Client{Addr: kafka.TCP(b.Addrs()...)}
	_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "g", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 2}}},
	})
	require.NoError(t, err)
	var fetches atomic.Int32
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: 1})
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		fetches.Add(1)
		return nil, nil, false
	})
	b.Cluster().ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		if fetches.Load() > 1 {
			return nil, nil, false
		}
		req := r.(*kmsg.ListOffsetsRequest)
		res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		listed := kmsg.NewListOffsetsResponseTopic()
		listed.Topic = topic
		part := kmsg.NewListOffsetsResponseTopicPartition()
		// -2 requests the start and -1 the end, which is 1 here.
		part.Offset, part.Timestamp = max(0, 2+req.Topics[0].Partitions[0].Timestamp), -1
		listed.Partitions = append(listed.Partitions, part)
		res.Topics = append(res.Topics, listed)
		return res, nil, true
	})
	var log bytes.Buffer
	handled := make(chan string, 3)
	c, err := bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: cfg, Group: "g", Topics: []string{topic}, MaxAge: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Timing: bustest.SlowTiming(),
		Handle: func(_ context.Context, batch bus.Batch) error {
			for _, m := range batch.Messages {
				handled <- string(m.Value)
			}
			return nil
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	require.Equal(t, "v2", <-handled)
	stop()
	require.NoError(t, <-ended)
	require.Contains(t, log.String(), "level=ERROR msg=\"the log was shorter than the position")
}
