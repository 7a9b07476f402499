package ingest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

func find(t *testing.T, cfg ingest.Config, dead bool, filter ingest.DeadLetterFilter) map[string]ingest.DeadLetter {
	t.Helper()
	out := map[string]ingest.DeadLetter{}
	require.NoError(t, ingest.EachDeadLetter(t.Context(), cfg, dead, filter, func(l ingest.DeadLetter) error {
		require.NotContains(t, out, l.ID())
		out[l.ID()] = l
		return nil
	}))
	return out
}

func TestResubmitRejected_FiltersAndResubmitsOnce(t *testing.T) {
	cfg := withStateDir(t)
	ctx := t.Context()
	text := people(0, 5) +
		`{"profile_id":"x","last_updated":"soon","username":"u"}` + "\n" +
		`{"user_id":7,"last_updated":"2026","codehost_username":"seven"}` + "\n" + // of another kind
		`{"profile_id":"y","last_updated":"2026","username":` + "\n" +
		fmt.Sprintf(`{"profile_id":"z","last_updated":"2026","username":"z","summary":"%s"}`, randomText(1<<20)) + "\n"
	s, err := ingest.Files(ctx, cfg, ingest.Deps{}, record.KindNetworkPerson,
		[]string{write(t, "people", []byte(text))})
	requireExit(t, ingest.ExitRejected, err)
	bad := `{"user_id":1,"last_updated":"2026","codehost_username":"u","repos":[1,{"id":-1},{"id":2,` +
		`"updated_at":"x"}]}` + "\n"
	_, err = ingest.Files(ctx, cfg, ingest.Deps{}, record.KindCodehostPerson,
		[]string{write(t, "codehost", []byte(bad))})
	requireExit(t, ingest.ExitRejected, err)

	all := find(t, cfg, false, ingest.DeadLetterFilter{})
	require.Equal(t, 7, len(all))
	require.Equal(t, 3, len(find(t, cfg, false, ingest.DeadLetterFilter{Kind: record.KindCodehostPerson})))
	require.Equal(t, 1, len(find(t, cfg, false, ingest.DeadLetterFilter{Run: s.Run, Code: record.CodeBadDate})),
		"other than the code of the entry")
	require.Equal(t, 4, len(find(t, cfg, false, ingest.DeadLetterFilter{Run: s.Run})))
	require.Empty(t, find(t, cfg, false, ingest.DeadLetterFilter{Until: time.Now().Add(-time.Hour)}))
	require.Empty(t, find(t, cfg, false, ingest.DeadLetterFilter{Since: time.Now().Add(time.Hour)}))
	newest, n, err := ingest.NewestDeadLetters(ctx, cfg, false, ingest.DeadLetterFilter{}, 3)
	require.NoError(t, err)
	require.Equal(t, int64(7), n)
	require.Len(t, newest, 3)
	for i, l := range newest {
		require.Empty(t, l.Rejected.Raw, "lists omit contents")
		require.Contains(t, all, l.ID())
		if i > 0 {
			require.False(t, l.At().After(newest[i-1].At()))
		}
	}

	// Records of another kind keep their kind.
	filter := ingest.DeadLetterFilter{Run: s.Run, Code: record.CodeMissingIdentity}
	require.Equal(t, 1, len(find(t, cfg, false, filter)))
	res, err := ingest.ResubmitRejected(ctx, cfg, ingest.Deps{}, filter, record.KindCodehostPerson)
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Resubmitted)
	require.Equal(t,
		[]ingest.KindCounts{{Kind: record.KindCodehostPerson, Counts: ingest.Counts{Read: 1, Published: 1}}},
		res.Kinds)
	require.Contains(t, values(t, cfg.Bus, record.KindCodehostPerson), "7")
	require.Empty(t, find(t, cfg, false, filter), "resubmitted")
	filter.Resubmitted = true
	for _, l := range find(t, cfg, false, filter) {
		require.WithinDuration(t, time.Now(), l.Resubmitted, time.Minute)
	}
	// A repeated resubmission publishes no unchanged records.
	res, err = ingest.ResubmitRejected(ctx, cfg, ingest.Deps{}, filter, record.KindCodehostPerson)
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Kinds[0].Unchanged)

	// All others: invalid records are rejected again, at their location, as new entries; truncated
	// ones remain; embedded entries are resubmitted with the line that stores them.
	res, err = ingest.ResubmitRejected(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{}, "")
	require.NoError(t, err)
	require.Equal(t, int64(6), res.Selected)
	require.Equal(t, int64(5), res.Resubmitted)
	require.Len(t, res.Skipped, 1)
	for reason := range res.Skipped {
		require.Contains(t, reason, "1 MiB")
	}
	left := find(t, cfg, false, ingest.DeadLetterFilter{})
	require.Equal(t, 6, len(left), "the truncated entry and five new ones")
	for id, l := range left {
		if !strings.HasSuffix(l.Rejected.Code, "large") {
			require.NotContains(t, all, id)
			require.Equal(t, res.Run, l.Rejected.Source.Run)
		}
		require.NotEmpty(t, l.Rejected.Source.File)
		require.NotZero(t, l.Rejected.Source.Line)
	}
	var counted int64
	for _, k := range res.Kinds {
		require.True(t, k.Reconciles())
		counted += k.Rejected
	}
	require.Equal(t, int64(5), counted)

	// A single entry by ID.
	for id, l := range left {
		if l.Code() != record.CodeBadDate {
			continue
		}
		res, err = ingest.ResubmitRejected(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{IDs: []string{id}}, "")
		require.NoError(t, err)
		require.Equal(t, int64(1), res.Selected)
	}
	_, err = ingest.ResubmitRejected(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{}, "cat")
	require.ErrorContains(t, err, `"cat"`)
}

// A record rejected by the projector was published. Resubmitting republishes it unless a newer
// version was published.
func TestResubmitRejected_RepublishesRecordsRejectedByProjector(t *testing.T) {
	cfg := withStateDir(t)
	kind := record.KindNetworkPerson
	_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{write(t, "people", []byte(people(0, 3)))})
	require.NoError(t, err)
	rejected := func(value []byte, reason string) {
		t.Helper()
		from := event.Source{Topic: kind.Topic(), Offset: 1}
		bad := &record.ValidationError{Kind: kind, Code: reason, Reason: "is rejected by the store"}
		deadLetter, err := json.Marshal(event.NewRejected(kind, from, value, bad, time.Now()))
		require.NoError(t, err)
		w := bus.NewWriter(cfg.Bus)
		require.NoError(
			t,
			bus.WriteAll(t.Context(), w,
				[]kafka.Message{{Topic: event.TopicRejected, Key: []byte(from.Name()), Value: deadLetter}}),
		)
		require.NoError(t, w.Close())
	}
	resubmit := func(reason string, want ingest.Counts) {
		t.Helper()
		before := endOffsetSum(t, cfg.Bus, kind.Topic())
		later := ingest.Deps{
			Now: func() time.Time { return time.Now().Add(time.Second) },
		} // later than the rejection, on any clock
		res, err := ingest.ResubmitRejected(t.Context(), cfg, later, ingest.DeadLetterFilter{Code: reason}, "")
		require.NoError(t, err)
		require.Equal(t, int64(1), res.Resubmitted)
		require.Equal(t, []ingest.KindCounts{{Kind: kind, Counts: want}}, res.Kinds)
		require.Equal(t, before+want.Published, endOffsetSum(t, cfg.Bus, kind.Topic()))
	}
	first := []byte(strings.TrimSpace(people(0, 1)))
	rejected(first, "refused")
	resubmit("refused", ingest.Counts{Read: 1, Published: 1})
	require.Equal(t, string(first), values(t, cfg.Bus, kind)["p_0"])
	// A record that was rejected again in between still counts as one from a topic.
	rejected(first[:20], "other")
	resubmit("other", ingest.Counts{Read: 1, Rejected: 1})
	for _, l := range find(t, cfg, false, ingest.DeadLetterFilter{Code: record.CodeSyntax}) {
		require.Zero(t, l.Rejected.Source.Line)
	}
	rejected([]byte(strings.Replace(people(1, 2), "2026-01-02", "2026-01-01", 1)), "older")
	resubmit("older", ingest.Counts{Read: 1, Stale: 1})
}

func TestResubmitDead_RestoresOriginalMessagesOnce(t *testing.T) {
	cfg := withStateDir(t)
	ctx := t.Context()
	task := bus.Topic{Name: event.TopicDiscoveryTask, Partitions: 2}
	score, fetch := event.DeadLetterTopic(
		"discovery-worker",
		"score",
	), event.DeadLetterTopic(
		"discovery-worker",
		"fetch",
	)
	require.NoError(t, bus.EnsureTopics(ctx, cfg.Bus, []bus.Topic{task}))
	require.Empty(t, find(t, cfg, true, ingest.DeadLetterFilter{}), "no topic, no dead letters")
	require.NoError(
		t,
		bus.EnsureTopics(ctx, cfg.Bus,
			[]bus.Topic{{Name: score.Name, Partitions: 1}, {Name: fetch.Name, Partitions: 1}}),
	)
	require.Empty(t, find(t, cfg, true, ingest.DeadLetterFilter{}))
	w := bus.NewWriter(cfg.Bus)
	defer func() { require.NoError(t, w.Close()) }()
	at := time.Now().UTC().Truncate(time.Millisecond)
	deadLetter := func(topic, key string, dead event.DeadLetter) kafka.Message {
		m := kafka.Message{Topic: topic, Key: []byte(key), Value: []byte("value of " + key), Headers: []kafka.Header{
			{Key: bus.HeaderID, Value: []byte(key)}, {Key: "traceparent", Value: []byte("00-1")},
		}}
		dead.FirstFailure, dead.LastFailure = at, at
		dead.Set(
			func(name, value string) { m.Headers = append(m.Headers, kafka.Header{Key: name, Value: []byte(value)}) },
		)
		return m
	}
	good := event.DeadLetter{
		Service:   "discovery-worker",
		Handler:   "score",
		Topic:     task.Name,
		Partition: 1,
		Offset:    42,
		Code:      "bad_task",
		Reason:    "why",
		Attempts:  5,
	}
	sibling := good
	sibling.Topic = "payroll"
	require.NoError(t, bus.WriteAll(ctx, w, []kafka.Message{
		deadLetter(score.Name, "a", good), deadLetter(score.Name, "b", good), deadLetter(score.Name, "c", sibling),
		deadLetter(fetch.Name, "d", good), {Topic: fetch.Name, Value: []byte("not a dead letter")},
	}))
	all := find(t, cfg, true, ingest.DeadLetterFilter{})
	require.Equal(t, 5, len(all))
	require.Equal(t, "bad_task", all["discovery-worker.score:0-1"].Code())
	require.Error(t, all["discovery-worker.fetch:0-1"].Unreadable)
	require.Equal(t, 3,
		len(find(t, cfg, true, ingest.DeadLetterFilter{Handler: "discovery-worker.score", Code: "bad_task"})))

	res, err := ingest.ResubmitDead(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{Handler: "discovery-worker.score"})
	require.NoError(t, err)
	require.Equal(t, int64(3), res.Selected)
	require.Equal(t, int64(2), res.Resubmitted)
	require.Len(t, res.Skipped, 1)
	back := topic(t, cfg.Bus, task.Name)
	require.Len(t, back, 2)
	for _, m := range back {
		require.Equal(t, "value of "+string(m.Key), string(m.Value))
		require.Len(t, m.Headers, 2, "original messages")
	}
	res, err = ingest.ResubmitDead(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{})
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Resubmitted, "dead letter of the other handler")
	require.Len(t, topic(t, cfg.Bus, task.Name), 3)
	res, err = ingest.ResubmitDead(ctx, cfg, ingest.Deps{},
		ingest.DeadLetterFilter{Resubmitted: true, IDs: []string{"discovery-worker.score:0-0"}})
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Resubmitted, "repeated resubmission")
}

// webhook-sender skips deliveries that it dead-lettered, unless they have a new round. Other
// messages are not changed.
func TestResubmitDead_WebhookDeliveriesGetNewRound(t *testing.T) {
	cfg := withStateDir(t)
	ctx := t.Context()
	dead := event.DeadLetterTopic("webhook-sender", "deliver").Name
	require.NoError(
		t,
		bus.EnsureTopics(ctx, cfg.Bus,
			[]bus.Topic{{Name: event.TopicWebhookTask, Partitions: 1}, {Name: dead, Partitions: 1}}),
	)
	w := bus.NewWriter(cfg.Bus)
	defer func() { require.NoError(t, w.Close()) }()
	at := time.Now().UTC().Truncate(time.Millisecond)
	deadLetter := func(key, id string, value []byte) kafka.Message {
		m := kafka.Message{Topic: dead, Key: []byte(key), Value: value, Headers: []kafka.Header{
			{Key: bus.HeaderID, Value: []byte(id)}, {Key: "traceparent", Value: []byte("00-1")},
		}}
		d := event.DeadLetter{
			Service:      "webhook-sender",
			Handler:      "deliver",
			Topic:        event.TopicWebhookTask,
			Code:         "exhausted",
			Attempts:     10,
			FirstFailure: at,
			LastFailure:  at,
		}
		d.Set(func(name, value string) { m.Headers = append(m.Headers, kafka.Header{Key: name, Value: []byte(value)}) })
		return m
	}
	task := event.WebhookTask{
		DeliveryID:     "req_1",
		OrganizationID: "org1",
		URL:            "https://h/?q=1",
		RequestID:      "req_1",
		Body:           []byte(`{"a":1}`),
		CreatedAt:      at,
	}
	key, id, value, err := task.Message()
	require.NoError(t, err)
	retried := task
	retried.Round = "r1"
	_, retriedID, retriedValue, err := retried.Message()
	require.NoError(t, err)
	require.NoError(t, bus.WriteAll(ctx, w, []kafka.Message{
		deadLetter(key, id, value), deadLetter(key, retriedID, retriedValue),
		deadLetter("k", "x", []byte("not a task")), deadLetter("k", "y", []byte(`{"url":"https://h/"}`)),
		deadLetter(key, id, nil),
	}))

	res, err := ingest.ResubmitDead(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{})
	require.NoError(t, err)
	require.Equal(t, int64(5), res.Selected)
	require.Equal(t, int64(4), res.Resubmitted)
	require.Equal(t, map[string]int64{"the webhook body was deleted": 1}, res.Skipped)
	back := topic(t, cfg.Bus, event.TopicWebhookTask)
	require.Len(t, back, 4)
	rounds := map[string]bool{}
	for _, m := range back[:2] {
		var got event.WebhookTask
		require.NoError(t, json.Unmarshal(m.Value, &got))
		require.NoError(t, got.Validate())
		require.NotContains(t, []string{"", "r1"}, got.Round)
		rounds[got.Round] = true
		require.Equal(t, key, string(m.Key))
		require.Equal(
			t,
			[]kafka.Header{
				{Key: bus.HeaderID, Value: []byte("req_1/" + got.Round)},
				{Key: "traceparent", Value: []byte("00-1")},
			},
			m.Headers,
		)
		got.Round = ""
		require.Equal(t, task, got)
	}
	require.Len(t, rounds, 1, "one message per delivery")
	require.Equal(t, "not a task", string(back[2].Value))
	require.Equal(t, `{"url":"https://h/"}`, string(back[3].Value))

	res, err = ingest.ResubmitDead(ctx, cfg, ingest.Deps{}, ingest.DeadLetterFilter{Resubmitted: true})
	require.NoError(t, err)
	require.Equal(t, int64(4), res.Resubmitted)
	var last event.WebhookTask
	require.NoError(t, json.Unmarshal(topic(t, cfg.Bus, event.TopicWebhookTask)[4].Value, &last))
	require.NotContains(t, rounds, last.Round, "a new round per resubmission")
}
