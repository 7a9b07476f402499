package bus

import (
	"context"
	"strconv"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// A log that lost its end delivers offsets again.
func TestTracker_CountsRedeliveredOffsets(t *testing.T) {
	tr := newTracker(func() {})
	tr.begin(5)
	tr.begin(6)
	require.Zero(t, tr.finish(6))
	for o := int64(0); o <= 6; o++ { // from the start of the log again
		tr.begin(o)
	}
	for o := int64(0); o < 5; o++ {
		require.Zero(t, tr.finish(o))
	}
	require.Zero(t, tr.finish(6))
	require.Equal(t, 7, tr.finish(5), "5, 6, and 0 to 4")
	require.Equal(t, 2, tr.finish(5), "5 and 6")
	require.Empty(t, tr.open)
	require.Empty(t, tr.done)
	next, ok := tr.committable()
	require.True(t, ok)
	require.EqualValues(t, 7, next)
}

func TestTracker_IgnoresSecondFinish(t *testing.T) {
	tr := newTracker(func() {})
	tr.begin(1)
	require.Equal(t, 1, tr.finish(1))
	require.Zero(t, tr.finish(1))
	tr.begin(0)
	tr.begin(1)
	require.Equal(t, 1, tr.finish(0))
	require.Len(t, tr.open, 1)
}

func TestTracker_SkipsOffsetsWithoutMessages(t *testing.T) {
	calls := 0
	tr := newTracker(func() { calls++ })
	require.Equal(t, 1, tr.skip(4))
	next, ok := tr.committable()
	require.True(t, ok)
	require.EqualValues(t, 4, next)
	tr.begin(4)
	require.Zero(t, tr.skip(9))
	require.Equal(t, 2, tr.finish(4))
	next, _ = tr.committable()
	require.EqualValues(t, 9, next)
	require.Equal(t, 2, calls)
}

func TestPartitionWorker_FreesSlotsOfRedeliveredOffsets(t *testing.T) {
	out := make(chan *message.Message)
	w := &partitionWorker{
		sub: &subscription{out: out}, track: newTracker(func() {}),
		slots: make(chan struct{}, 2), window: make(chan struct{}, 2*windowFactor),
	}
	deliver := func(c chunk) []*message.Message {
		var got []*message.Message
		done := make(chan bool)
		go func() { done <- w.deliver(t.Context(), context.Background(), c) }()
		for range c.messages {
			got = append(got, <-out)
		}
		require.True(t, <-done)
		return got
	}
	messages := func(from, to int64) (c chunk) {
		c.from, c.next = from, to
		for o := from; o < to; o++ {
			c.messages = append(c.messages, kafka.Message{Offset: o, Value: []byte(strconv.FormatInt(o, 10))})
		}
		return c
	}
	first := deliver(messages(5, 7))
	first[1].Ack()
	second := deliver(messages(6, 7))
	second[0].Ack()
	deliver(chunk{from: 7, next: 10})
	first[0].Ack()
	w.unfinished.Wait()
	require.Empty(t, w.slots)
	require.Empty(t, w.window)
	next, _ := w.track.committable()
	require.EqualValues(t, 10, next)
}
