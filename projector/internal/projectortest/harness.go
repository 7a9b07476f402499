package projectortest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/projector"
	"muster/projector/linked"
	"muster/projector/project"
	"muster/projector/replay"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Harness is a broker with the platform's topics and a migrated database.
type Harness struct {
	*Store
	T      *testing.T
	Broker *broker.Broker
	Kafka  bus.Config
	Writer *bus.Writer
}

// New returns a harness with an empty database.
func New(t *testing.T) *Harness {
	t.Helper()
	return Over(t, OpenStore(t))
}

// Over returns a harness with an existing store.
func Over(t *testing.T, s *Store) *Harness {
	t.Helper()
	b := brokertest.Start(t)
	h := &Harness{Store: s, T: t, Broker: b, Kafka: bus.Config{Brokers: b.Addrs()}}
	h.EnsureTopics()
	h.Writer = bus.NewWriter(h.Kafka)
	t.Cleanup(func() { require.NoError(t, h.Writer.Close()) })
	return h
}

// EnsureTopics creates the platform's topics.
func (h *Harness) EnsureTopics() {
	h.T.Helper()
	var topics []bus.Topic
	for _, topic := range event.Topics() {
		topics = append(topics, bus.Topic{Name: topic.Name, Partitions: topic.Partitions, Replication: 1,
			Config: topic.Config()})
	}
	require.NoError(h.T, bus.EnsureTopics(h.T.Context(), h.Kafka, topics))
}

// Start runs a projector and returns a function that stops it.
func (h *Harness) Start(change func(*projector.Config, *project.Deps)) (stop func()) {
	h.T.Helper()
	cfg := projector.Config{Config: project.Config{
		Kafka: h.Kafka, MaxAge: 20 * time.Millisecond,
		RetryMin: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond,
	}}
	cfg.Timing.JoinBackoff = 100 * time.Millisecond
	deps := project.Deps{Conn: h.Conn, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg, &deps)
	}
	p, err := projector.New(cfg, deps)
	require.NoError(h.T, err)
	require.NoError(h.T, p.Check(h.T.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.T.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			require.NoError(h.T, err)
		case <-time.After(30 * time.Second):
			h.T.Error("projector did not stop")
		}
	}
	h.T.Cleanup(stop)
	return stop
}

// StartLinked runs the consumer of linked accounts alone, as with a search index, and returns a function that stops it.
func (h *Harness) StartLinked(conn driver.Conn, suppressed *suppress.Set) (stop func()) {
	h.T.Helper()
	cfg := project.Config{Kafka: h.Kafka, RetryMin: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond}
	cfg.Timing.JoinBackoff = 100 * time.Millisecond
	cfg, deps, err := project.WithDefaults(cfg, project.Deps{Conn: conn, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(h.T, err)
	consumer, err := linked.NewConsumer(
		linked.Config{Consumer: project.Consumer(cfg, deps), Group: linked.Group, TouchDocuments: true},
		linked.Deps{
			Refresher: linked.Refresher{Conn: conn, Suppressed: suppressed, Now: time.Now}, Writer: h.Writer,
			Logger: deps.Logger, Tracer: project.Tracer(deps),
		})
	require.NoError(h.T, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(h.T, <-ended)
	})
	h.T.Cleanup(stop)
	return stop
}

// RecordsCaughtUp waits until all records are projected.
func (h *Harness) RecordsCaughtUp() {
	h.T.Helper()
	Eventually(h.T, func(ctx context.Context) bool {
		lags, err := bus.Lag(ctx, h.Kafka, projector.Group, projector.Topics())
		return err == nil && TotalLag(lags) == 0
	}, "records are not projected")
}

// LinkedCaughtUp waits until the consumer of linked accounts has handled all touches.
func (h *Harness) LinkedCaughtUp() {
	h.T.Helper()
	Eventually(h.T, func(ctx context.Context) bool {
		lags, err := bus.Lag(ctx, h.Kafka, linked.Group, []string{event.TopicAnswerTask})
		return err == nil && TotalLag(lags) == 0
	}, "touches are not handled")
}

// Touches returns all touches, ordered by key, and those of a key in the order of their publication.
func (h *Harness) Touches() (out []event.AnswerTask) {
	h.T.Helper()
	require.NoError(h.T, bus.Scan(h.T.Context(), h.Kafka, []string{event.TopicAnswerTask}, func(m kafka.Message) error {
		var task event.AnswerTask
		err := json.Unmarshal(m.Value, &task)
		out = append(out, task)
		return err
	}))
	slices.SortStableFunc(out, func(a, b event.AnswerTask) int { return cmp.Compare(a.MessageKey(), b.MessageKey()) })
	return out
}

// Message returns the message of a record.
func Message(rec *record.Record) kafka.Message {
	return kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON}
}

// Publish publishes messages.
func (h *Harness) Publish(messages ...kafka.Message) {
	h.T.Helper()
	require.NoError(h.T, bus.WriteAll(h.T.Context(), h.Writer, messages))
}

// PublishRecords publishes records.
func (h *Harness) PublishRecords(recs ...*record.Record) {
	h.T.Helper()
	var messages []kafka.Message
	for _, r := range recs {
		messages = append(messages, Message(r))
	}
	h.Publish(messages...)
}

// CaughtUp waits until everything published so far is committed.
func (h *Harness) CaughtUp() {
	h.T.Helper()
	var missing atomic.Value
	missing.Store("the lag was never read")
	defer func() {
		if h.T.Failed() {
			h.T.Logf("last lag or error: %s", missing.Load())
		}
	}()
	Eventually(h.T, func(ctx context.Context) bool {
		// In this order: projections publish touches.
		for _, c := range []bus.GroupTopics{
			{Group: projector.Group, Topics: projector.Topics()},
			{Group: projector.AnswersGroup, Topics: []string{event.TopicAnswerTask}},
			{Group: projector.LinkedGroup, Topics: []string{event.TopicAnswerTask}},
		} {
			lag, err := bus.Lag(ctx, h.Kafka, c.Group, c.Topics)
			if err != nil {
				missing.Store(err.Error())
				return false
			}
			for _, l := range lag {
				if l.Lag > 0 {
					missing.Store(fmt.Sprintf("%s %+v", c.Group, l))
					return false
				}
			}
		}
		return true
	}, "projector did not catch up")
}

// RejectedRecords reads all rejected records.
func (h *Harness) RejectedRecords() []event.Rejected {
	h.T.Helper()
	var out []event.Rejected
	ctx, cancel := context.WithCancel(h.T.Context())
	defer cancel()
	f := bus.Follow(ctx, h.Kafka, bus.FollowConfig{Topics: []string{event.TopicRejected},
		Handle: func(_ context.Context, m kafka.Message) error {
			e, err := bus.GetEvent(m.Headers)
			if err != nil {
				return err
			}
			if e.Type != event.TypeRejected {
				return errors.New(e.Type)
			}
			var r event.Rejected
			if err := json.Unmarshal(m.Value, &r); err != nil {
				return err
			}
			out = append(out, r)
			return nil
		}, Logger: slog.New(slog.DiscardHandler)})
	select {
	case <-f.Ready():
	case <-time.After(30 * time.Second):
		h.T.Fatal("rejected records not read")
	}
	require.NoError(h.T, f.Close())
	return out
}

// RequireNewest requires that the tables have these network people and no others.
func (h *Harness) RequireNewest(want map[string]*record.Record) {
	h.T.Helper()
	var ids []string
	for id := range want {
		ids = append(ids, id)
	}
	rows := h.NetworkPeople(ids...)
	require.Len(h.T, rows, len(want))
	for _, r := range rows {
		rec := want[r.ProfileID]
		require.Equal(h.T, int64(rec.Version), r.Version, r.ProfileID)
		require.Equal(h.T, rec.Deleted, r.Deleted, r.ProfileID)
		require.Equal(h.T, rec.Body.(*record.NetworkPerson).Username, r.Username, r.ProfileID)
	}
	require.EqualValues(h.T, len(want), h.Count("SELECT count() FROM network_people FINAL"))
}

// RequireInsertedCommitted checks that no committed offset is ahead of the inserts: the last committed record
// of a partition is in the table, under its own offset unless a later one of the same identity has replaced
// it.
func (h *Harness) RequireInsertedCommitted() {
	h.T.Helper()
	lags, err := bus.Lag(h.T.Context(), h.Kafka, projector.Group, projector.Topics())
	require.NoError(h.T, err)
	for _, l := range lags {
		if l.Committed <= 0 || l.Topic != record.KindNetworkPerson.Topic() {
			continue
		}
		// Without FINAL: rows that were replaced but not merged count too.
		n := h.Count(fmt.Sprintf("SELECT count() FROM network_people WHERE partition = %d AND offset >= %d",
			l.Partition, l.Committed-1))
		merged := h.Count("SELECT countIf(active AND level > 0) FROM system.parts WHERE database = currentDatabase() " +
			"AND table = 'network_people'")
		require.True(h.T, n > 0 || merged > 0, "partition %d is committed to %d", l.Partition, l.Committed)
	}
}

// ReplayConfig returns the configuration of a replay of tables.
func (h *Harness) ReplayConfig(tables ...string) (replay.Config, replay.Deps) {
	cfg := replay.Config{Projector: project.Config{Kafka: h.Kafka}, Tables: tables}
	cfg.Projector.Timing.JoinBackoff = 100 * time.Millisecond
	return cfg, replay.Deps{Deps: project.Deps{Conn: h.Conn, Logger: slog.New(slog.DiscardHandler)}}
}

// Replay replays tables.
func (h *Harness) Replay(tables ...string) replay.Report {
	h.T.Helper()
	cfg, deps := h.ReplayConfig(tables...)
	report, err := replay.Tables(h.T.Context(), cfg, deps)
	require.NoError(h.T, err)
	return report
}

// Content returns a checksum of all of a table's current rows.
func (h *Harness) Content(table string) uint64 {
	return h.Count("SELECT sum(cityHash64(* EXCEPT (topic, partition, offset))) FROM " + table + " FINAL")
}

// OpenReplay returns the id of the replay that is not finished.
func (h *Harness) OpenReplay() string {
	h.T.Helper()
	var name string
	require.NoError(h.T, h.Conn.QueryRow(h.T.Context(), "SELECT name FROM system.tables WHERE database = "+
		"currentDatabase() AND name LIKE 'lookups\\\\_\\\\_new\\\\_%'").Scan(&name))
	_, id, old, ok := readmodel.ParseRebuilt(name)
	require.True(h.T, ok && !old)
	return id
}

// TotalLag returns the sum of lags.
func TotalLag(lags []bus.PartitionLag) (n int64) {
	for _, l := range lags {
		n += l.Lag
	}
	return n
}
