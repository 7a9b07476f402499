package searchsink

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/opensearch"
	"muster/schemas/event"
	"muster/schemas/record"
)

// newTestWriter returns a writer to a server that answers each bulk request by handle, which gets its lines.
func newTestWriter(t *testing.T, handle func(w http.ResponseWriter, lines []string)) *writer {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		handle(w, strings.Split(strings.TrimSpace(string(body)), "\n"))
	}))
	t.Cleanup(s.Close)
	client, err := opensearch.Open(opensearch.Config{Nodes: []string{s.URL}, Prefix: "x-"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	cfg := Config{BreakFor: 10 * time.Millisecond, BreakAfter: 2}
	w, err := newWriter(client, cfg, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	return w
}

func writeItems(w http.ResponseWriter, items ...string) {
	_, _ = w.Write([]byte(`{"items":[` + strings.Join(items, ",") + `]}`))
}

const written = `{"index":{"status":201}}`

func documents(n int) []operation {
	list := make([]operation, n)
	for i := range list {
		list[i] = operation{id: "d" + string(rune('a'+i)), document: []byte(`{}`), version: 5, position: i}
	}
	return list
}

func TestWriter_WritesVersionedOperationsToTheAlias(t *testing.T) {
	var got []string
	w := newTestWriter(t, func(w http.ResponseWriter, lines []string) {
		got = lines
		writeItems(w, written, `{"delete":{"status":404}}`)
	})
	refused, err := w.write(t.Context(), "x-people-1", []operation{
		{id: "a", document: []byte(`{"b":1}`), version: 1, equal: true}, {id: "c", version: 7},
	})
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Equal(t, []string{
		`{"index":{"_index":"x-write-people-1","_id":"a","version":1,"version_type":"external_gte"}}`, `{"b":1}`,
		`{"delete":{"_index":"x-write-people-1","_id":"c","version":7,"version_type":"external"}}`,
	}, got)
}

// A busy item is sent again alone; a superseded one is done; a refused one is returned.
func TestWriter_IsolatesTheItemsThatFail(t *testing.T) {
	var sent [][]string
	w := newTestWriter(t, func(w http.ResponseWriter, lines []string) {
		sent = append(sent, lines)
		if len(sent) > 1 {
			writeItems(w, written)
			return
		}
		writeItems(w, written, `{"index":{"status":429,"error":{"type":"rejected_execution_exception"}}}`,
			`{"index":{"status":409,"error":{"type":"version_conflict_engine_exception"}}}`,
			`{"index":{"status":400,"error":{"type":"mapper_parsing_exception"}}}`)
	})
	refused, err := w.write(t.Context(), "x-people-1", documents(4))
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.Equal(t, 3, refused[0].position)
	require.Equal(t, "mapper_parsing_exception", refused[0].kind)
	require.Len(t, sent, 2)
	require.Len(t, sent[1], 2)
	require.Contains(t, sent[1][0], `"_id":"db"`)
}

func TestWriter_HalvesRequestsThatAreTooLarge(t *testing.T) {
	w := newTestWriter(t, func(w http.ResponseWriter, lines []string) {
		if len(lines) > 2 || strings.Contains(lines[0], `"_id":"dc"`) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		writeItems(w, written)
	})
	refused, err := w.write(t.Context(), "x-people-1", documents(4))
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.Equal(t, 2, refused[0].position)
}

// The breaker opens after failures, and the write goes on when OpenSearch answers again.
func TestWriter_WaitsBehindTheBreakerDuringAnOutage(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	w := newTestWriter(t, func(w http.ResponseWriter, _ []string) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		writeItems(w, written)
	})
	for range 2 {
		_, err := w.write(t.Context(), "x-people-1", documents(1))
		require.True(t, opensearch.IsTransient(err), "%v", err)
	}
	require.Equal(t, "open", w.breaker.State(breakerKey))
	down.Store(false)
	_, err := w.write(t.Context(), "x-people-1", documents(1))
	require.NoError(t, err)
	require.Equal(t, "closed", w.breaker.State(breakerKey))
}

func TestWriter_DeletedIndexIsAnError(t *testing.T) {
	w := newTestWriter(t, func(w http.ResponseWriter, _ []string) {
		writeItems(w, `{"index":{"status":404,"error":{"type":"index_not_found_exception"}}}`)
	})
	_, err := w.write(t.Context(), "x-people-1", documents(1))
	require.ErrorIs(t, err, errIndexGone)
}

func TestWriter_StopsRetryingWithItsContext(t *testing.T) {
	w := newTestWriter(t, func(w http.ResponseWriter, _ []string) {
		writeItems(w, `{"index":{"status":429,"error":{"type":"rejected_execution_exception"}}}`)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.write(ctx, "x-people-1", documents(1))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestRead_KeepsTheNewestTouchOfEachPerson(t *testing.T) {
	message := func(offset int64, task event.AnswerTask) kafka.Message {
		value, err := json.Marshal(task)
		require.NoError(t, err)
		return kafka.Message{Offset: offset, Value: value}
	}
	got := read(bus.Batch{Messages: []kafka.Message{
		message(1, event.AnswerTask{Kind: record.KindNetworkPerson, ID: "p", Version: 9}),
		message(2, event.AnswerTask{Kind: record.KindCodehostPerson, ID: "7"}),
		message(3, event.AnswerTask{Kind: record.KindNetworkPerson, ID: "p"}),
		message(4, event.AnswerTask{Kind: record.KindNetworkPerson, ID: ""}),
		{Offset: 5, Value: []byte("no JSON")},
		message(6, event.AnswerTask{Kind: record.KindNetworkCompany, ID: "p", Version: 11}),
	}}, record.KindNetworkPerson)
	require.Len(t, got, 1)
	require.EqualValues(t, 3, got[0].message.Offset)
	require.EqualValues(t, 9, got[0].version)

	// Only a version bump may be of a person whose row does not exist yet. For others a replica lags behind.
	bump := event.AnswerTask{Kind: record.KindNetworkPerson, ID: "p", IndexOnly: true, Bump: true}
	changed := event.AnswerTask{Kind: record.KindNetworkPerson, ID: "p", IndexOnly: true}
	for _, c := range []struct {
		touches []event.AnswerTask
		want    bool
	}{
		{[]event.AnswerTask{bump}, true}, {[]event.AnswerTask{changed}, false},
		{[]event.AnswerTask{bump, changed}, false}, {[]event.AnswerTask{changed, bump}, false},
	} {
		var messages []kafka.Message
		for i, task := range c.touches {
			messages = append(messages, message(int64(i), task))
		}
		require.Equal(t, c.want, read(bus.Batch{Messages: messages}, record.KindNetworkPerson)[0].bump, c.touches)
	}
}

func TestVersionOf_GrowsWithGenerationAndOffset(t *testing.T) {
	require.Less(t, versionOf(1, 1<<39), versionOf(2, 0))
	require.Less(t, versionOf(1, 5), versionOf(1, 6))
	require.Less(t, int64(scannedVersion), versionOf(1, 0))
}
