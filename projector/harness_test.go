package projector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/broker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/record"
)

// harness is a broker with the platform's topics and a migrated database.
type harness struct {
	*store
	t      *testing.T
	broker *broker.Broker
	kafka  bus.Config
	writer *bus.Writer
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	return harnessOver(t, openStore(t))
}

// harnessOver is a harness with an existing store.
func harnessOver(t *testing.T, s *store) *harness {
	t.Helper()
	b := brokertest.Start(t)
	h := &harness{store: s, t: t, broker: b, kafka: bus.Config{Brokers: b.Addrs()}}
	h.ensureTopics()
	h.writer = bus.NewWriter(h.kafka)
	t.Cleanup(func() { require.NoError(t, h.writer.Close()) })
	return h
}

func (h *harness) ensureTopics() {
	h.t.Helper()
	var topics []bus.Topic
	for _, topic := range event.Topics() {
		topics = append(topics, bus.Topic{Name: topic.Name, Partitions: topic.Partitions, Replication: 1,
			Config: topic.Config()})
	}
	require.NoError(h.t, bus.EnsureTopics(h.t.Context(), h.kafka, topics))
}

// start runs a projector and returns what stops it and waits for it.
func (h *harness) start(change func(*projector.Config, *projector.Deps)) (stop func()) {
	h.t.Helper()
	cfg := projector.Config{Kafka: h.kafka, RetryMin: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		MaxAge: 20 * time.Millisecond}
	cfg.Timing.JoinBackoff = 100 * time.Millisecond
	deps := projector.Deps{Conn: h.conn, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg, &deps)
	}
	p, err := projector.New(cfg, deps)
	require.NoError(h.t, err)
	require.NoError(h.t, p.Check(h.t.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
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
			require.NoError(h.t, err)
		case <-time.After(30 * time.Second):
			h.t.Error("projector did not stop")
		}
	}
	h.t.Cleanup(stop)
	return stop
}

func message(rec *record.Record) kafka.Message {
	return kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON}
}

func (h *harness) publish(messages ...kafka.Message) {
	h.t.Helper()
	require.NoError(h.t, bus.WriteAll(h.t.Context(), h.writer, messages))
}

func (h *harness) publishRecords(recs ...*record.Record) {
	h.t.Helper()
	var messages []kafka.Message
	for _, r := range recs {
		messages = append(messages, message(r))
	}
	h.publish(messages...)
}

// caughtUp waits until everything published so far is committed.
func (h *harness) caughtUp() {
	h.t.Helper()
	var missing atomic.Value
	missing.Store("the lag was never told")
	defer func() {
		if h.t.Failed() {
			h.t.Logf("what is missing: %s", missing.Load())
		}
	}()
	eventually(h.t, func(ctx context.Context) bool {
		// In this order: projections publish touches.
		for _, c := range []bus.GroupTopics{
			{Group: projector.Group, Topics: projector.Topics()}, {Group: projector.AnswersGroup,
				Topics: []string{event.TopicAnswerTask}},
		} {
			lag, err := bus.Lag(ctx, h.kafka, c.Group, c.Topics)
			if err != nil {
				missing.Store(err.Error())
				return false
			}
			for _, l := range lag {
				if l.Lag > 0 {
					missing.Store(fmt.Sprintf("%+v", l))
					return false
				}
			}
		}
		return true
	}, "projector did not catch up")
}

// rejectedRecords reads the topic of rejected records whole.
func (h *harness) rejectedRecords() []event.Rejected {
	h.t.Helper()
	var out []event.Rejected
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	f := bus.Follow(ctx, h.kafka, bus.FollowConfig{Topics: []string{event.TopicRejected},
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
		h.t.Fatal("rejected records not read")
	}
	require.NoError(h.t, f.Close())
	return out
}

// history returns records of a few identities in several versions, shuffled and partly repeated; want is the
// newest version of each.
func history(tb testing.TB, seed uint64, people, versions int) (all []*record.Record, want map[string]*record.Record) {
	random := rand.New(rand.NewPCG(seed, seed))
	want = map[string]*record.Record{}
	for p := range people {
		id := fmt.Sprintf("p_%d", p)
		for v := range versions {
			members := fmt.Sprintf(`"username":"user-%d","headline":"v%d","emails":["%d@x.example"]`,
				random.IntN(people), v, p)
			if random.IntN(10) == 0 {
				members = `"deleted":true`
			}
			rec := person(tb, id, fmt.Sprintf("2020-01-%02dT00:00:00Z", v+1), members)
			want[id] = rec
			for range 1 + random.IntN(2) {
				all = append(all, rec)
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, want
}

func (h *harness) requireNewest(want map[string]*record.Record) {
	h.t.Helper()
	var ids []string
	for id := range want {
		ids = append(ids, id)
	}
	rows := h.networkPeople(ids...)
	require.Len(h.t, rows, len(want))
	for _, r := range rows {
		rec := want[r.ProfileID]
		require.Equal(h.t, int64(rec.Version), r.Version, r.ProfileID)
		require.Equal(h.t, rec.Deleted, r.Deleted, r.ProfileID)
		require.Equal(h.t, rec.Body.(*record.NetworkPerson).Username, r.Username, r.ProfileID)
	}
	require.EqualValues(h.t, len(want), h.count("SELECT count() FROM network_people FINAL"))
}
