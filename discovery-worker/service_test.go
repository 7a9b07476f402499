package discovery_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	discovery "muster/discovery-worker"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// fixture is a worker on the real engine and an embedded broker.
type fixture struct {
	t       *testing.T
	conn    driver.Conn
	bus     bus.Config
	inserts int
	// metrics are those of the worker that was started last.
	metrics *prometheus.Registry

	mu         sync.Mutex
	results    map[string][]event.Discovery // by request ID
	identified map[string][]event.Identification
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, results: make(map[string][]event.Discovery),
		identified: make(map[string][]event.Identification)}
	var err error
	f.conn, err = clickhouse.Open(t.Context(), clickhouse.Config{DSN: enginetest.DSN(t), MaxOpenConns: 4})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.conn.Close()) })
	files, err := readmodel.Migrations()
	require.NoError(t, err)
	migrations, err := clickhouse.LoadMigrations(files, readmodel.Layout{})
	require.NoError(t, err)
	_, err = clickhouse.Migrate(t.Context(), f.conn, migrations, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	f.bus = bus.Config{Brokers: brokertest.Start(t).Addrs()}
	var topics []bus.Topic
	for _, topic := range event.Topics() {
		topics = append(topics, bus.Topic{Name: topic.Name, Partitions: topic.Partitions, Config: topic.Config()})
	}
	require.NoError(t, bus.EnsureTopics(t.Context(), f.bus, topics))
	follower := bus.Follow(t.Context(), f.bus,
		bus.FollowConfig{Topics: []string{event.TopicDiscovery},
			Handle: func(_ context.Context, m kafka.Message) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if e, err := bus.GetEvent(m.Headers); err == nil && e.Type == event.TypeIdentification {
					var d event.Identification
					err := json.Unmarshal(m.Value, &d)
					f.identified[d.RequestID] = append(f.identified[d.RequestID], d)
					return err
				}
				var d event.Discovery
				if err := json.Unmarshal(m.Value, &d); err != nil {
					return err
				}
				f.results[d.RequestID] = append(f.results[d.RequestID], d)
				return nil
			}})
	t.Cleanup(func() { require.NoError(t, follower.Close()) })
	return f
}

// startWorker runs a worker until stop is called or the test ends.
func (f *fixture) startWorker() (stop func()) {
	f.t.Helper()
	return f.startWorkerWith(discovery.Config{})
}

func (f *fixture) startWorkerWith(cfg discovery.Config) (stop func()) {
	f.t.Helper()
	f.metrics = prometheus.NewRegistry()
	cfg.Bus = f.bus
	s, err := discovery.New(cfg, discovery.Deps{ClickHouse: f.conn, Registerer: f.metrics})
	require.NoError(f.t, err)
	require.NoError(f.t, s.Ready(f.t.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) insert(kind record.Kind, records ...string) {
	f.t.Helper()
	renderer := readmodel.NewRenderer(identity.Default())
	var batch readmodel.Batch
	for _, text := range records {
		r, err := record.Decode(kind, []byte(text))
		require.NoError(f.t, err)
		f.inserts++
		require.NoError(f.t, renderer.Rows(&batch, r, readmodel.Position{Topic: "test", Offset: int64(f.inserts)}))
	}
	require.NoError(f.t, readmodel.Insert(f.t.Context(), f.conn, fmt.Sprintf("test-%d", f.inserts), &batch))
	touched := make(map[int64]int64)
	batch.TouchedAccounts(touched)
	var touches []readmodel.Touch
	for id := range touched {
		touches = append(touches, readmodel.Touch{UserID: id, Offset: int64(f.inserts)})
	}
	require.NoError(f.t, readmodel.BuildAnswers(f.t.Context(), f.conn, readmodel.Builds{}, touches))
}

func (f *fixture) submit(id, platform, username string, deadline time.Time) {
	f.t.Helper()
	f.submitAt(id, platform, username, time.Now(), deadline)
}

func (f *fixture) submitAt(id, platform, username string, requested, deadline time.Time) {
	f.t.Helper()
	value, err := json.Marshal(event.DiscoveryTask{
		RequestID: id, Input: event.Account{Platform: platform, Username: username}, RequestedAt: requested,
		Deadline: deadline,
	})
	require.NoError(f.t, err)
	f.publish(platform+":"+username, value)
}

func (f *fixture) publish(key string, value []byte) {
	f.t.Helper()
	w := bus.NewWriter(f.bus)
	require.NoError(f.t, bus.WriteAll(f.t.Context(), w,
		[]kafka.Message{{Topic: event.TopicDiscoveryTask, Key: []byte(key), Value: value}}))
	require.NoError(f.t, w.Close())
}

// awaitResult waits for the result of a task.
func (f *fixture) awaitResult(id string) event.Discovery {
	f.t.Helper()
	var d event.Discovery
	require.Eventually(f.t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.results[id]) == 0 {
			return false
		}
		d = f.results[id][0]
		return true
	}, 30*time.Second, 5*time.Millisecond)
	return d
}

func soon() time.Time { return time.Now().Add(20 * time.Second) }

func TestService_DiscoversLinkedProfiles(t *testing.T) {
	f := newFixture(t)
	f.insert(record.KindNetworkPerson,
		`{"profile_id":"p1","username":"juno-abara","full_name":"Juno Abara","headline":"Compiler engineer at `+
			`Quenlix","location":{"city":"Oslo"},"codehost_username":"junoa","last_updated":"2026-01-01T00:00:00Z"}`,
		`{"profile_id":"p2","username":"juno-abara-2","full_name":"Juno Abara","last_updated":"2026-01-01T00:00:00Z"}`)
	f.insert(record.KindCodehostPerson,
		`{"user_id":1,"codehost_username":"JunoA","full_name":"Juno Abara","bio":"Compilers. `+
			`microblog.example/juno_writes","network_username":"juno-abara","last_updated":"2026-01-01T00:00:00Z"}`,
		`{"user_id":2,"codehost_username":"quenlix","full_name":"Juno Abara","type":"Organization",`+
			`"network_username":"juno-abara","last_updated":"2026-01-01T00:00:00Z"}`)
	f.insert(record.KindMicroblogPerson,
		`{"user_id":"m1","username":"juno_writes","name":"Juno Abara","bio":"Compilers, Oslo",`+
			`"last_updated":"2026-01-01T00:00:00Z"}`,
		`{"user_id":"m2","username":"other","name":"Ola Other","last_updated":"2026-01-01T00:00:00Z"}`)
	stop := f.startWorker()

	t.Run("links", func(t *testing.T) {
		f.submit("links", "network", "Juno-Abara", soon())
		d := f.awaitResult("links")
		require.Empty(t, d.Degraded)
		require.Equal(t, "juno-abara", d.Socials[0].Username)
		require.EqualValues(t, 1, d.Socials[0].Confidence)
		require.Contains(t, *d.Socials[0].Context, "Compiler engineer")
		require.Len(t, d.Socials, 3, "%+v", d.Socials)
		found := map[string]event.Social{}
		for _, s := range d.Socials[1:] {
			found[s.Platform] = s
			require.GreaterOrEqual(t, s.Confidence, event.DiscoveryThreshold)
			require.NotEmpty(t, s.Evidence)
		}
		require.Equal(t, "JunoA", found["codehost"].Username)
		require.Equal(t, "juno_writes", found["microblog"].Username)
		require.Equal(t, event.Evidence{Kind: "link", Finding: "mutual", Weight: found["codehost"].Evidence[0].Weight},
			found["codehost"].Evidence[0])
	})
	t.Run("unknown account", func(t *testing.T) {
		f.submit("unknown", "codehost", "Unknown-Account", soon())
		d := f.awaitResult("unknown")
		require.Empty(t, d.Degraded)
		require.Equal(t, []event.Social{{Account: event.Account{Platform: "codehost", Username: "Unknown-Account"},
			Confidence: 1}}, d.Socials)
	})
	t.Run("organization", func(t *testing.T) {
		f.submit("organization", "codehost", "quenlix", soon())
		require.Len(t, f.awaitResult("organization").Socials, 1)
	})
	t.Run("late", func(t *testing.T) {
		f.submit("late", "network", "juno-abara", time.Now().Add(-time.Minute))
		require.Len(t, f.awaitResult("late").Socials, 3, "finished for the next caller")
		f.submit("too late", "network", "juno-abara", time.Now().Add(-time.Hour))
		f.submit("after", "network", "juno-abara", soon())
		f.awaitResult("after")
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Empty(t, f.results["too late"])
	})
	t.Run("query", func(t *testing.T) {
		ask := func(id string, q event.PersonQuery, deadline time.Time) {
			value, err := json.Marshal(event.DiscoveryTask{RequestID: id, Query: &q, RequestedAt: time.Now(),
				Deadline: deadline})
			require.NoError(t, err)
			key, err := q.Key()
			require.NoError(t, err)
			require.NotContains(t, key, "Juno")
			f.publish(key, value)
		}
		ask("left", event.PersonQuery{Name: "Juno Abara", Company: "Quenlix", MinConfidence: 0.45},
			time.Now().Add(-time.Minute))
		ask("query", event.PersonQuery{Name: "Juno Abara", Company: "Quenlix", MinConfidence: 0.45}, soon())
		var found event.Identification
		require.Eventually(t, func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.identified["query"]) == 0 {
				return false
			}
			found = f.identified["query"][0]
			return true
		}, 30*time.Second, 5*time.Millisecond)
		require.NoError(t, found.Validate())
		require.Empty(t, found.Degraded)
		require.Len(t, found.Matches, 1)
		require.Len(t, found.Matches[0].Accounts, 3)
		require.Empty(t, f.identified["left"], "its caller has gone")
	})
	t.Run("malformed", func(t *testing.T) {
		f.publish("x", []byte(`{"request_id":""}`))
		f.publish("x", []byte(`no JSON`))
		dead := make(chan kafka.Message, 2)
		follower := bus.Follow(t.Context(), f.bus, bus.FollowConfig{
			Topics: []string{event.DeadLetterTopic("discovery-worker", "discovery").Name},
			Handle: func(_ context.Context, m kafka.Message) error { dead <- m; return nil },
		})
		for range 2 {
			m := <-dead
			letter, err := event.ParseDead(func(name string) string {
				for _, h := range m.Headers {
					if h.Key == name {
						return string(h.Value)
					}
				}
				return ""
			})
			require.NoError(t, err)
			require.Equal(t, "discovery-worker", letter.Service)
			require.Equal(t, event.TopicDiscoveryTask, letter.Topic)
			require.Equal(t, "malformed_task", letter.Code)
			require.NotContains(t, letter.Reason, "JSON", "the reason must not quote the message")
			require.Equal(t, "x", string(m.Key))
		}
		require.NoError(t, follower.Close())
	})
	// An unfinished task is handled by the next worker.
	stop()
	f.submit("restart", "codehost", "junoa", soon())
	f.startWorker()
	require.Len(t, f.awaitResult("restart").Socials, 3)
}

func TestNew_ValidatesConfig(t *testing.T) {
	_, err := discovery.New(discovery.Config{}, discovery.Deps{})
	require.ErrorContains(t, err, "no Kafka brokers")
	cfg := discovery.Config{Bus: bus.Config{Brokers: []string{"127.0.0.1:1"}}}
	_, err = discovery.New(cfg, discovery.Deps{})
	require.ErrorContains(t, err, "no ClickHouse connection")
	cfg.Margin = -1
	require.Error(t, cfg.Validate())
}
