package broker_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/bus/bustest"
)

func inTopic(m kafka.Message) kafka.Message {
	m.Topic = "t"
	return m
}

func TestKill_AbortsOpenTransactionsPermanently(t *testing.T) {
	dir := t.TempDir()
	_, cfg := serve(t, dir)
	createTopic(t, cfg, nil)
	send(t, cfg, message("a", "first"))
	bustest.Begin(t, cfg, "loader", inTopic(message("a", "open")))
	for _, committed := range []string{"second", "third"} { // of the same producer
		dir = killed(t, dir)
		_, cfg = serve(t, dir)
		bustest.Begin(t, cfg, "loader", inTopic(message("a", committed)))(true)
	}
	dir = killed(t, dir)
	indexes, err := filepath.Glob(filepath.Join(dir, "log", "partitions", "t-0", "*.idx"))
	require.NoError(t, err)
	require.NotEmpty(t, indexes)
	for _, index := range indexes { // indexes are rebuilt from the log
		require.NoError(t, os.Remove(index))
	}
	_, cfg = serve(t, dir)
	var values []string
	for _, v := range stored(t, cfg) {
		values = append(values, v)
	}
	require.ElementsMatch(t, []string{"first", "second", "third"}, values)
}

func TestCompact_RequiresClosedTransactions(t *testing.T) {
	b, cfg := serve(t, t.TempDir())
	createTopic(t, cfg, map[string]string{"cleanup.policy": "compact"})
	send(t, cfg, message("a", "old"), message("a", "good"))
	end := bustest.Begin(t, cfg, "loader", inTopic(message("a", "aborted")))
	send(t, cfg, message("b", "other"))
	require.ErrorIs(t, b.Compact(t.Context()), broker.ErrOpenTransaction)
	end(false)
	require.Equal(t, map[int64]string{0: "old", 1: "good", 3: "other"}, stored(t, cfg))
	require.NoError(t, b.Compact(t.Context()))
	require.Equal(t, map[int64]string{1: "good", 3: "other"}, stored(t, cfg))
}

// kfake still reports an aborted transaction after a compaction has removed its marker.
func TestCompact_LaterTransactionsOfAProducerStayCommitted(t *testing.T) {
	b, cfg := serve(t, t.TempDir())
	createTopic(t, cfg, map[string]string{"cleanup.policy": "compact"})
	send(t, cfg, message("a", "first"))
	bustest.Begin(t, cfg, "loader", inTopic(message("a", "aborted")))(false)
	send(t, cfg, message("b", "second"))
	require.NoError(t, b.Compact(t.Context()))
	var large []kafka.Message // larger than one fetch response
	for _, key := range []string{"c", "d", "e"} {
		value := make([]byte, 700<<10)
		_, _ = rand.Read(value) // incompressible
		value[0] = key[0]
		large = append(large, inTopic(message(key, string(value))))
	}
	bustest.Begin(t, cfg, "loader", large...)(true)
	bustest.Begin(t, cfg, "loader", large...)(false)
	var got []string
	for _, v := range stored(t, cfg) {
		got = append(got, v[:1])
	}
	require.ElementsMatch(t, []string{"f", "s", "c", "d", "e"}, got)
}
