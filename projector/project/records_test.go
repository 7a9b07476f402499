package project_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/engine/enginetest"
	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestProjector_HandlesReorderedAndRepeatedRecords(t *testing.T) {
	h := projectortest.New(t)
	all, want := projectortest.History(t, 1, 60, 5)
	h.Start(nil)
	for len(all) > 0 {
		n := min(len(all), 70)
		h.PublishRecords(all[:n]...)
		all = all[n:]
	}
	h.CaughtUp()
	h.RequireNewest(want)
	require.Empty(t, h.RejectedRecords())
}

func TestProjector_HandlesRenamesAndRecycledUsernames(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.PublishRecords(projectortest.Person(t, "p_1", "2024", `"username":"ann"`))
	h.CaughtUp()
	h.PublishRecords(
		projectortest.Person(t, "p_1", "2025", `"username":"ann-b"`),
		projectortest.Person(t, "p_2", "2025-02", `"username":"ann"`),
	)
	h.CaughtUp()
	// Both are candidates; the main rows have the current owner.
	holders := map[string]string{}
	for _, l := range h.Lookup(readmodel.LookupNetworkUsername, "ann") {
		for _, r := range h.NetworkPeople(l.Target) {
			holders[l.Target] = r.UsernameKey
		}
	}
	require.Equal(t, map[string]string{"p_1": "ann-b", "p_2": "ann"}, holders)
}

func TestProjector_SplitsEmbeddedLists(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.Publish(kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
		Value: []byte(`{"user_id":7,"codehost_username":"ann","last_updated":"2025",
		"repos":[{"id":1,"updated_at":"2024"},{"id":2},{"id":3,"updated_at":"2023"}],"repos_complete":true,
		"commits":[{"sha":"a","author_date":"2024"}]}`)})
	h.CaughtUp()
	row := h.Answers(7)[0]
	require.Equal(t, "1 3", projectortest.IDs(h.Entries("repos", readmodel.ShapeWebset, row)))
	require.Len(t, h.Entries("commits", readmodel.ShapeWebset, row), 1)
	rejected := h.RejectedRecords()
	require.Len(t, rejected, 1)
	require.Equal(t, "repos[1].updated_at", rejected[0].Path)

	// A later complete list deletes the entries that it lacks.
	h.Publish(kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
		Value: []byte(
			`{"user_id":7,"codehost_username":"ann","last_updated":"2026","repos":[{"id":3,"updated_at":"2023"}],` +
				`"repos_complete":true}`,
		)})
	h.CaughtUp()
	require.Equal(t, "3", projectortest.IDs(h.Entries("repos", readmodel.ShapeWebset, h.Answers(7)[0])))
}

func TestProjector_MappingRevisionOfTheHeaderDecides(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	revised := func(rec *record.Record, revision string) kafka.Message {
		m := projectortest.Message(rec)
		m.Headers = []kafka.Header{{Key: event.HeaderRevision, Value: []byte(revision)}}
		return m
	}
	h.Publish(
		revised(projectortest.Person(t, "p_1", "2025", `"username":"mapped"`), "7"),
		projectortest.Message(projectortest.Person(t, "p_1", "2025", `"username":"original"`)),
		revised(projectortest.Person(t, "p_1", "2025", `"username":"older"`), "6"),
		revised(projectortest.Person(t, "p_1", "2024", `"username":"stale"`), "8"),
		revised(projectortest.Decode(
			t,
			record.KindCodehostPerson,
			`{"user_id":7,"codehost_username":"ann","last_updated":"2025","repos":[{"id":1,"updated_at":"2024",`+
				`"name":"new"}]}`,
		), "7"),
		projectortest.Message(projectortest.Decode(
			t,
			record.KindCodehostPerson,
			`{"user_id":7,"codehost_username":"ann","last_updated":"2025","repos":[{"id":1,"updated_at":"2024",`+
				`"name":"old"}]}`,
		)),
	)
	h.CaughtUp()
	require.Equal(t, "mapped", h.NetworkPeople("p_1")[0].UsernameKey)
	require.Contains(t, h.Entries("repos", readmodel.ShapeWebset, h.Answers(7)[0])[0], `"new"`)
}

func TestProjector_RejectsInvalidMessages(t *testing.T) {
	h := projectortest.New(t)
	topic := record.KindNetworkPerson.Topic()
	good := projectortest.Person(t, "p_good", "2025", `"username":"good"`)
	registry := prometheus.NewRegistry()
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Registerer = registry })
	h.Publish(
		projectortest.Message(projectortest.Person(t, "p_first", "2025", `"username":"first"`)),
		kafka.Message{Topic: topic, Key: []byte("p_1"), Value: []byte(`{"profile_id":"p_1"`)},
		kafka.Message{Topic: topic, Key: []byte("p_2"), Value: []byte(`{"profile_id":"p_2","username":"x"}`)},
		kafka.Message{Topic: topic, Key: []byte("p_3"),
			Value: []byte(`{"profile_id":"p_other","username":"x","last_updated":"2025"}`)},
		kafka.Message{Topic: topic, Key: []byte{},
			Value: []byte(`{"profile_id":"p_4","username":"x","last_updated":"2025"}`)},
		kafka.Message{Topic: topic, Key: []byte("p_5"), Value: []byte{}},
		kafka.Message{Topic: topic, Key: []byte("p_6")}, // a tombstone
		kafka.Message{
			Topic: topic, Key: []byte("p_8"),
			Value:   []byte(`{"profile_id":"p_8","username":"x","last_updated":"2025"}`),
			Headers: []kafka.Header{{Key: event.HeaderRevision, Value: []byte("-1")}},
		},
		kafka.Message{Topic: topic, Key: []byte("p_7"), Value: []byte("\xff\xfe")},
		projectortest.Message(good),
	)
	h.CaughtUp()
	require.Len(t, h.NetworkPeople("p_first", "p_good", "p_1", "p_2", "p_3", "p_other", "p_4", "p_5", "p_6"), 2)
	got := map[string]string{}
	for _, r := range h.RejectedRecords() {
		require.Equal(t, record.KindNetworkPerson, r.Kind)
		require.Equal(t, topic, r.Source.Topic)
		require.NotZero(t, r.At)
		got[string(r.Raw)] = r.Code
	}
	require.Equal(t, map[string]string{
		`{"profile_id":"p_1"`:                                           record.CodeSyntax,
		`{"profile_id":"p_2","username":"x"}`:                           record.CodeMissingVersion,
		`{"profile_id":"p_other","username":"x","last_updated":"2025"}`: project.CodeKeyMismatch,
		`{"profile_id":"p_4","username":"x","last_updated":"2025"}`:     project.CodeKeyMismatch,
		`{"profile_id":"p_8","username":"x","last_updated":"2025"}`:     project.CodeBadRevision,
		"":         record.CodeSyntax,
		"\xff\xfe": got["\xff\xfe"],
	}, got)
	require.NotEmpty(t, got["\xff\xfe"])

	families, err := registry.Gather()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, name := range []string{"muster_projector_records_total", "muster_projector_rejected_total",
		"muster_projector_insert_duration_seconds", "muster_projector_render_duration_seconds",
		"muster_consumer_lag_records",
		"muster_consumer_batch_records"} {
		require.True(t, names[name], name)
	}
	n, err := testutil.GatherAndCount(registry, "muster_projector_rejected_total")
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 3)
}

func TestProjector_RetriesUntilMissingTableExists(t *testing.T) {
	h := projectortest.New(t)
	require.NoError(t, h.Conn.Exec(t.Context(), "RENAME TABLE network_people TO away"))
	h.PublishRecords(projectortest.Person(t, "p_1", "2025", `"username":"ann"`))
	registry := prometheus.NewRegistry()
	h.Start(func(_ *projector.Config, d *project.Deps) { d.Registerer = registry })
	projectortest.Eventually(t, func(context.Context) bool {
		n, err := testutil.GatherAndCount(registry, "muster_consumer_batch_retries_total")
		return err == nil && n > 0
	}, "no retry")
	require.NoError(t, h.Conn.Exec(t.Context(), "RENAME TABLE away TO network_people"))
	h.CaughtUp()
	require.Len(t, h.NetworkPeople("p_1"), 1)
	require.Empty(t, h.RejectedRecords())
}

// The engine is killed repeatedly while batches are inserted.
func TestProjector_SurvivesKilledEngine(t *testing.T) {
	h := projectortest.New(t)
	all, want := projectortest.History(t, 7, 150, 8)
	registry := prometheus.NewRegistry()
	stop := h.Start(func(c *projector.Config, d *project.Deps) { c.MaxMessages, d.Registerer = 50, registry })
	published := make(chan struct{})
	go func() {
		defer close(published)
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 50)
			var messages []kafka.Message
			for _, r := range rest[:n] {
				messages = append(messages, projectortest.Message(r))
			}
			if err := bus.WriteAll(t.Context(), h.Writer, messages); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	}()
	met := func(context.Context) bool {
		n, err := testutil.GatherAndCount(registry, "muster_consumer_batch_retries_total")
		return err == nil && n > 0
	}
	for kills := 0; kills < 3 || !met(t.Context()) && kills < 20; kills++ {
		enginetest.Kill(t)
	}
	<-published
	projectortest.Eventually(t, met, "no batch ran while the engine was down")
	// Once, the projector stops in between and another takes over.
	stop()
	h.Start(nil)
	enginetest.Kill(t)
	h.CaughtUp()
	h.RequireNewest(want)
	require.Empty(t, h.RejectedRecords())
}

// One leaves midway, another joins.
func TestProjector_ReplicasSharePartitions(t *testing.T) {
	h := projectortest.New(t)
	all, want := projectortest.History(t, 9, 200, 4)
	stopFirst := h.Start(nil)
	h.Start(nil)
	h.PublishRecords(all[:len(all)/2]...)
	stopFirst()
	h.PublishRecords(all[len(all)/2:]...)
	h.Start(nil)
	h.CaughtUp()
	h.RequireNewest(want)
}

// Three projectors of one group leave and rejoin in turn, with slow batches in flight during every rebalance.
func TestProjector_RebalanceDuringBatchLosesNothing(t *testing.T) {
	h := projectortest.New(t)
	people, rounds := 120, 6
	if testing.Short() { // One insert per table and ten records: 120 take a minute on a busy machine.
		people, rounds = 40, 2
	}
	all, want := projectortest.History(t, 11, people, 6)
	registry := prometheus.NewRegistry()
	small := func(c *projector.Config, d *project.Deps) { c.MaxMessages, c.MaxAge = 10, time.Millisecond }
	stops := []func(){h.Start(small), h.Start(small),
		h.Start(func(c *projector.Config, d *project.Deps) { small(c, d); d.Registerer = registry })}
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 20)
			var messages []kafka.Message
			for _, r := range rest[:n] {
				messages = append(messages, projectortest.Message(r))
			}
			if err := bus.WriteAll(t.Context(), h.Writer, messages); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	})
	for i := range rounds {
		stops[i%2]()
		h.RequireInsertedCommitted()
		stops[i%2] = h.Start(small)
	}
	publishing.Wait()
	h.CaughtUp()
	h.RequireInsertedCommitted()
	h.RequireNewest(want)
	require.Empty(t, h.RejectedRecords())
	generations, err := testutil.GatherAndCount(registry, "muster_consumer_assignments_total")
	require.NoError(t, err)
	require.NotZero(t, generations)
}

// They are published in several requests.
func TestProjector_EachRejectedRecordOfALargeBatchIsPublished(t *testing.T) {
	const count = 2500
	h := projectortest.New(t)
	var log bytes.Buffer
	messages := make([]kafka.Message, count)
	for i := range messages {
		messages[i] = kafka.Message{Topic: record.KindNetworkPerson.Topic(), Key: []byte(strconv.Itoa(i)),
			Value: []byte("{" + strconv.Itoa(i))}
	}
	h.Publish(messages...)
	stop := h.Start(func(_ *projector.Config, d *project.Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&log,
			nil))
	})
	h.CaughtUp()
	stop()
	values, sources := map[string]bool{}, map[string]bool{}
	for _, r := range h.RejectedRecords() {
		require.Equal(t, record.CodeSyntax, r.Code)
		values[string(r.Raw)], sources[r.Source.String()] = true, true
	}
	require.Len(t, values, count)
	require.Len(t, sources, count)
	require.Less(t, strings.Count(log.String(), "records rejected"), count/100, "a batch is logged once")
}

// It has no version.
func TestProjector_TombstoneDeletesNoRows(t *testing.T) {
	h := projectortest.New(t)
	topic, key := record.KindNetworkPerson.Topic(), []byte("p_kept")
	h.Start(nil)
	h.Publish(
		projectortest.Message(projectortest.Person(t, "p_kept", "2025", `"username":"kept"`)),
		kafka.Message{Topic: topic, Key: key},
	)
	h.CaughtUp()
	require.False(t, h.NetworkPeople("p_kept")[0].Deleted)
	require.Empty(t, h.RejectedRecords())
	h.Publish(kafka.Message{Topic: topic, Key: key,
		Value: []byte(`{"profile_id":"p_kept","last_updated":"2026","deleted":true}`)})
	h.CaughtUp()
	require.True(t, h.NetworkPeople("p_kept")[0].Deleted, "a record with deleted set deletes the row")
}

// The other records of its batch are projected, and their people are linked.
func TestProjector_IsolatesRecordRejectedByClickHouse(t *testing.T) {
	h := projectortest.New(t)
	require.NoError(t, h.Conn.Exec(t.Context(), "ALTER TABLE network_people ADD CONSTRAINT no_ogres CHECK username "+
		"!= 'ogre'"))
	recs := []*record.Record{projectortest.AccountRecord(t, 7, "2025", "dev")}
	for i := range 16 {
		name := fmt.Sprint("user-", i)
		if i == 5 || i == 12 {
			name = "ogre"
		}
		recs = append(recs, projectortest.Person(t, fmt.Sprint("p_", i), "2025",
			`"codehost_username":"dev","username":"`+name+`"`))
	}
	h.PublishRecords(recs...)
	h.Start(nil)
	h.CaughtUp()
	require.EqualValues(t, 14, h.Count("SELECT count() FROM linked_accounts FINAL WHERE user_id = 7"))
	require.EqualValues(t, 14, h.Count("SELECT count() FROM network_people FINAL"))
	rejected := h.RejectedRecords()
	require.Len(t, rejected, 2)
	for _, r := range rejected {
		require.Equal(t, project.CodeRefused, r.Code)
		require.Contains(t, r.Reason, "VIOLATED_CONSTRAINT")
		require.Contains(t, string(r.Raw), "ogre")
	}
}

// While the breaker is open, nothing is rejected and nothing is lost.
func TestProjector_PausesWhileClickHouseFails(t *testing.T) {
	h := projectortest.New(t)
	people := readmodel.Rebuild{Model: readmodel.Model{Table: "network_people"}}
	require.NoError(t, h.Conn.Exec(t.Context(), people.PauseInserts()))
	registry := prometheus.NewRegistry()
	cfg := projector.Config{
		Config: project.Config{
			Kafka:      h.Kafka,
			RetryMin:   time.Millisecond,
			RetryMax:   10 * time.Millisecond,
			BreakAfter: 3,
			BreakFor:   100 * time.Millisecond,
		},
	}
	p, err := projector.New(cfg, project.Deps{Conn: h.Conn, Logger: slog.New(slog.DiscardHandler),
		Registerer: registry})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()
	h.PublishRecords(projectortest.Person(t, "p_1", "2025", `"username":"ann"`))
	projectortest.Eventually(t, func(ctx context.Context) bool {
		err := p.Check(ctx)
		return err != nil && strings.Contains(err.Error(), "paused")
	}, "breaker did not open")
	opened, err := testutil.GatherAndCount(registry, "muster_breaker_state", "muster_breaker_transitions_total")
	require.NoError(t, err)
	require.NotZero(t, opened)
	lag, err := bus.Lag(t.Context(), h.Kafka, projector.Group, projector.Topics())
	require.NoError(t, err)
	require.EqualValues(t, 1, projectortest.TotalLag(lag), "the record is not committed")
	require.NoError(t, h.Conn.Exec(t.Context(), people.ResumeInserts("network_people")))
	h.CaughtUp()
	require.Len(t, h.NetworkPeople("p_1"), 1)
	require.Empty(t, h.RejectedRecords())
	projectortest.Eventually(t, func(ctx context.Context) bool { return p.Check(ctx) == nil }, "breaker did not close")
}
