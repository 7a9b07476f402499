package status_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/internal/status"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/platform/service"
	"muster/projector/migrations"
	"muster/schemas/readmodel"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// Retention removed messages before they were read, or the consumer itself has counted some.
func TestStatus_LostMessagesAreAnError(t *testing.T) {
	b := brokertest.Start(t)
	cfg := bus.Config{Brokers: b.Addrs()}
	const topic = "short"
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg,
		[]bus.Topic{{Name: topic, Partitions: 1, Replication: 1,
			Config: map[string]string{"cleanup.policy": "delete", "retention.ms": "60000"}}}))
	w := bus.NewWriter(cfg, bus.WithBatch(1, 0))
	defer func() { require.NoError(t, w.Close()) }()
	for i := range 10 {
		require.NoError(t,
			bus.WriteAll(t.Context(), w,
				[]kafka.Message{{Topic: topic, Value: fmt.Append(nil, i), Time: time.Now().Add(-time.Hour)}}))
	}
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	res, err := client.OffsetCommit(t.Context(),
		&kafka.OffsetCommitRequest{GroupID: "g", GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 4}}}})
	require.NoError(t, err)
	require.NoError(t, res.Topics[topic][0].Error)
	require.NoError(t, b.Compact(t.Context()))

	admin := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/readyz" {
			fmt.Fprint(rw, `{"checks":[]}`)
			return
		}
		fmt.Fprint(rw, "# TYPE muster_consumer_records_lost_total counter\n"+
			`muster_consumer_records_lost_total{group="g",topic="short",partition="0"} 3`+"\n")
	}))
	defer admin.Close()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: enginetest.DSN(t)})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = migrations.Apply(t.Context(), conn, readmodel.Layout{}, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	st, err := status.Read(t.Context(),
		status.Source{AdminURL: admin.URL, Kafka: cfg, Group: "g", Topics: []string{topic}, ClickHouse: conn})
	require.NoError(t, err)
	require.Len(t, st.Topics, 1)
	got := st.Topics[0]
	require.Greater(t, got.Lost, int64(3), "offsets from 4 to the log start, plus the projector's counter")
	require.Equal(t, "g", got.Group)
	require.Zero(t, got.Behind, "retention has removed all waiting messages")
	require.ErrorContains(t, st.Err(), fmt.Sprintf("retention removed %d messages of short", got.Lost))
	var text strings.Builder
	require.NoError(t, errors.Join(st.WriteText(&text)))
	require.Contains(t, text.String(), "SECONDS BEHIND")
}

// The age comes from Kafka, for every consumer.
func TestStatus_OldestWaitingMessageAge(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	const topic = "late"
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
	w := bus.NewWriter(cfg)
	defer func() { require.NoError(t, w.Close()) }()
	now := time.Now()
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{
		{Topic: topic, Value: []byte("1"), Time: now.Add(-time.Minute)},
		{Topic: topic, Value: []byte("2"), Time: now.Add(-30 * time.Second)},
	}))
	for committed, want := range []float64{60, 30, 0} {
		client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
		_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: "g", GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: int64(committed)}}},
		})
		require.NoError(t, err)
		topics, err := status.Topics(t.Context(), cfg, []status.Consumer{{Group: "g", Topics: []string{topic}}}, now)
		require.NoError(t, err)
		require.Len(t, topics, 1)
		require.InDelta(t, want, topics[0].Behind, 0.01)
		require.EqualValues(t, 2-committed, topics[0].Lag)
	}
}

// The consumer starts over at an offset past the end: nothing of a recreated topic is visible yet.
func TestStatus_RecreatedTopicIsUnread(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	const topic = "recreated"
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
	w := bus.NewWriter(cfg)
	defer func() { require.NoError(t, w.Close()) }()
	now := time.Now()
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{
		{Topic: topic, Value: []byte("1"), Time: now.Add(-time.Minute)}, {Topic: topic, Value: []byte("2"), Time: now},
	}))
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: "g", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 7}}},
	})
	require.NoError(t, err)
	consumers := []status.Consumer{{Group: "g", Topics: []string{topic}}}
	topics, err := status.Topics(t.Context(), cfg, consumers, now)
	require.NoError(t, err)
	require.Len(t, topics, 1)
	require.EqualValues(t, 2, topics[0].Lag)
	require.InDelta(t, 60, topics[0].Behind, 0.01)

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = status.Wait(ctx, status.Source{Kafka: cfg, Group: "g", Topics: []string{topic}}, nil)
	require.ErrorContains(t, err, "2 offsets not yet visible")
}

func TestServices_LeavesOutAPassedStartupCheck(t *testing.T) {
	ingest := service.CheckResult{Name: "ingest", Ready: true}
	starting := service.CheckResult{Name: status.StartupCheck, Reason: "welcome is starting"}
	require.Equal(t, []service.CheckResult{ingest, starting}, status.Services([]service.CheckResult{ingest, starting}))
	started := service.CheckResult{Name: status.StartupCheck, Ready: true}
	require.Equal(t, []service.CheckResult{ingest}, status.Services([]service.CheckResult{started, ingest}))
}
