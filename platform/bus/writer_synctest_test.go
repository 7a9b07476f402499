package bus

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// What of a write is written again, what is refused, and what is over.
func TestWritingSorts(t *testing.T) {
	passes, stays, tooLarge := kafka.NotLeaderForPartition, kafka.InvalidRecord, kafka.MessageSizeTooLarge
	for name, c := range map[string]struct {
		single           bool
		errs             [5]error // of keys a, b, a, none, a of another topic
		pending, refused []int
		split            bool
	}{
		"all are written":                    {},
		"one fails, and those after it":      {errs: [5]error{0: passes}, pending: []int{0, 2}},
		"the last of a key fails":            {errs: [5]error{2: passes}, pending: []int{2}},
		"one without a key has none after":   {errs: [5]error{3: passes}, pending: []int{3}},
		"one that stays does not":            {errs: [5]error{0: stays}, refused: []int{0}},
		"one stays behind one that passes":   {errs: [5]error{0: passes, 2: stays}, pending: []int{0}, refused: []int{2}},
		"one stays before one that passes":   {errs: [5]error{0: stays, 1: passes}, pending: []int{1}, refused: []int{0}},
		"a batch is too large":               {errs: [5]error{tooLarge, tooLarge, tooLarge}, pending: []int{0, 1, 2}, split: true},
		"each was written by itself":         {single: true, errs: [5]error{1: tooLarge}, refused: []int{1}},
		"too large, and those after are not": {errs: [5]error{0: tooLarge}, pending: []int{0, 2}, split: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newWriting(&Writer{Writer: &kafka.Writer{}}, []kafka.Message{
				{Topic: "t", Key: []byte("a")}, {Topic: "t", Key: []byte("b")}, {Topic: "t", Key: []byte("a")}, {Topic: "t"}, {Topic: "u", Key: []byte("a")},
			})
			g.single = c.single
			require.Equal(t, c.split, g.sort(c.errs[:]))
			require.Equal(t, c.pending, g.pending)
			require.Equal(t, c.single || c.split, g.single)
			if len(c.pending) > 0 {
				require.Equal(t, c.errs[c.pending[0]], g.why, "what is waited for, not what is refused")
			}
			var refused []int
			for _, r := range g.refused {
				refused = append(refused, r.Index)
				require.Equal(t, c.errs[r.Index], r.Err)
			}
			require.Equal(t, c.refused, refused)
		})
	}
}

// Messages that a batch cannot hold are refused before anything is written.
func TestMessagesThatAreTooLarge(t *testing.T) {
	w := &Writer{Writer: &kafka.Writer{BatchBytes: 200}}
	message := func(size int64) kafka.Message {
		m := kafka.Message{Topic: "t", Key: []byte("key"), Headers: []kafka.Header{{Key: "name", Value: []byte("value")}}}
		m.Value = make([]byte, size-messageSize(&m))
		return m
	}
	g := newWriting(w, []kafka.Message{message(201), message(200), message(100)})
	require.Equal(t, []int{1, 2}, g.pending)
	require.Len(t, g.refused, 1)
	require.Zero(t, g.refused[0].Index)
	require.ErrorIs(t, g.refused[0].Err, kafka.MessageSizeTooLarge)
	w.BatchBytes = 0
	require.Len(t, newWriting(w, []kafka.Message{message(1000)}).pending, 1, "no limit is known")
}

// A topic that is not known is believed to be new for a while, in which nothing else is in the way.
func TestUnknownTopicsAreRefusedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newWriting(&Writer{Writer: &kafka.Writer{}}, []kafka.Message{{Topic: "t"}, {Topic: "t"}})
		all := func() []error { return slices.Repeat([]error{kafka.UnknownTopicOrPartition}, len(g.pending)) }
		written, away := all(), all()
		written[1], away[1] = nil, errors.New("the broker is away")
		g.sort(all())
		time.Sleep(unknownTopicPatience)
		g.sort(away)
		require.Len(t, g.pending, 2, "it counts anew")
		g.sort(all())
		time.Sleep(unknownTopicPatience)
		g.sort(written)
		require.Equal(t, []int{0}, g.pending)
		time.Sleep(time.Nanosecond)
		g.sort(all())
		require.Empty(t, g.pending)
		require.Equal(t, []RefusedMessage{{Index: 0, Topic: "t", Err: kafka.UnknownTopicOrPartition}}, g.refused)
	})
}
