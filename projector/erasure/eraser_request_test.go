package erasure_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector/erasure"
	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// A request is logged before its entries are published, and the publisher may be killed in between. The
// request is not reported as done before all entries are in force and were searched for.
func TestEraser_WaitsForEntriesOfRequest(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	apply := func(username string, entry suppress.Entry) string {
		hash := set.Key().Of(suppress.CodehostUsername, username).String()
		if entry.RequestedAt != "" {
			entry.Type, entry.Scope, entry.Key = suppress.CodehostUsername, suppress.All, set.Key().ID()
			value, err := json.Marshal(entry)
			require.NoError(t, err)
			require.NoError(t, set.Apply([]byte(hash), value))
		}
		return hash
	}
	apply("back", suppress.Entry{RequestedAt: "2026-11-20", Unsuppressed: true}) // withdrawn before and requested again
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"late","last_updated":"2026"}`,
			`{"user_id":43,"codehost_username":"back","last_updated":"2026"}`},
	})
	ask := func(id string, identifiers ...event.ErasureIdentifier) {
		r := event.Erasure{RequestID: id, Action: event.ErasureRequested, At: time.Now().UTC().Add(-time.Second),
			Urgent: true, RequestedAt: "2026-11-21", Identifiers: identifiers}
		value, err := json.Marshal(&r)
		require.NoError(t, err)
		h.Publish(kafka.Message{Topic: event.TopicErasureRequest, Key: []byte(id), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: id, Type: event.TypeErasureRequest, Source: "test", Time: r.At, ContentType: "application/json",
			})})
	}
	var mu sync.Mutex
	told := map[string][]event.ErasureAction{}
	of := func(id string) []event.ErasureAction {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(told[id])
	}
	log := bus.Follow(t.Context(), h.Kafka, bus.FollowConfig{Topics: []string{event.TopicErasureRequest},
		Handle: func(_ context.Context, m kafka.Message) error {
			var r event.Erasure
			if err := json.Unmarshal(m.Value, &r); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			told[r.RequestID] = append(told[r.RequestID], r.Action)
			return nil
		}})
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	done := []event.ErasureAction{event.ErasureRequested, event.ErasureSuppressed, event.ErasureDeleted}
	removed := func(id string) {
		t.Helper()
		projectortest.Eventually(t, func(context.Context) bool { return len(of(id)) == len(done) }, id)
		require.Equal(t, done, of(id))
	}

	identifier := func(username string) event.ErasureIdentifier {
		return event.ErasureIdentifier{Type: string(suppress.CodehostUsername), Hash: apply(username, suppress.Entry{})}
	}
	exempt := identifier("exempt") // of a deletion list; it gets no entry
	exempt.Status = event.ErasureExempted
	ask("waits", identifier("ghost"), identifier("late"), identifier("back"))
	ask("known", identifier("ghost"), exempt)
	startEraser(t, h, set)
	removed("known")
	require.Equal(t, done[:1], of("waits"), "nothing is suppressed")
	require.EqualValues(t, 2, h.Count("SELECT count() FROM codehost_people"))

	apply("late", suppress.Entry{RequestedAt: "2026-11-21"})
	ask("next", identifier("late"))
	removed("next")
	require.Equal(t, done[:1], of("waits"), "one of three is not suppressed")
	require.EqualValues(t, 1, h.Count("SELECT count() FROM codehost_people"))

	apply("back", suppress.Entry{RequestedAt: "2026-11-21"})
	removed("waits")
	require.Zero(t, h.Count("SELECT count() FROM codehost_people"))
}

// At the start, the eraser sweeps before it has read the log. The status has what that sweep deleted.
func TestEraser_ReportsDeletionsOfSweepAtStart(t *testing.T) {
	h := projectortest.New(t)
	projectortest.InsertAll(t, h, "before", projectortest.People("Ghost"))
	startEraser(t, h, projectortest.Suppressed(t, "ghost")).await(t, event.ErasureSuppressed)
	all, err := erasure.Requests(t.Context(), h.Kafka)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.EqualValues(t, 1, all[0].Found["codehost"], all[0].Found)
	require.EqualValues(t, 1, all[0].Found["rows of codehost_people"], all[0].Found)
}

// A request after a long sweep waits as long as the sweep took, from its end. The clock advances by an hour between the
// beginning and the end of a sweep, and again before the second request.
func TestEraser_IdleTimeIsPartOfPauseAfterSweep(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	e := &erasing{h: h, set: set, told: make(chan event.ErasureAction, 16), step: time.Hour, calm: true}
	e.start(t).await(t, event.ErasureSuppressed)
	publishRequest(t, h, "r2", time.Now(), false)
	e.await(t, event.ErasureSuppressed)
}
