package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// config returns a configuration with a new broker.
func config(t testing.TB) ingest.Config {
	t.Helper()
	return ingest.Config{Bus: bus.Config{Brokers: brokertest.Start(t).Addrs()}, RunID: "run-1"}
}

// write writes a file in a temporary directory and returns its path.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(data, nil)
}

// topic reads the messages on topics, in partition order.
func topic(t testing.TB, cfg bus.Config, topics ...string) []kafka.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var messages []kafka.Message
	f := bus.Follow(
		ctx, cfg,
		bus.FollowConfig{
			Topics:  topics,
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

// rejectedRecords reads the rejected records.
func rejectedRecords(t testing.TB, cfg bus.Config) []event.Rejected {
	t.Helper()
	var out []event.Rejected
	for _, m := range topic(t, cfg, event.TopicRejected) {
		var r event.Rejected
		require.NoError(t, json.Unmarshal(m.Value, &r))
		require.Equal(t, r.Source.Name(), string(m.Key))
		out = append(out, r)
	}
	return out
}

// values returns the messages on the topic of a kind, the last one per key.
func values(t testing.TB, cfg bus.Config, kind record.Kind) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, m := range topic(t, cfg, kind.Topic()) {
		out[string(m.Key)] = string(m.Value)
	}
	return out
}

// people returns lines of network people p_from to p_to-1.
func people(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b,
			`{"profile_id":"p_%d","last_updated":"2026-01-02","username":"user-%d","full_name":"Person %d"}`+"\n", i,
			i, i)
	}
	return b.String()
}

// counts returns the counts of a kind, all zero if it did not occur.
func counts(s ingest.Summary, kind record.Kind) ingest.Counts {
	for _, k := range s.Kinds {
		if k.Kind == kind {
			return k.Counts
		}
	}
	return ingest.Counts{}
}

// requireExit checks the exit status of an error.
func requireExit(t testing.TB, code int, err error) {
	t.Helper()
	if code == 0 {
		require.NoError(t, err)
		return
	}
	var exit *ingest.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, code, exit.ExitCode(), "%v", err)
}
