package ingest_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// limited returns a configuration with topics that accept smaller messages than the default.
func limited(t *testing.T, limits map[string]string) ingest.Config {
	t.Helper()
	cfg := ingest.Config{Bus: bus.Config{Brokers: brokertest.Start(t).Addrs()}}
	var topics []bus.Topic
	for name, limit := range limits {
		topics = append(topics,
			bus.Topic{Name: name, Partitions: 1, Config: map[string]string{"max.message.bytes": limit}})
	}
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg.Bus, topics))
	return cfg
}

// The other records are published, and this one after the topic limit is raised.
func TestRun_TooLargeForTopicIsRejected(t *testing.T) {
	kind := record.KindNetworkPerson
	text := randomText(9000)
	large := func(id, version, text string) string {
		return `{"profile_id":"` + id + `","last_updated":"` + version + `","username":"l",` +
			`"summary":"` + text + `"}` + "\n"
	}
	input := people(0, 3) +
		large("large", "2024", text) + large("large", "2025", text) + // no version bump without a record
		large("shrunk", "2024", text) + large("shrunk", "2025", "short") +
		large("grown", "2024", "short") + large("grown", "2025", text) +
		people(3, 6)
	path := write(t, "f", []byte(input))
	for name, stateful := range map[string]bool{"with state": true, "without state": false} {
		t.Run(name, func(t *testing.T) {
			cfg := limited(t, map[string]string{kind.Topic(): "5000"})
			if stateful {
				cfg.StateDir = t.TempDir()
			}
			var log bytes.Buffer
			var reported atomic.Int64
			deps := ingest.Deps{Logger: logger(&log), Rejected: func(event.Rejected) { reported.Add(1) }}
			s, err := ingest.Files(t.Context(), cfg, deps, kind, []string{path})
			requireExit(t, ingest.ExitRejected, err)
			require.Contains(t, log.String(), "max.message.bytes", "warning about topic settings")
			require.True(t, s.Reconciles())
			require.True(t, s.Files[0].Complete)
			require.Equal(t, ingest.Counts{Read: 12, Published: 8, Rejected: 4}, counts(s, kind))
			got := values(t, cfg.Bus, kind)
			require.Len(t, got, 8)
			require.NotContains(t, got, "large")
			require.Contains(t, got["shrunk"], `"2025"`)
			require.Contains(t, got["grown"], `"2024"`)
			require.Equal(t, int64(4), reported.Load())

			rejected := map[int64]event.Rejected{}
			for _, r := range rejectedRecords(t, cfg.Bus) {
				rejected[r.Source.Line] = r
			}
			require.Len(t, rejected, 4)
			lines := strings.SplitAfter(input, "\n")
			for _, line := range []int64{4, 5, 6, 9} {
				r := rejected[line]
				require.Equal(t, kind, r.Kind)
				require.Equal(t, record.CodeTooLarge, r.Code)
				require.Contains(t, r.Reason, "max.message.bytes of the topic "+kind.Topic())
				require.JSONEq(t, lines[line-1], string(r.Raw))
				require.Equal(t, int64(len(strings.Join(lines[:line-1], ""))), r.Source.Offset)
				require.Equal(t, s.Run, r.Source.Run)
			}
			for _, m := range topic(t, cfg.Bus, event.TopicRejected) {
				e, err := bus.GetEvent(m.Headers)
				require.NoError(t, err)
				require.Equal(t, event.TypeRejected, e.Type)
			}
			if !stateful {
				return
			}
			client := &kafka.Client{Addr: kafka.TCP(cfg.Bus.Brokers...)}
			res, err := client.IncrementalAlterConfigs(
				t.Context(),
				&kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
					ResourceType: kafka.ResourceTypeTopic, ResourceName: kind.Topic(),
					Configs: []kafka.IncrementalAlterConfigsRequestConfig{
						{Name: "max.message.bytes", Value: "2097152"},
					},
				}}},
			)
			require.NoError(t, err)
			require.NoError(t, res.Resources[0].Error)
			_, err = ingest.ResubmitRejected(t.Context(), cfg, ingest.Deps{}, ingest.DeadLetterFilter{}, "")
			require.NoError(t, err)
			got = values(t, cfg.Bus, kind)
			require.Contains(t, got["shrunk"], `"short"`, "older records are not published")
			require.Contains(t, got["grown"], text)
			require.Contains(t, got["large"], text)
			for _, m := range topic(t, cfg.Bus, kind.Topic()) {
				e, err := bus.GetEvent(m.Headers)
				require.NoError(t, err)
				require.Equal(t, event.RecordType(kind), e.Type)
			}
		})
	}
}

func TestRun_TooLargeRejectedRecordIsTruncated(t *testing.T) {
	kind := record.KindNetworkPerson
	cfg := limited(t, map[string]string{event.TopicRejected: "110000", kind.Topic(): "200000"})
	bad := `{"profile_id":"bad","last_updated":7,"summary":"` + randomText(200_000) + `"}`
	large := `{"profile_id":"large","last_updated":"2024","username":"l","summary":"` + randomText(300_000) + `"}`
	path := write(t, "f", []byte(people(0, 3)+bad+"\n"+large+"\n"+people(3, 6)))
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitRejected, err)
	require.True(t, s.Reconciles())
	require.Equal(t, ingest.Counts{Read: 8, Published: 6, Rejected: 2}, counts(s, kind))
	all := rejectedRecords(t, cfg.Bus)
	require.Len(t, all, 2)
	for _, r := range all {
		whole := map[int64]string{4: bad, 5: large}[r.Source.Line]
		require.Equal(t, whole[:event.MaxRejectedRaw], string(r.Raw))
		require.Equal(t, int64(len(whole)), r.Length)
	}

	// A rejected record that cannot be stored at all ends the run with an error.
	cfg = limited(t, map[string]string{event.TopicRejected: "5000"})
	s, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, []string{path})
	requireExit(t, ingest.ExitFailed, err)
	require.ErrorContains(t, err, "publish records: kafka rejected 1 messages")
	require.ErrorContains(t, err, event.TopicRejected)
	require.True(t, s.Reconciles())
	require.False(t, s.Files[0].Complete)
	require.NotZero(t, counts(s, kind).Unfinished)
}
