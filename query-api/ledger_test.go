package queryapi_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/engine/enginetest"
	"muster/query-api/internal/ledger"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// The topic has lost its end, whose rows are in the read model, and reuses the offsets.
func TestLedger_SumsAfterLogTruncation(t *testing.T) {
	b := brokertest.Start(t)
	reader := ledger.Reader{Conn: openStore(t, enginetest.Tables(t, migrate)), Bus: bus.Config{Brokers: b.Addrs()}}
	require.NoError(t, bus.EnsureTopics(t.Context(), reader.Bus,
		[]bus.Topic{{Name: event.TopicUsage, Partitions: 2, Replication: 1}}))
	const organization = "org"
	at := time.Now().UTC()
	period := event.PeriodOf(at)
	usage := func(id string) *event.Usage {
		return &event.Usage{
			RequestID: id, OrganizationID: organization, At: at, Period: period, Outcome: event.OutcomeCharged,
			Requests: 1, Credits: 1,
		}
	}
	rows := &readmodel.UsageBatch{}
	// Offsets 0 and 1 are projected, and so was 10 of the longer log; 2 and 3 are not.
	rows.Add(usage("10"), readmodel.Position{Topic: event.TopicUsage, Offset: 10})
	writer := bus.NewWriter(reader.Bus)
	t.Cleanup(func() { require.NoError(t, writer.Close()) })
	for i := range int64(5) {
		u := usage(fmt.Sprint(i))
		if i == 4 { // unanswered: in the ledger, but not counted as a call
			u.Outcome, u.Requests, u.Credits = event.OutcomeUnanswered, 0, 0
		}
		raw, err := json.Marshal(u)
		require.NoError(t, err)
		require.NoError(t, bus.WriteAll(t.Context(), writer,
			[]kafka.Message{{Topic: event.TopicUsage, Partition: 0, Key: []byte("a"), Value: raw}}))
		if i < 2 {
			rows.Add(u, readmodel.Position{Topic: event.TopicUsage, Offset: i})
		}
	}
	require.NoError(t, readmodel.InsertUsage(t.Context(), reader.Conn, "u", rows))
	partition := -1
	_, err := bus.Read(t.Context(), reader.Bus, event.TopicUsage, nil, func(m kafka.Message) error {
		partition = m.Partition
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, partition, "the rows say so")

	sums := func() (calls int64) {
		t.Helper()
		found, err := reader.Balances(t.Context(), period)
		require.NoError(t, err)
		for _, l := range found[organization] {
			calls += l.Calls
		}
		return calls
	}
	client := &kafka.Client{Addr: kafka.TCP(b.Addrs()...)}
	for _, committed := range []int64{-1, 0, 2, 11} {
		if committed >= 0 {
			_, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
				GroupID: readmodel.UsageGroup, GenerationID: -1,
				Topics: map[string][]kafka.OffsetCommit{event.TopicUsage: {{Partition: 0, Offset: committed}}},
			})
			require.NoError(t, err)
		}
		require.EqualValues(t, 5, sums(), "committed %d", committed)
		for id, want := range map[string]bool{"1": true, "3": true, "10": true, "4": false} {
			charged, err := reader.Charged(t.Context(), organization, period, []string{id, "other"})
			require.NoError(t, err)
			require.Equal(t, want, charged[id], "committed %d: %s", committed, id)
		}
	}

	// Without permission for the group, only the rows show what is projected.
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	require.EqualValues(t, 3, sums())
}

func TestLedger_ReadsOnlyUnprojectedTail(t *testing.T) {
	b := brokertest.Start(t)
	reader := ledger.Reader{Conn: openStore(t, enginetest.Tables(t, migrate)), Bus: bus.Config{Brokers: b.Addrs()}}
	require.NoError(t, bus.EnsureTopics(t.Context(), reader.Bus,
		[]bus.Topic{{Name: event.TopicUsage, Partitions: 1, Replication: 1}}))
	at := time.Now().UTC()
	period := event.PeriodOf(at)
	writer := bus.NewWriter(reader.Bus)
	t.Cleanup(func() { require.NoError(t, writer.Close()) })
	client := &kafka.Client{Addr: kafka.TCP(b.Addrs()...)}
	offset := int64(0)
	charge := func() error { // publishes an event, projects it and commits
		u := &event.Usage{RequestID: fmt.Sprint(offset), OrganizationID: "org", At: at, Period: period,
			Outcome: event.OutcomeCharged, Requests: 1, Credits: 1}
		raw, err := json.Marshal(u)
		if err != nil {
			return err
		}
		if err := bus.WriteAll(t.Context(), writer,
			[]kafka.Message{{Topic: event.TopicUsage, Value: raw}}); err != nil {
			return err
		}
		rows := &readmodel.UsageBatch{}
		rows.Add(u, readmodel.Position{Topic: event.TopicUsage, Offset: offset})
		offset++
		if err := readmodel.InsertUsage(t.Context(), reader.Conn, u.RequestID, rows); err != nil {
			return err
		}
		_, err = client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: readmodel.UsageGroup, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{event.TopicUsage: {{Offset: offset}}},
		})
		return err
	}
	for range 3 {
		require.NoError(t, charge())
	}
	var read atomic.Int64 // first fetched offset
	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1,
		When: func(r kmsg.Request) bool {
			read.Store(min(read.Load(), r.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset))
			return true
		}})

	charged := make(chan error, 1)
	b.Cluster().ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().DropControl() // once
		b.Cluster().SleepControl(func() { charged <- charge() })
		return nil, nil, false
	})
	read.Store(offset)
	sums, err := reader.Balances(t.Context(), period)
	require.NoError(t, err)
	require.NoError(t, <-charged)
	require.EqualValues(t, 4, sums["org"][0].Calls)
	require.EqualValues(t, 3, read.Load())

	b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: event.TopicUsage,
		Err: kerr.UnknownTopicOrPartition, Count: 1})
	read.Store(offset)
	_, err = reader.Balances(t.Context(), period)
	require.ErrorIs(t, err, kafka.UnknownTopicOrPartition, "the caller asks again")
	sums, err = reader.Balances(t.Context(), period)
	require.NoError(t, err)
	require.EqualValues(t, 4, sums["org"][0].Calls)
	require.EqualValues(t, 4, read.Load())
}
