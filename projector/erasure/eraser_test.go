package erasure_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector/erasure"
	"muster/projector/internal/projectortest"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// erasing is a running eraser and the erasure log.
type erasing struct {
	h    *projectortest.Harness
	set  *suppress.Set
	told chan event.ErasureAction
	held atomic.Pointer[time.Time] // time of the stopped clock
	step time.Duration             // added to the clock by each reading
	read atomic.Int64              // number of readings
	calm bool                      // the requests are not urgent

	replaced time.Duration // how long replaced parts are kept
}

// hold stops the eraser's clock, so that no rewrite completes.
func (e *erasing) hold() {
	now := time.Now()
	e.held.Store(&now)
}

func (e *erasing) goOn() { e.held.Store(nil) }

func (e *erasing) now() time.Time {
	if held := e.held.Load(); held != nil {
		return *held
	}
	return time.Now().Add(time.Duration(e.read.Add(1)) * e.step)
}

// startEraser starts an eraser with a tombstone lifetime of one second, with an urgent request in the log.
func startEraser(t *testing.T, h *projectortest.Harness, set *suppress.Set) *erasing {
	t.Helper()
	return (&erasing{h: h, set: set, told: make(chan event.ErasureAction, 16), replaced: time.Second}).start(t)
}

// startHeldEraser is startEraser with a stopped clock.
func startHeldEraser(t *testing.T, h *projectortest.Harness, set *suppress.Set) *erasing {
	t.Helper()
	e := &erasing{h: h, set: set, told: make(chan event.ErasureAction, 16), replaced: time.Second}
	e.hold()
	return e.start(t)
}

func (e *erasing) start(t *testing.T) *erasing {
	t.Helper()
	h := e.h
	publishRequest(t, h, "r1", time.Now().Add(-time.Second), !e.calm)
	eraser, err := erasure.New(erasure.Config{Kafka: h.Kafka, Tombstones: time.Second,
		Replaced: e.replaced}, erasure.Deps{
		Conn: h.Conn, Suppressed: e.set, Logger: slog.New(slog.DiscardHandler), Now: e.now,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- eraser.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	log := bus.Follow(t.Context(), h.Kafka, bus.FollowConfig{Topics: []string{event.TopicErasureRequest},
		Handle: func(_ context.Context, m kafka.Message) error {
			var r event.Erasure
			if err := json.Unmarshal(m.Value, &r); err != nil {
				return err
			}
			e.told <- r.Action
			return nil
		}})
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return e
}

// request writes an urgent request to the log.
func request(t *testing.T, h *projectortest.Harness, id string, at time.Time) {
	t.Helper()
	publishRequest(t, h, id, at, true)
}

func publishRequest(t *testing.T, h *projectortest.Harness, id string, at time.Time, urgent bool) {
	t.Helper()
	r := event.Erasure{RequestID: id, Action: event.ErasureRequested, At: at.UTC(), Urgent: urgent}
	value, err := json.Marshal(&r)
	require.NoError(t, err)
	h.Publish(kafka.Message{Topic: event.TopicErasureRequest, Key: []byte(r.RequestID), Value: value,
		Headers: bus.SetEvent(nil, bus.Event{
			ID: r.RequestID, Type: event.TypeErasureRequest, Source: "test", Time: r.At,
			ContentType: "application/json",
		})})
}

func (e *erasing) await(t *testing.T, want event.ErasureAction) {
	t.Helper()
	for limit := time.After(5 * time.Minute); ; { // as long as it takes on a busy machine
		select {
		case got := <-e.told:
			if got == want {
				return
			}
		case <-limit:
			t.Fatalf("the request is not %s", want)
		}
	}
}

// Replaced parts stay until the system has written the new ones to disk.
func TestEraser_KeepsReplacedPartsUntilSynced(t *testing.T) {
	h := projectortest.New(t)
	projectortest.InsertAll(t, h, "before", projectortest.People("Ghost"))
	(&erasing{h: h, set: projectortest.Suppressed(t, "ghost"), told: make(chan event.ErasureAction, 16)}).start(t)
	s := &projectortest.Store{TB: t, Conn: h.Conn}
	projectortest.Eventually(t, func(context.Context) bool {
		return s.Count("SELECT countIf(position(engine_full, 'old_parts_lifetime = 60') > 0) FROM system.tables "+
			"WHERE database = currentDatabase() AND name = 'codehost_people'") == 1
	}, "the parts' time")
}

// The next eraser rewrites a request that was swept before a restart, although its sweep has no match,
// whatever the clock.
func TestEraser_RewritesSweptRequestAfterRestart(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"in time": -time.Minute,
		"the clock was ahead": 30 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := projectortest.New(t)
			logged := event.Erasure{RequestID: "r1", At: time.Now().UTC().Add(ahead), Urgent: true}
			for _, action := range []event.ErasureAction{event.ErasureRequested, event.ErasureSuppressed} {
				logged.Action = action
				value, err := json.Marshal(&logged)
				require.NoError(t, err)
				h.Publish(kafka.Message{Topic: event.TopicErasureRequest, Key: []byte(logged.RequestID), Value: value,
					Headers: bus.SetEvent(nil, bus.Event{
						ID: logged.RequestID + "/" + string(action), Type: event.TypeErasureRequest, Source: "test",
						Time: logged.At, ContentType: "application/json",
					})})
			}
			startEraser(t, h, projectortest.Suppressed(t, "ghost")).await(t, event.ErasureDeleted)
		})
	}
}

// An urgent request that arrives during a rewrite gets its own rewrite immediately after it.
func TestEraser_UrgentRequestDuringRewriteIsNext(t *testing.T) {
	h := projectortest.New(t)
	e := startEraser(t, h, projectortest.Suppressed(t, "ghost"))
	e.await(t, event.ErasureSuppressed)
	request(t, h, "r2", time.Now().Add(5*time.Second)) // after the current rewrite
	e.await(t, event.ErasureDeleted)
	e.await(t, event.ErasureDeleted)
}

// Data that arrives between the sweep and the final scan is deleted and rewritten, and the request completes.
func TestEraser_DeletesDataAddedAfterSweep(t *testing.T) {
	h := projectortest.New(t)
	set := projectortest.Suppressed(t, "ghost")
	e := startHeldEraser(t, h, set)
	e.await(t, event.ErasureSuppressed)
	ghost := event.Account{Platform: "codehost", Username: "ghost"}
	var rows readmodel.DiscoveryBatch
	require.NoError(t, rows.Add(&event.Discovery{RequestID: "late", Input: ghost, At: time.Now().UTC(),
		Socials: []event.Social{{Account: ghost, Confidence: 1}}}, readmodel.Position{Topic: event.TopicDiscovery}))
	require.NoError(t, readmodel.InsertDiscoveries(t.Context(), h.Conn, "late", &rows))
	projectortest.InsertAll(t, h, "late", map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"Ghost","last_updated":"2026"}`,
			`{"user_id":43,"codehost_username":"alive","last_updated":"2026"}`},
		record.KindCodehostRepo: {`{"user_id":42,"id":1,"name":"x","updated_at":"2026"}`},
	})
	s := &projectortest.Store{TB: t, Conn: h.Conn}
	require.EqualValues(t, 2, s.Count("SELECT count() FROM codehost_people"))
	e.goOn()
	e.await(t, event.ErasureDeleted)
	require.Zero(t, s.Count("SELECT count() FROM "+readmodel.DiscoveryTable))
	require.Zero(t, s.Count("SELECT count() FROM codehost_people WHERE user_id = 42"))
	require.EqualValues(t, 1, s.Count("SELECT count() FROM codehost_people"))
	require.Zero(t, s.Count("SELECT count() FROM codehost_repos"))
	require.Zero(t, s.Count("SELECT count() FROM lookups WHERE target = '42'"))
	require.Zero(t, s.Count("SELECT count() FROM system.parts WHERE database = currentDatabase() AND active AND "+
		"has_lightweight_delete"), "the deleted rows are still in the parts")
}

// Covers every identifier, data from before the request, and data that only mentions the person.
func TestEraser_DeletesAllStoredData(t *testing.T) {
	h := projectortest.New(t)
	set := suppress.NewSet(suppress.NoKey())
	for typ, value := range map[suppress.Type]string{suppress.Email: "ada@example.com", suppress.Phone: "14155550100",
		suppress.DropPhone: "4901234567"} {
		entry, err := json.Marshal(suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026-11-21",
			Key: set.Key().ID()})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(typ, value).String()), entry))
	}
	set.Loaded()
	projectortest.InsertAll(t, h, "before", map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"phoned","mobile_phone":"(415) 555-0100","last_updated":"2026"}`,
			`{"profile_id":"p2","username":"listed","phones":["+84(90)123 4567"],"last_updated":"2026"}`,
			`{"profile_id":"p3","username":"ada","emails":["Ada@Example.com"],"last_updated":"2026"}`,
			`{"profile_id":"p4","username":"alive","emails":["bob@example.com"],"phone":"(415) 555-0199",` +
				`"last_updated":"2026"}`,
		},
		record.KindCodehostPerson: {`{"user_id":7,"codehost_username":"bob","last_updated":"2026"}`},
		record.KindCodehostCommit: {
			`{"user_id":7,"sha":"a","message":"hers","author_email":"ADA@example.com","author_date":"2026"}`,
			`{"user_id":7,"sha":"b","message":"his","author_email":"bob@example.com","author_date":"2026"}`,
		},
	})
	now := time.Now().UTC()
	var contexts readmodel.ContextBatch
	for id, email := range map[string]string{"hers": "ada@example.com", "his": "bob@example.com"} {
		require.NoError(t, contexts.Add(&event.Context{
			Call:   event.ContextCall{RequestID: id, OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now},
			Status: event.ContextComplete, At: now,
			Profile: jsontext.Value(`{"personal_email":"` + email + `"}`),
		}, readmodel.Position{Topic: event.TopicContext}))
	}
	require.NoError(t, readmodel.InsertContexts(t.Context(), h.Conn, "c", &contexts))
	require.NoError(t, readmodel.InsertBulk(t.Context(), h.Conn, "b", []readmodel.BulkRow{
		{JobID: "j", Kind: readmodel.BulkKindChunk, At: now, Sealed: []byte("references")},
		{JobID: "j", Kind: readmodel.BulkKindAnswer, At: now, Sealed: []byte("hers"), Subjects: set.StoredHashes(
			suppress.Stored{Identities: []string{"codehost-person 7"}, Body: []byte(
				`{"person":{"codehost":{"commits":[{"author_email":"ADA@example.com"}]}}}`)})},
		{JobID: "j", Kind: readmodel.BulkKindAnswer, Number: 1, At: now, Sealed: []byte("his"),
			Subjects: set.StoredHashes(suppress.Stored{Identities: []string{"network-person p4"}})},
	}))
	var feedback readmodel.FeedbackBatch
	for id, username := range map[string]string{"hers": "ada", "his": "alive"} {
		require.NoError(t, feedback.Add(&event.Feedback{
			ID: id, OrganizationID: "o", At: now, Status: event.FeedbackPending, Verdict: event.FeedbackRight,
			Accounts: []event.Account{{Platform: "codehost", Username: "bob"},
				{Platform: "network", Username: username}},
		}, readmodel.Position{Topic: event.TopicFeedback}))
	}
	require.NoError(t, readmodel.InsertFeedback(t.Context(), h.Conn, "f", &feedback))
	var attempts readmodel.WebhookBatch
	for id, answer := range map[string]string{"hers": "unknown person: ada@example.com", "his": "no such person"} {
		attempts.Add(&event.WebhookAttempt{DeliveryID: id, Attempt: 1, EndpointID: "e", OrganizationID: "o", At: now,
			CreatedAt: now, Response: answer}, readmodel.Position{Topic: event.TopicWebhook})
	}
	require.NoError(t, readmodel.InsertWebhooks(t.Context(), h.Conn, "w", &attempts))

	startEraser(t, h, set).await(t, event.ErasureSuppressed)
	s := &projectortest.Store{TB: t, Conn: h.Conn}
	for query, want := range map[string]uint64{
		"SELECT count() FROM network_people":                         1,
		"SELECT count() FROM search_people":                          1,
		"SELECT count() FROM network_people WHERE profile_id = 'p4'": 1,
		"SELECT count() FROM codehost_people":                        1,
		"SELECT count() FROM codehost_commits":                       1,
		"SELECT count() FROM codehost_commits WHERE sha = 'b'":       1,
		"SELECT count() FROM codehost_answers":                       1,
		"SELECT count() FROM codehost_answers WHERE position(content, '\"commits_count\":1') > 0 AND " +
			"position(content, 'hers') = 0": 1,
		"SELECT count() FROM contexts":                                                          1,
		"SELECT count() FROM contexts WHERE request_id = 'his'":                                 1,
		"SELECT count() FROM bulk_rows":                                                         2,
		"SELECT count() FROM bulk_rows WHERE sealed = 'hers'":                                   0,
		"SELECT count() FROM feedback":                                                          1,
		"SELECT count() FROM feedback WHERE feedback_id = 'his'":                                1,
		"SELECT count() FROM webhook_attempts":                                                  2,
		"SELECT count() FROM webhook_attempts WHERE response = ''":                              1,
		"SELECT count() FROM lookups WHERE target IN ('p1', 'p2', 'p3') OR value LIKE '%ada@%'": 0,
		"SELECT count() FROM lookups WHERE target = 'p4'": s.Count("SELECT count() FROM lookups WHERE " +
			"target_kind = 'network-person' AND value IN ('alive', 'bob@example.com', '4155550199', '" +
			readmodel.EmailMD5("bob@example.com") + "')"),
		"SELECT count() FROM lookups WHERE value = '" + readmodel.EmailMD5("ada@example.com") + "'":                  0,
		"SELECT count() FROM lookups WHERE target = '7' AND value = '" + readmodel.EmailMD5("bob@example.com") + "'": 1,
	} {
		require.Equal(t, want, s.Count(query), query)
	}
	_, hit := set.ID("network", "p2")
	require.True(t, hit, "matched people are suppressed by id")
}
