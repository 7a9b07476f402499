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

func TestWriteState_RetriesRejectsOrSplits(t *testing.T) {
	transient, permanent, tooLarge := kafka.NotLeaderForPartition, kafka.InvalidRecord, kafka.MessageSizeTooLarge
	for name, c := range map[string]struct {
		single            bool
		errs              [5]error // of messages with the keys a, b, a, none, and a of another topic
		pending, rejected []int
		split             bool
	}{
		"all are written":               {},
		"one fails, and those after it": {errs: [5]error{0: transient}, pending: []int{0, 2}},
		"the last of a key fails":       {errs: [5]error{2: transient}, pending: []int{2}},
		"one without a key fails":       {errs: [5]error{3: transient}, pending: []int{3}},
		"permanent":                     {errs: [5]error{0: permanent}, rejected: []int{0}},
		"permanent after transient": {
			errs: [5]error{0: transient, 2: permanent}, pending: []int{0}, rejected: []int{2},
		},
		"permanent before transient": {
			errs: [5]error{0: permanent, 1: transient}, pending: []int{1}, rejected: []int{0},
		},
		"a batch is too large": {
			errs: [5]error{tooLarge, tooLarge, tooLarge}, pending: []int{0, 1, 2}, split: true,
		},
		"too large, written separately": {single: true, errs: [5]error{1: tooLarge}, rejected: []int{1}},
		"too large, and those after it": {errs: [5]error{0: tooLarge}, pending: []int{0, 2}, split: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newWriteState(&Writer{Writer: &kafka.Writer{}}, []kafka.Message{
				{Topic: "t", Key: []byte("a")}, {Topic: "t", Key: []byte("b")}, {Topic: "t", Key: []byte("a")},
				{Topic: "t"}, {Topic: "u", Key: []byte("a")},
			})
			g.single = c.single
			require.Equal(t, c.split, g.apply(c.errs[:]))
			require.Equal(t, c.pending, g.pending)
			require.Equal(t, c.single || c.split, g.single)
			if len(c.pending) > 0 {
				require.Equal(t, c.errs[c.pending[0]], g.lastErr, "error of the first pending message")
			}
			var rejected []int
			for _, r := range g.rejected {
				rejected = append(rejected, r.Index)
				require.Equal(t, c.errs[r.Index], r.Err)
			}
			require.Equal(t, c.rejected, rejected)
		})
	}
}

func TestWriteState_RejectsMessagesAboveBatchBytes(t *testing.T) {
	w := &Writer{Writer: &kafka.Writer{BatchBytes: 200}}
	message := func(size int64) kafka.Message {
		m := kafka.Message{
			Topic:   "t",
			Key:     []byte("key"),
			Headers: []kafka.Header{{Key: "name", Value: []byte("value")}},
		}
		m.Value = make([]byte, size-messageSize(&m))
		return m
	}
	g := newWriteState(w, []kafka.Message{message(201), message(200), message(100)})
	require.Equal(t, []int{1, 2}, g.pending)
	require.Len(t, g.rejected, 1)
	require.Zero(t, g.rejected[0].Index)
	require.ErrorIs(t, g.rejected[0].Err, kafka.MessageSizeTooLarge)
	w.BatchBytes = 0
	require.Len(t, newWriteState(w, []kafka.Message{message(1000)}).pending, 1, "without a limit")
}

// The timeout counts only while there are no other errors. In the synctest bubble a sleep advances a virtual clock and
// takes no real time.
func TestWriteState_RejectsUnknownTopicsAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newWriteState(&Writer{Writer: &kafka.Writer{}}, []kafka.Message{{Topic: "t"}, {Topic: "t"}})
		all := func() []error { return slices.Repeat([]error{kafka.UnknownTopicOrPartition}, len(g.pending)) }
		written, unavailable := all(), all()
		written[1], unavailable[1] = nil, errors.New("broker is unavailable")
		g.apply(all())
		time.Sleep(unknownTopicTimeout)
		g.apply(unavailable)
		require.Len(t, g.pending, 2, "another error restarts the timeout")
		g.apply(all())
		time.Sleep(unknownTopicTimeout)
		g.apply(written)
		require.Equal(t, []int{0}, g.pending)
		time.Sleep(time.Nanosecond)
		g.apply(all())
		require.Empty(t, g.pending)
		require.Equal(t, []RejectedMessage{{Index: 0, Topic: "t", Err: kafka.UnknownTopicOrPartition}}, g.rejected)
	})
}
