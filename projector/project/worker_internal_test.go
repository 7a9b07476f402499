package project

import (
	"runtime"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// A batch of 20,000 tiny messages is within MaxBytes, but their events would take many times as much.
func TestWorker_RejectionsOfABatchTakeLittleMemory(t *testing.T) {
	const count, maxBytesEach = 20_000, 256
	topic := record.KindNetworkPerson.Topic()
	messages := make([]kafka.Message, count)
	for i := range messages {
		messages[i] = kafka.Message{Topic: topic, Offset: int64(i), Value: []byte("{")}
	}
	w := newWorker(identity.Default(), suppress.NewSet(nil))
	kinds := map[string]record.Kind{topic: record.KindNetworkPerson}
	w.render(messages[:1], kinds) // One-time allocations.
	w.reset()
	before := heapAfterGC()
	w.render(messages, kinds)
	after := heapAfterGC()
	require.Len(t, w.rejected, count)
	require.Less(t, int64(after)-int64(before), int64(count*maxBytesEach))
	runtime.KeepAlive(messages)
}

func heapAfterGC() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
