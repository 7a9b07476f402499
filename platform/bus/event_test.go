package bus_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

func event() bus.Event {
	return bus.Event{
		ID: "id-1", Type: "muster.task.discovery.v1", Source: "/query-api", Subject: "a subject",
		Time: time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC), ContentType: "application/json",
	}
}

func TestSetEvent_FollowsKafkaProtocolBinding(t *testing.T) {
	own := make([]kafka.Header, 2, 10)
	own[0] = kafka.Header{Key: "mine", Value: []byte("1")}
	own[1] = kafka.Header{Key: bus.HeaderType, Value: []byte("old")}
	headers := bus.SetEvent(own, event())
	got, err := bus.GetEvent(headers)
	require.NoError(t, err)
	require.Equal(t, event(), got)
	require.Equal(t, "old", string(own[1].Value), "the caller's headers are unchanged")
	names := make(map[string]string)
	for _, h := range headers {
		require.NotContains(t, names, h.Key)
		names[h.Key] = string(h.Value)
	}
	require.Equal(t, map[string]string{ // CloudEvents Kafka protocol binding 1.0.2, section 3.2
		"mine": "1", "ce_specversion": "1.0", "ce_id": "id-1", "ce_type": "muster.task.discovery.v1",
		"ce_source": "/query-api", "ce_subject": "a subject", "ce_time": "2026-11-20T10:00:00.123456789Z",
		"content-type": "application/json",
	}, names)
}

func TestSetEvent_NilHeadersGiveTheSameIndependentValues(t *testing.T) {
	for name, e := range map[string]bus.Event{"full": event(), "minimal": {ID: "i", Type: "t", Source: "s"}} {
		t.Run(name, func(t *testing.T) {
			want := bus.SetEvent([]kafka.Header{{Key: "mine"}}, e)[1:]
			got := bus.SetEvent(nil, e)
			require.Equal(t, want, got)
			for i := range got {
				_ = append(got[i].Value, "more"...)
			}
			require.Equal(t, want, got, "appending to a value changes no other")
		})
	}
}

func TestGetEvent_RejectsMissingOrInvalidAttributes(t *testing.T) {
	for name, damage := range map[string]func(h map[string]string){
		"no specversion":      func(h map[string]string) { delete(h, bus.HeaderSpecVersion) },
		"another specversion": func(h map[string]string) { h[bus.HeaderSpecVersion] = "0.3" },
		"no id":               func(h map[string]string) { delete(h, bus.HeaderID) },
		"no type":             func(h map[string]string) { h[bus.HeaderType] = "" },
		"no source":           func(h map[string]string) { delete(h, bus.HeaderSource) },
		"bad time":            func(h map[string]string) { h[bus.HeaderTime] = "yesterday" },
	} {
		t.Run(name, func(t *testing.T) {
			m := make(map[string]string)
			for _, h := range bus.SetEvent(nil, event()) {
				m[h.Key] = string(h.Value)
			}
			damage(m)
			var headers []kafka.Header
			for k, v := range m {
				headers = append(headers, kafka.Header{Key: k, Value: []byte(v)})
			}
			_, err := bus.GetEvent(headers)
			require.ErrorIs(t, err, bus.ErrNotAnEvent)
		})
	}
}

func TestMessageRoundTrip_PreservesEventTraceAndKey(t *testing.T) {
	t.Parallel()
	topic := bustest.Topic(t, cluster.Config, 1, nil)
	pub, err := bus.NewPublisher(bus.PublisherConfig{Config: cluster.Config})
	require.NoError(t, err)
	sub, err := bus.NewSubscriber(bus.SubscriberConfig{Config: cluster.Config})
	require.NoError(t, err)

	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled,
	})
	spanCtx := trace.ContextWithSpanContext(context.Background(), span)
	sent := message.NewMessageWithContext(spanCtx, "", []byte("payload"))
	bus.SetMessageEvent(sent, event())
	sent.Metadata.Set("other", "metadata")
	sent.Metadata.Set(bus.MetadataKey, "the key")
	require.NoError(t, pub.Publish(topic, sent))
	w := bustest.Writer(t, cluster.Config)
	plain := kafka.Message{Topic: topic, Value: []byte("plain"), Headers: bus.SetTrace(spanCtx, nil)}
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{plain}))

	out, err := sub.Subscribe(t.Context(), topic)
	require.NoError(t, err)
	got := <-out
	e, err := bus.GetMessageEvent(got)
	require.NoError(t, err)
	require.Equal(t, event(), e)
	require.Equal(t, "id-1", got.UUID)
	require.Equal(t, "payload", string(got.Payload))
	require.Equal(t, "metadata", got.Metadata.Get("other"))
	require.Equal(t, "the key", got.Metadata.Get(bus.MetadataKey))
	require.Equal(t, "00-01020000000000000000000000000000-0300000000000000-01", got.Metadata.Get("traceparent"))
	require.Equal(t, span.TraceID(), trace.SpanContextFromContext(got.Context()).TraceID())
	require.True(t, trace.SpanContextFromContext(got.Context()).IsRemote())
	got.Ack()

	second := <-out
	require.Equal(t, topic+"/0/1", second.UUID, "a message without an ID gets its origin as ID")
	require.NotContains(t, second.Metadata, bus.MetadataKey)
	_, err = bus.GetMessageEvent(second)
	require.ErrorIs(t, err, bus.ErrNotAnEvent)
	second.Ack()

	var headers []kafka.Header
	collect := func(_ context.Context, m kafka.Message) error {
		if m.Offset == 0 {
			headers = m.Headers
			require.Equal(t, "the key", string(m.Key))
		}
		return nil
	}
	f := bus.Follow(t.Context(), cluster.Config, bus.FollowConfig{Topics: []string{topic}, Handle: collect})
	require.NoError(t, f.WaitReady(t.Context()))
	require.NoError(t, f.Close())
	e, err = bus.GetEvent(headers)
	require.NoError(t, err)
	require.Equal(t, event(), e)
	traceparent := kafka.Header{
		Key:   "traceparent",
		Value: []byte("00-01020000000000000000000000000000-0300000000000000-01"),
	}
	require.Contains(t, headers, traceparent)

	require.NoError(t, sub.Close())
	require.NoError(t, sub.Close())
	require.NoError(t, pub.Close())
	require.NoError(t, pub.Close())
	require.ErrorIs(t, pub.Publish(topic, sent), bus.ErrClosed)
	_, open := <-out
	require.False(t, open)
}

func TestBatch_TokenIdentifiesMessages(t *testing.T) {
	one := bus.Batch{Ranges: []bus.Range{{Topic: "muster.record.person.v1", Partition: 3, First: 10, Last: 19}}}
	require.Equal(t, "muster.record.person.v1:3:10-19:ef46db3751d8e999", one.Token())
	two := bus.Batch{Ranges: append([]bus.Range{{Topic: "a", First: 1, Last: 1}}, one.Ranges...)}
	other := bus.Batch{Ranges: append([]bus.Range{{Topic: "a", First: 1, Last: 2}}, one.Ranges...)}
	require.Equal(t, two.Token(), two.Token())
	require.NotEqual(t, two.Token(), other.Token())
	require.Less(t, len(two.Token()), 320)
	// A recreated topic has the same offsets with other messages.
	recreated := one
	one.Messages = []kafka.Message{{Offset: 10, Time: time.Unix(1, 0), Value: []byte("x")}}
	recreated.Messages = []kafka.Message{{Offset: 10, Time: time.Unix(2, 0), Value: []byte("x")}}
	require.NotEqual(t, one.Token(), recreated.Token())
	require.Equal(t, one.Token(), one.Token())
}

// The messages have 1 MiB and nearly 2 MiB, compressible and not.
func TestMessageRoundTrip_UpToSizeLimit(t *testing.T) {
	t.Parallel()
	topic := bustest.Topic(t, cluster.Config, 1, map[string]string{"max.message.bytes": "2097152"})
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	sent := [][]byte{noise, bytes.Repeat([]byte("x"), 1<<20), bytes.Repeat([]byte("y"), 2<<20-32<<10)}
	var messages []kafka.Message
	for _, value := range sent {
		m := kafka.Message{Topic: topic, Key: []byte("key"), Value: value, Headers: bus.SetEvent(nil, event())}
		messages = append(messages, m)
	}
	require.NoError(t, bus.WriteAll(t.Context(), bustest.Writer(t, cluster.Config), messages))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got [][]byte
	collect := func(_ context.Context, m kafka.Message) error {
		got = append(got, m.Value)
		return nil
	}
	f := bus.Follow(ctx, cluster.Config, bus.FollowConfig{Topics: []string{topic}, Handle: collect})
	require.NoError(t, f.WaitReady(ctx))
	require.NoError(t, f.Close())
	require.Equal(t, len(sent), len(got))
	for i := range sent {
		require.True(t, bytes.Equal(sent[i], got[i]), "message %d", i)
	}
}
