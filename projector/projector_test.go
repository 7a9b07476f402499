package projector_test

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

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/engine/enginetest"
	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestProjector_HandlesReorderedAndRepeatedRecords(t *testing.T) {
	h := newHarness(t)
	all, want := history(t, 1, 60, 5)
	h.start(nil)
	for len(all) > 0 {
		n := min(len(all), 70)
		h.publishRecords(all[:n]...)
		all = all[n:]
	}
	h.caughtUp()
	h.requireNewest(want)
	require.Empty(t, h.rejectedRecords())
}

func TestProjector_HandlesRenamesAndRecycledUsernames(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.publishRecords(person(t, "p_1", "2024", `"username":"ann"`))
	h.caughtUp()
	h.publishRecords(person(t, "p_1", "2025", `"username":"ann-b"`), person(t, "p_2", "2025-02", `"username":"ann"`))
	h.caughtUp()
	// Both are candidates; the main rows have the current owner.
	holders := map[string]string{}
	for _, l := range h.lookup(readmodel.LookupNetworkUsername, "ann") {
		for _, r := range h.networkPeople(l.Target) {
			holders[l.Target] = r.UsernameKey
		}
	}
	require.Equal(t, map[string]string{"p_1": "ann-b", "p_2": "ann"}, holders)
}

func TestProjector_SplitsEmbeddedLists(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	h.publish(kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
		Value: []byte(`{"user_id":7,"codehost_username":"ann","last_updated":"2025",
		"repos":[{"id":1,"updated_at":"2024"},{"id":2},{"id":3,"updated_at":"2023"}],"repos_complete":true,"commits":[{"sha":"a","author_date":"2024"}]}`)})
	h.caughtUp()
	row := h.answers(7)[0]
	require.Equal(t, "1 3", ids(h.entries("repos", readmodel.ShapeWebset, row)))
	require.Len(t, h.entries("commits", readmodel.ShapeWebset, row), 1)
	rejected := h.rejectedRecords()
	require.Len(t, rejected, 1)
	require.Equal(t, "repos[1].updated_at", rejected[0].Path)

	// A later complete list deletes the entries that it lacks.
	h.publish(kafka.Message{Topic: record.KindCodehostPerson.Topic(), Key: []byte("7"),
		Value: []byte(`{"user_id":7,"codehost_username":"ann","last_updated":"2026","repos":[{"id":3,"updated_at":"2023"}],"repos_complete":true}`)})
	h.caughtUp()
	require.Equal(t, "3", ids(h.entries("repos", readmodel.ShapeWebset, h.answers(7)[0])))
}

func TestProjector_MappingRevisionOfTheHeaderDecides(t *testing.T) {
	h := newHarness(t)
	h.start(nil)
	revised := func(rec *record.Record, revision string) kafka.Message {
		m := message(rec)
		m.Headers = []kafka.Header{{Key: event.HeaderRevision, Value: []byte(revision)}}
		return m
	}
	h.publish(
		revised(person(t, "p_1", "2025", `"username":"mapped"`), "7"),
		message(person(t, "p_1", "2025", `"username":"original"`)),
		revised(person(t, "p_1", "2025", `"username":"older"`), "6"),
		revised(person(t, "p_1", "2024", `"username":"stale"`), "8"),
		revised(decode(t, record.KindCodehostPerson,
			`{"user_id":7,"codehost_username":"ann","last_updated":"2025","repos":[{"id":1,"updated_at":"2024","name":"new"}]}`), "7"),
		message(decode(t, record.KindCodehostPerson,
			`{"user_id":7,"codehost_username":"ann","last_updated":"2025","repos":[{"id":1,"updated_at":"2024","name":"old"}]}`)),
	)
	h.caughtUp()
	require.Equal(t, "mapped", h.networkPeople("p_1")[0].UsernameKey)
	require.Contains(t, h.entries("repos", readmodel.ShapeWebset, h.answers(7)[0])[0], `"new"`)
}

func TestProjector_RejectsInvalidMessages(t *testing.T) {
	h := newHarness(t)
	topic := record.KindNetworkPerson.Topic()
	good := person(t, "p_good", "2025", `"username":"good"`)
	registry := prometheus.NewRegistry()
	h.start(func(_ *projector.Config, d *projector.Deps) { d.Registerer = registry })
	h.publish(
		message(person(t, "p_first", "2025", `"username":"first"`)),
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
		message(good),
	)
	h.caughtUp()
	require.Len(t, h.networkPeople("p_first", "p_good", "p_1", "p_2", "p_3", "p_other", "p_4", "p_5", "p_6"), 2)
	got := map[string]string{}
	for _, r := range h.rejectedRecords() {
		require.Equal(t, record.KindNetworkPerson, r.Kind)
		require.Equal(t, topic, r.Source.Topic)
		require.NotZero(t, r.At)
		got[string(r.Raw)] = r.Code
	}
	require.Equal(t, map[string]string{
		`{"profile_id":"p_1"`:                                           record.CodeSyntax,
		`{"profile_id":"p_2","username":"x"}`:                           record.CodeMissingVersion,
		`{"profile_id":"p_other","username":"x","last_updated":"2025"}`: projector.CodeKeyMismatch,
		`{"profile_id":"p_4","username":"x","last_updated":"2025"}`:     projector.CodeKeyMismatch,
		`{"profile_id":"p_8","username":"x","last_updated":"2025"}`:     projector.CodeBadRevision,
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
		"muster_projector_insert_duration_seconds", "muster_projector_render_duration_seconds", "muster_consumer_lag_records",
		"muster_consumer_batch_records"} {
		require.True(t, names[name], name)
	}
	n, err := testutil.GatherAndCount(registry, "muster_projector_rejected_total")
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 3)
}

// They are published in several requests.
func TestProjector_EachRejectedRecordOfALargeBatchIsPublished(t *testing.T) {
	const count = 2500
	h := newHarness(t)
	var log bytes.Buffer
	messages := make([]kafka.Message, count)
	for i := range messages {
		messages[i] = kafka.Message{Topic: record.KindNetworkPerson.Topic(), Key: []byte(strconv.Itoa(i)),
			Value: []byte("{" + strconv.Itoa(i))}
	}
	h.publish(messages...)
	stop := h.start(func(_ *projector.Config, d *projector.Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&log,
			nil))
	})
	h.caughtUp()
	stop()
	values, sources := map[string]bool{}, map[string]bool{}
	for _, r := range h.rejectedRecords() {
		require.Equal(t, record.CodeSyntax, r.Code)
		values[string(r.Raw)], sources[r.Source.String()] = true, true
	}
	require.Len(t, values, count)
	require.Len(t, sources, count)
	require.Less(t, strings.Count(log.String(), "records rejected"), count/100, "a batch is logged once")
}

// It has no version.
func TestProjector_TombstoneDeletesNoRows(t *testing.T) {
	h := newHarness(t)
	topic, key := record.KindNetworkPerson.Topic(), []byte("p_kept")
	h.start(nil)
	h.publish(message(person(t, "p_kept", "2025", `"username":"kept"`)), kafka.Message{Topic: topic, Key: key})
	h.caughtUp()
	require.False(t, h.networkPeople("p_kept")[0].Deleted)
	require.Empty(t, h.rejectedRecords())
	h.publish(kafka.Message{Topic: topic, Key: key,
		Value: []byte(`{"profile_id":"p_kept","last_updated":"2026","deleted":true}`)})
	h.caughtUp()
	require.True(t, h.networkPeople("p_kept")[0].Deleted, "a record with deleted withdraws it")
}

// The other records of its batch are projected.
func TestProjector_IsolatesRecordRejectedByClickHouse(t *testing.T) {
	h := newHarness(t)
	require.NoError(t, h.conn.Exec(t.Context(), "ALTER TABLE network_people ADD CONSTRAINT no_ogres CHECK username "+
		"!= 'ogre'"))
	var recs []*record.Record
	for i := range 16 {
		name := fmt.Sprint("user-", i)
		if i == 5 || i == 12 {
			name = "ogre"
		}
		recs = append(recs, person(t, fmt.Sprint("p_", i), "2025", `"username":"`+name+`"`))
	}
	h.publishRecords(recs...)
	h.start(nil)
	h.caughtUp()
	require.EqualValues(t, 14, h.count("SELECT count() FROM network_people FINAL"))
	rejected := h.rejectedRecords()
	require.Len(t, rejected, 2)
	for _, r := range rejected {
		require.Equal(t, projector.CodeRefused, r.Code)
		require.Contains(t, r.Reason, "VIOLATED_CONSTRAINT")
		require.Contains(t, string(r.Raw), "ogre")
	}
}

// While the breaker is open, nothing is rejected and nothing is lost.
func TestProjector_PausesWhileClickHouseFails(t *testing.T) {
	h := newHarness(t)
	people := readmodel.Rebuild{Model: readmodel.Model{Table: "network_people"}}
	require.NoError(t, h.conn.Exec(t.Context(), people.PauseInserts()))
	registry := prometheus.NewRegistry()
	cfg := projector.Config{Kafka: h.kafka, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond, BreakAfter: 3,
		BreakFor: 100 * time.Millisecond}
	p, err := projector.New(cfg, projector.Deps{Conn: h.conn, Logger: slog.New(slog.DiscardHandler),
		Registerer: registry})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()
	h.publishRecords(person(t, "p_1", "2025", `"username":"ann"`))
	eventually(t, func(ctx context.Context) bool {
		err := p.Check(ctx)
		return err != nil && strings.Contains(err.Error(), "paused")
	}, "breaker did not open")
	opened, err := testutil.GatherAndCount(registry, "muster_breaker_state", "muster_breaker_transitions_total")
	require.NoError(t, err)
	require.NotZero(t, opened)
	lag, err := bus.Lag(t.Context(), h.kafka, projector.Group, projector.Topics())
	require.NoError(t, err)
	require.EqualValues(t, 1, totalLag(lag), "the record is not committed")
	require.NoError(t, h.conn.Exec(t.Context(), people.ResumeInserts("network_people")))
	h.caughtUp()
	require.Len(t, h.networkPeople("p_1"), 1)
	require.Empty(t, h.rejectedRecords())
	eventually(t, func(ctx context.Context) bool { return p.Check(ctx) == nil }, "breaker did not close")
}

// ClickHouse is available.
func TestCheck_FailsWithoutKafkaAssignment(t *testing.T) {
	h := newHarness(t)
	h.kafka = bus.Config{Brokers: brokertest.Start(t).Addrs()} // without topics, so that the consumers cannot join
	p, err := projector.New(projector.Config{Kafka: h.kafka, AwayAfter: 50 * time.Millisecond},
		projector.Deps{Conn: h.conn, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, p.Check(t.Context()), "it has not begun")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() { cancel(); require.NoError(t, <-done) }()
	eventually(t, func(ctx context.Context) bool {
		err := p.Check(ctx)
		return err != nil && strings.Contains(err.Error(), "consumer group")
	}, "it says that it is ready")
	h.ensureTopics()
	eventually(t, func(ctx context.Context) bool { return p.Check(ctx) == nil }, "it does not get ready")
}

func totalLag(lags []bus.PartitionLag) (n int64) {
	for _, l := range lags {
		n += l.Lag
	}
	return n
}

func TestProjector_RetriesUntilMissingTableExists(t *testing.T) {
	h := newHarness(t)
	require.NoError(t, h.conn.Exec(t.Context(), "RENAME TABLE network_people TO away"))
	h.publishRecords(person(t, "p_1", "2025", `"username":"ann"`))
	registry := prometheus.NewRegistry()
	h.start(func(_ *projector.Config, d *projector.Deps) { d.Registerer = registry })
	eventually(t, func(context.Context) bool {
		n, err := testutil.GatherAndCount(registry, "muster_consumer_batch_retries_total")
		return err == nil && n > 0
	}, "no retry")
	require.NoError(t, h.conn.Exec(t.Context(), "RENAME TABLE away TO network_people"))
	h.caughtUp()
	require.Len(t, h.networkPeople("p_1"), 1)
	require.Empty(t, h.rejectedRecords())
}

// The engine is killed repeatedly while batches are inserted.
func TestEngineKilledMidBatch(t *testing.T) {
	h := newHarness(t)
	all, want := history(t, 7, 150, 8)
	registry := prometheus.NewRegistry()
	stop := h.start(func(c *projector.Config, d *projector.Deps) { c.MaxMessages, d.Registerer = 50, registry })
	published := make(chan struct{})
	go func() {
		defer close(published)
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 50)
			var messages []kafka.Message
			for _, r := range rest[:n] {
				messages = append(messages, message(r))
			}
			if err := bus.WriteAll(t.Context(), h.writer, messages); err != nil {
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
	eventually(t, met, "no batch met a dead engine")
	// Once, the projector stops in between and another takes over.
	stop()
	h.start(nil)
	enginetest.Kill(t)
	h.caughtUp()
	h.requireNewest(want)
	require.Empty(t, h.rejectedRecords())
}

// One leaves midway, another joins.
func TestProjector_ReplicasSharePartitions(t *testing.T) {
	h := newHarness(t)
	all, want := history(t, 9, 200, 4)
	stopFirst := h.start(nil)
	h.start(nil)
	h.publishRecords(all[:len(all)/2]...)
	stopFirst()
	h.publishRecords(all[len(all)/2:]...)
	h.start(nil)
	h.caughtUp()
	h.requireNewest(want)
}

// Three projectors of one group leave and rejoin in turn, with slow batches in flight during every rebalance.
func TestProjector_RebalanceDuringBatchLosesNothing(t *testing.T) {
	h := newHarness(t)
	people, rounds := 120, 6
	if testing.Short() { // One insert per table and ten records: 120 take a minute on a busy machine.
		people, rounds = 40, 2
	}
	all, want := history(t, 11, people, 6)
	registry := prometheus.NewRegistry()
	small := func(c *projector.Config, d *projector.Deps) { c.MaxMessages, c.MaxAge = 10, time.Millisecond }
	stops := []func(){h.start(small), h.start(small),
		h.start(func(c *projector.Config, d *projector.Deps) { small(c, d); d.Registerer = registry })}
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 20)
			var messages []kafka.Message
			for _, r := range rest[:n] {
				messages = append(messages, message(r))
			}
			if err := bus.WriteAll(t.Context(), h.writer, messages); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	})
	for i := range rounds {
		stops[i%2]()
		h.requireInsertedCommitted()
		stops[i%2] = h.start(small)
	}
	publishing.Wait()
	h.caughtUp()
	h.requireInsertedCommitted()
	h.requireNewest(want)
	require.Empty(t, h.rejectedRecords())
	generations, err := testutil.GatherAndCount(registry, "muster_consumer_assignments_total")
	require.NoError(t, err)
	require.NotZero(t, generations)
}

// requireInsertedCommitted checks that no committed offset is ahead of the inserts: the last committed record
// of a partition is in the table, under its own offset unless a later one of the same identity has replaced
// it.
func (h *harness) requireInsertedCommitted() {
	h.t.Helper()
	lags, err := bus.Lag(h.t.Context(), h.kafka, projector.Group, projector.Topics())
	require.NoError(h.t, err)
	for _, l := range lags {
		if l.Committed <= 0 || l.Topic != record.KindNetworkPerson.Topic() {
			continue
		}
		// Without FINAL: rows that were replaced but not merged count too.
		n := h.count(fmt.Sprintf("SELECT count() FROM network_people WHERE partition = %d AND offset >= %d",
			l.Partition, l.Committed-1))
		merged := h.count("SELECT countIf(active AND level > 0) FROM system.parts WHERE database = currentDatabase() " +
			"AND table = 'network_people'")
		require.True(h.t, n > 0 || merged > 0, "partition %d is committed to %d", l.Partition, l.Committed)
	}
}

func TestNew_RejectsInvalidConfiguration(t *testing.T) {
	s := openStore(t)
	for name, make := range map[string]func() (projector.Config, projector.Deps){
		"no connection": func() (projector.Config, projector.Deps) {
			return projector.Config{Kafka: bus.Config{Brokers: []string{"127.0.0.1:1"}}}, projector.Deps{}
		},
		"no logger": func() (projector.Config, projector.Deps) {
			return projector.Config{Kafka: bus.Config{Brokers: []string{"127.0.0.1:1"}}}, projector.Deps{Conn: s.conn}
		},
		"no brokers": func() (projector.Config, projector.Deps) {
			return projector.Config{}, projector.Deps{Conn: s.conn, Logger: slog.New(slog.DiscardHandler)}
		},
		"negative": func() (projector.Config, projector.Deps) {
			return projector.Config{Kafka: bus.Config{Brokers: []string{"127.0.0.1:1"}}, MaxMessages: -1},
				projector.Deps{Conn: s.conn, Logger: slog.New(slog.DiscardHandler)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, deps := make()
			_, err := projector.New(cfg, deps)
			require.Error(t, err)
		})
	}
}
