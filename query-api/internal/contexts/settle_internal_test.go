package contexts

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

func makeTopics(t *testing.T, cfg bus.Config) {
	t.Helper()
	var topics []bus.Topic
	for _, name := range []string{event.TopicContext, event.TopicContextTask, event.TopicWebhookTask} {
		topics = append(topics, bus.Topic{Name: name, Partitions: 1})
	}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, topics))
}

// The process may end before it delivers a settled result, and no other process would.
func TestContextCall_ResultIsDeliveredBeforeItIsSettled(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	makeTopics(t, cfg)
	d, err := New(Config{Bus: cfg, SingleReplica: true, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	delivered := make(chan string, 10)
	follower := bus.Follow(t.Context(), cfg,
		bus.FollowConfig{Topics: []string{event.TopicWebhookTask},
			Handle: func(_ context.Context, m kafka.Message) error {
				var task event.WebhookTask
				err := json.Unmarshal(m.Value, &task)
				delivered <- task.DeliveryID
				return err
			}})
	t.Cleanup(func() { require.NoError(t, follower.Close()) })
	settle := func(task *event.ContextTask) error {
		value, err := json.Marshal(event.Context{Call: task.Call, Status: event.ContextComplete,
			Profile: jsontext.Value(`{}`), At: task.Call.RespondBy.Add(-time.Millisecond)})
		require.NoError(t, err)
		m := message.NewMessage("m", value)
		m.SetContext(t.Context())
		return d.settle(m)
	}
	ask := func(id string, timeout time.Duration) (*event.ContextTask, <-chan *event.Context) {
		now := time.Now()
		task := &event.ContextTask{Person: jsontext.Value(`"x"`), Call: event.ContextCall{
			RequestID: id, OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now.Add(timeout),
			WebhookURL: "https://hooks.example/a",
		}}
		answer, asked := make(chan *event.Context, 1), make(chan struct{})
		go func() {
			state, err := d.Ask(t.Context(), task, func() { close(asked) })
			if err != nil {
				t.Error(err)
			}
			answer <- state
		}()
		<-asked
		return task, answer
	}

	waiting, answer := ask("waiting", time.Minute)
	require.NoError(t, settle(waiting))
	require.NotNil(t, <-answer, "a waiting call returns the result")

	accepted, answer := ask("accepted", 0)
	require.Nil(t, <-answer)
	d.close() // ends background deliveries, like the end of the process
	require.NoError(t, settle(accepted))
	select {
	case id := <-delivered:
		require.Equal(t, "accepted", id)
	case <-time.After(10 * time.Second):
		t.Fatal("settled, and not delivered")
	}
}

// settledFirst is an AbandonedCalls in which another replica has settled every call.
type settledFirst struct{ noted func() }

func (l settledFirst) MarkAbandoned(context.Context, string) (bool, error) {
	l.noted()
	return true, nil
}

func (settledFirst) Settle(context.Context, string) (bool, error) { return false, nil }

func TestContextCall_ReturnsResultSettledByOtherReplica(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	makeTopics(t, cfg)
	var d *CallTracker
	var outcome event.Context
	left := settledFirst{noted: func() { d.apply(&outcome) }} // the follower is late
	d, err := New(Config{Bus: cfg, Abandoned: left, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	now := time.Now()
	task := &event.ContextTask{Person: jsontext.Value(`"x"`), Call: event.ContextCall{
		RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now,
		WebhookURL: "https://hooks.example/a",
	}}
	outcome = event.Context{Call: task.Call, Status: event.ContextComplete, Profile: jsontext.Value(`{}`), At: now}
	state, err := d.Ask(t.Context(), task, func() {})
	require.NoError(t, err)
	require.NotNil(t, state, "202, settled, and delivered only by this process")
}

// noted is an AbandonedCalls that records marks.
type noted struct {
	calls []string
	then  func() // called while marking; may be nil
}

func (n *noted) MarkAbandoned(_ context.Context, id string) (bool, error) {
	n.calls = append(n.calls, id)
	if n.then != nil {
		n.then()
	}
	return false, nil
}

func (n *noted) Settle(_ context.Context, id string) (bool, error) {
	return slices.Contains(n.calls, id), nil
}

func TestContextCall_UncertainTaskIsChargedAndDelivered(t *testing.T) {
	for name, c := range map[string]struct {
		again bool
		left  AbandonedCalls
	}{"once": {}, "again, without brokers": {again: true}, "with other replicas": {left: &noted{}}} {
		t.Run(name, func(t *testing.T) {
			b := brokertest.Start(t)
			cfg := bus.Config{Brokers: b.Addrs()}
			makeTopics(t, cfg)
			d, err := New(Config{Bus: cfg, Abandoned: c.left, SingleReplica: c.left == nil,
				Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Now: time.Now})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			refuse := func(topic string) {
				b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic,
					Err: kerr.TopicAuthorizationFailed, Count: -1})
			}
			refuse(event.TopicContextTask)
			now := time.Now()
			task := &event.ContextTask{Person: jsontext.Value(`"x"`), Call: event.ContextCall{
				RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now.Add(time.Minute),
				WebhookURL: "https://hooks.example/a",
			}}
			asked := func() { t.Error("it is not known whether the task was published") }
			_, err = d.Ask(t.Context(), task, asked)
			require.ErrorIs(t, err, ErrUncertain)
			if c.again {
				refuse(event.TopicContext)
				_, err = d.Ask(t.Context(), task, asked)
				require.ErrorIs(t, err, ErrUnavailable)
			}
			value, err := json.Marshal(event.Context{Call: task.Call, Status: event.ContextComplete,
				Profile: jsontext.Value(`{}`), At: now})
			require.NoError(t, err)
			m := message.NewMessage("m", value)
			m.SetContext(t.Context())
			require.NoError(t, d.settle(m))
			ends, err := bus.EndOffsets(t.Context(), cfg, []string{event.TopicWebhookTask})
			require.NoError(t, err)
			require.Len(t, ends, 1)
			require.NotZero(t, ends[0].End,
				"handed to the webhook-sender before it is settled, perhaps repeated in the background")
		})
	}
}

func TestContextCall_IsForgottenIfKafkaIsUnavailable(t *testing.T) {
	b := brokertest.Start(t)
	cfg := bus.Config{Brokers: b.Addrs()}
	makeTopics(t, cfg)
	d, err := New(Config{Bus: cfg, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: event.TopicContext,
		Err: kerr.TopicAuthorizationFailed, Count: -1})
	now := time.Now()
	_, err = d.Ask(t.Context(),
		&event.ContextTask{Person: jsontext.Value(`"x"`),
			Call: event.ContextCall{RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now,
				RespondBy: now.Add(time.Minute)}}, func() {})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Empty(t, d.known)
	require.Zero(t, d.held.Len()+d.idle.Len())
}

func TestContextCall_CostIsIndependentOfWaitingCalls(t *testing.T) {
	now := time.Now()
	d, err := New(Config{Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Now: func() time.Time { return now }})
	require.NoError(t, err)
	const many = 5 * maxCalls
	began := time.Now()
	for i := range many {
		take(d, &event.Context{Call: event.ContextCall{RequestID: strconv.Itoa(i), RequestedAt: now},
			Status: event.ContextProcessing})
	}
	require.Len(t, d.known, many)
	for i := range many {
		d.apply(&event.Context{Call: event.ContextCall{RequestID: strconv.Itoa(i), RequestedAt: now},
			Status: event.ContextComplete, Profile: jsontext.Value(`{}`)})
	}
	require.Less(t, time.Since(began), 20*time.Second, "scanning all calls would take minutes")
	require.Len(t, d.known, maxCalls)
	require.NotNil(t, d.known[strconv.Itoa(many-1)])
}

// take makes a tracker treat a call as accepted here and answered without a result.
func take(d *CallTracker, state *event.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, _ := d.lookUp(state.Call.RequestID)
	c.state, c.ours, c.answered = state, true, true
	d.place(c)
}

func TestContextCall_IsEvictedIfNoResultCanArrive(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	d, err := New(Config{Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Now: func() time.Time { return now }})
	require.NoError(t, err)
	state := func(id string, profile string) *event.Context {
		s := &event.Context{Call: event.ContextCall{RequestID: id, RequestedAt: now}, Status: event.ContextProcessing}
		if profile != "" {
			s.Status, s.Profile = event.ContextComplete, jsontext.Value(profile)
		}
		return s
	}
	for i := range maxCalls + 10 {
		id := "lost " + strconv.Itoa(i)
		take(d, state(id, ""))
	}
	d.apply(state("another's", `{}`))
	require.Len(t, d.known, maxCalls+10)
	require.NotContains(t, d.known, "another's")
	require.Zero(t, d.bytes)
	heard, leave := d.listen("listened to")
	d.apply(state("listened to", `{}`))
	select {
	case <-heard:
	default:
		require.Fail(t, "the listener is not notified")
	}
	leave()

	now = now.Add(event.ContextRetention + time.Nanosecond)
	d.apply(state("another's", `{}`))
	require.Len(t, d.known, maxCalls)
	require.Equal(t, maxCalls, d.idle.Len()+d.held.Len())
	require.Contains(t, d.known, "another's")
	require.NotContains(t, d.known, "listened to")
	require.Equal(t, 2, d.bytes)
	d.drop(d.known["another's"])
	require.Zero(t, d.bytes)
	require.Zero(t, d.idle.Len())
}

func TestContextCall_EndsWithResultOrTimeout(t *testing.T) {
	b := brokertest.Start(t)
	cfg := bus.Config{Brokers: b.Addrs()}
	makeTopics(t, cfg)
	const hook = "https://hooks.example/a"
	come := func(status event.ContextStatus, delivered bool) func(*CallTracker, *event.Context, context.CancelFunc) {
		return func(d *CallTracker, c *event.Context, _ context.CancelFunc) {
			c.Status, c.Delivered = status, delivered
			d.apply(c)
		}
	}
	for name, c := range map[string]struct {
		patience time.Duration
		webhook  string
		before   func(*CallTracker, *event.Context, context.CancelFunc)
		ends     string
		answered bool
		noted    bool
		err      error
	}{
		"with its outcome": {patience: time.Hour, webhook: hook,
			before: come(event.ContextComplete, false), ends: "complete", answered: true},
		"with its failure": {patience: time.Hour, before: come(event.ContextFailed, false),
			ends: "failed", answered: true},
		"result handed over by the worker": {patience: time.Hour, webhook: hook,
			before: come(event.ContextComplete, true), ends: "accepted", noted: true},
		"at its end":                 {ends: "timeout"},
		"at its end, with a webhook": {webhook: hook, ends: "accepted", noted: true},
		"as its caller leaves": {patience: time.Hour, webhook: hook,
			before: func(_ *CallTracker, _ *event.Context, leave context.CancelFunc) { leave() }, ends: "client_gone",
			noted: true, err: context.Canceled},
		"as the service leaves": {patience: time.Hour,
			before: func(d *CallTracker, _ *event.Context, _ context.CancelFunc) { d.StopWaiting() }, ends: "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			left, metrics := &noted{}, prometheus.NewPedanticRegistry()
			d, err := New(Config{Bus: cfg, Abandoned: left, Logger: slog.New(slog.DiscardHandler), Registerer: metrics,
				Now: time.Now})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			now := time.Now()
			task := &event.ContextTask{Person: jsontext.Value(`"x"`), Call: event.ContextCall{
				RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now.Add(c.patience),
				WebhookURL: c.webhook,
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.before != nil {
				c.before(d, &event.Context{Call: task.Call, Profile: jsontext.Value(`{}`),
					Failure: &event.ContextFailure{Status: 500}, At: now}, cancel)
			}
			state, err := d.Ask(ctx, task, func() {})
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.answered, state != nil)
			require.Equal(t, c.noted, len(left.calls) == 1)
			families, err := metrics.Gather()
			require.NoError(t, err)
			require.Len(t, families, 1)
			require.Len(t, families[0].GetMetric(), 1)
			require.Equal(t, c.ends, families[0].GetMetric()[0].GetLabel()[0].GetValue())
		})
	}
	t.Run("a closed tracker rejects calls", func(t *testing.T) {
		d, err := New(Config{Bus: cfg, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			Now: time.Now})
		require.NoError(t, err)
		require.NoError(t, d.Close())
		_, err = d.Ask(t.Context(), &event.ContextTask{}, func() {})
		require.ErrorIs(t, err, ErrUnavailable)
		require.Empty(t, d.known)
	})
}

func TestContextCall_ResultDuringMarkingIsDelivered(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	makeTopics(t, cfg)
	left := &noted{}
	d, err := New(Config{Bus: cfg, Abandoned: left, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	now := time.Now()
	task := &event.ContextTask{Person: jsontext.Value(`"x"`), Call: event.ContextCall{
		RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now,
		WebhookURL: "https://hooks.example/a",
	}}
	left.then = func() {
		d.apply(&event.Context{Call: task.Call, Status: event.ContextComplete, Profile: jsontext.Value(`{}`), At: now})
	}
	state, err := d.Ask(t.Context(), task, func() {})
	require.NoError(t, err)
	require.Nil(t, state)
	d.handing.Wait()
	ends, err := bus.EndOffsets(t.Context(), cfg, []string{event.TopicWebhookTask})
	require.NoError(t, err)
	require.EqualValues(t, 1, ends[0].End)
}

func TestContextCall_UndeliverableResultIsSettled(t *testing.T) {
	d, err := New(Config{SingleReplica: true, Logger: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry(), Now: time.Now})
	require.NoError(t, err)
	now := time.Now()
	value, err := json.Marshal(event.Context{Status: event.ContextComplete, Profile: jsontext.Value(`{}`), At: now,
		Call: event.ContextCall{
			RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now, RespondBy: now,
			WebhookURL: "gopher://hooks.example/a",
		}})
	require.NoError(t, err)
	m := message.NewMessage("m", value)
	m.SetContext(t.Context())
	require.NoError(t, d.settle(m))
}
