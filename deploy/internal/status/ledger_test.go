package status_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/internal/status"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
)

func TestWait_IncludesBufferedUsageOfReplicas(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	const group = "ledger"
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{
		{Name: event.TopicUsage, Partitions: 1, Replication: 1}, {Name: "records", Partitions: 1, Replication: 1},
	}))
	w := bus.NewWriter(cfg, bus.WithBatch(1, 0))
	defer func() { require.NoError(t, w.Close()) }()
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	commit := func(offset int64) {
		res, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{event.TopicUsage: {{Partition: 0, Offset: offset}}},
		})
		require.NoError(t, err)
		require.NoError(t, res.Topics[event.TopicUsage][0].Error)
	}
	var published int64
	// replica starts a replica that publishes an event on the third request.
	replica := func(answer string) (url string, asked *int) {
		asked = new(int)
		mux := http.NewServeMux()
		mux.HandleFunc("POST "+queryapi.FlushUsagePath, func(rw http.ResponseWriter, req *http.Request) {
			if *asked++; *asked < 3 {
				rw.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(rw, `{"alone":true,"pending":1}`)
				return
			}
			if err := bus.WriteAll(req.Context(), w,
				[]kafka.Message{{Topic: event.TopicUsage, Value: []byte("{}")}}); err != nil {
				rw.WriteHeader(http.StatusInternalServerError)
				return
			}
			published++
			fmt.Fprint(rw, answer)
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return server.URL, asked
	}
	without := httptest.NewServer(http.NewServeMux())
	defer without.Close()
	alone, askedAlone := replica(`{"alone":true,"pending":0}`)
	oneOf, askedOneOf := replica(`{"alone":false,"pending":0}`)
	for _, tc := range []struct {
		what, url string
		asked     *int
		least     time.Duration
	}{
		{"the one replica", alone, askedAlone, 0},
		{"one of several", oneOf, askedOneOf, queryapi.ReplicaPublishGrace},
		{"a process without query-api", without.URL, nil, queryapi.ReplicaPublishGrace},
		{"no admin address", "", nil, queryapi.ReplicaPublishGrace},
	} {
		before, began := published, time.Now()
		var missing []int64
		require.NoError(t,
			status.Wait(t.Context(),
				status.Source{AdminURL: tc.url, Kafka: cfg, Group: group, Topics: []string{event.TopicUsage}},
				func(n int64) {
					missing = append(missing, n)
					commit(published)
				}), tc.what)
		require.GreaterOrEqual(t, time.Since(began), tc.least, tc.what)
		if tc.asked == nil {
			require.Equal(t, []int64{0}, missing, tc.what)
			continue
		}
		require.Equal(t, 3, *tc.asked, tc.what)
		require.Equal(t, before+1, published)
		require.Equal(t, []int64{1, 0}, missing, "%s: its published event is waited for", tc.what)
	}

	// Without the ledger group, no replica is called.
	require.NoError(t,
		status.Wait(t.Context(),
			status.Source{AdminURL: "http://127.0.0.1:1", Kafka: cfg, Group: "records", Topics: []string{"records"}},
			nil))

	*askedAlone = -1 << 30
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, fmt.Errorf("too late"))
	defer cancel()
	err := status.Wait(ctx,
		status.Source{AdminURL: alone, Kafka: cfg, Group: group, Topics: []string{event.TopicUsage}}, nil)
	require.ErrorContains(t, err, "too late")
}
