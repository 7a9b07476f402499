package ingest_test

import (
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestErasure_RejectedRecordOmitsIdentifiers(t *testing.T) {
	cfg := config(t)
	const order = `{"identifiers":[{"type":"email","value":"ada@mail.example"}],"requested_at":"2026-11-20"`
	for name, c := range map[string]struct{ file, text string }{
		"too large": {"e.ndjson", order + `,"note":"` + strings.Repeat("x", record.MaxSize) + `"}`},
		"not JSON":  {"e.ndjson", order},
		"no address": {"e.ndjson", `{"identifiers":[{"type":"email","value":"ada mail.example"}],` +
			`"requested_at":"2026-11-20"}`},
		"extra field": {"e.csv", "requested_at,identifiers\n2026-11-20,\"[{\"\"type\"\":\"\"email\"\"," +
			"\"\"value\"\":\"\"ada@mail.example\"\"}]\",x"},
		"cell without a number": {"e.csv", "requested_at,identifiers\n2026-11-20,ada@mail.example"},
	} {
		cfg.RunID = name
		s, err := ingest.Files(t.Context(), cfg, erasures(t), record.KindErasure,
			[]string{write(t, c.file, []byte(c.text+"\n"))})
		requireExit(t, ingest.ExitRejected, err)
		require.Equal(t, ingest.Counts{Read: 1, Rejected: 1}, counts(s, record.KindErasure), name)
	}
	all := rejectedRecords(t, cfg.Bus)
	require.Len(t, all, 5)
	for _, l := range all {
		require.Empty(t, l.Raw, l.Source.Run)
		require.NotContains(t, l.Reason+l.Path, "mail.example", l.Source.Run)
	}
}

func TestMapping_ErasureIsRejectedWithoutObject(t *testing.T) {
	cfg := config(t)
	cfg.Mapping = write(
		t,
		"m.jq",
		[]byte(
			`if .gone then record("erasure"; {identifiers: [{type: "email", value: .mail}], requested_at: "2026-11-20"})
		else record("network-person"; {profile_id: .mail, username: "u", last_updated: "2026"}) end`,
		),
	)
	in := `{"mail":"ada@mail.example","gone":true}` + "\n" + `{"mail":"p_1"}` + "\n"
	s, err := ingest.Files(t.Context(), cfg, erasures(t), "", []string{write(t, "f", []byte(in))})
	requireExit(t, ingest.ExitRejected, err)
	require.True(t, s.Reconciles(), "%s", s)
	require.Equal(t, ingest.Counts{Read: 2, Mapped: 1, Rejected: 1}, counts(s, ingest.SourceObject))
	require.Equal(t, ingest.Counts{Extracted: 1, Published: 1}, counts(s, record.KindNetworkPerson))
	all := rejectedRecords(t, cfg.Bus)
	require.Len(t, all, 1)
	require.Empty(t, all[0].Raw)
	require.Equal(t, record.CodeMapping, all[0].Code)
	require.Contains(t, all[0].Reason, "returned an erasure")
}

func TestWithdrawErasure_IgnoresRemovedEntriesOfOtherKey(t *testing.T) {
	cfg, deps := config(t), erasures(t)
	order := record.Erasure{
		Identifiers: []record.ErasureIdentifier{{Type: "email", Value: "ada@mail.example"}},
		RequestedAt: "2026-11-20",
	}
	_, err := ingest.Erase(t.Context(), cfg, deps, order)
	require.NoError(t, err)
	other, err := suppress.NewKey([]byte(strings.Repeat("x", 32)))
	require.NoError(t, err)
	key := []byte(other.Of(suppress.Email, "eve@mail.example").String())
	w := bus.NewWriter(cfg.Bus)
	require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{
		{Topic: event.TopicErasure, Key: key,
			Value: []byte(`{"key":"` + other.ID() + `","type":"email","scope":"all","requested_at":"2026-11-21"}`)},
		{Topic: event.TopicErasure, Key: key},
	}))
	require.NoError(t, w.Close())
	order.Deleted, order.RequestedAt = true, "2026-11-22"
	done, err := ingest.Erase(t.Context(), cfg, deps, order)
	require.NoError(t, err)
	require.Len(t, done, 1)
}
