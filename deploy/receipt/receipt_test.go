package receipt_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/receipt"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// A receipt counts what is left of its request's people alone, in tables and topics,
// and lists what follows from its identifiers.
func TestLook(t *testing.T) {
	b := brokertest.Start(t)
	kafkaConfig := bus.Config{Brokers: b.Addrs()}
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: enginetest.DSN(t)})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = projector.Migrate(t.Context(), conn, readmodel.Layout{}, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	w := bus.NewWriter(kafkaConfig)
	defer func() { require.NoError(t, w.Close()) }()
	write := func(topic, key string, value []byte) {
		require.NoError(t, bus.EnsureTopics(t.Context(), kafkaConfig, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
		require.NoError(t, bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: topic, Key: []byte(key), Value: value}}))
	}

	renderer, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for kind, raws := range map[record.Kind][]string{
		record.KindNetworkPerson:  {`{"profile_id":"p1","username":"ada-l","last_updated":"2026-01-02","emails":["ada@example.com"]}`},
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"ada","last_updated":"2026-01-03"}`, `{"user_id":43,"codehost_username":"carol","last_updated":"2026-01-03"}`},
		record.KindCodehostRepo:   {`{"user_id":42,"id":7,"name":"engine","updated_at":"2026-01-03","last_updated":"2026-01-03"}`},
	} {
		for _, raw := range raws {
			rec, err := record.Decode(kind, []byte(raw))
			require.NoError(t, err, raw)
			require.NoError(t, renderer.Rows(batch, rec, readmodel.Position{Topic: kind.Topic()}))
			write(kind.Topic(), rec.Key, rec.JSON)
		}
	}
	write(record.KindCodehostPerson.Topic(), "42", nil) // a tombstone, before compaction
	require.NoError(t, readmodel.Insert(t.Context(), conn, "t", batch))

	key := suppress.NoKey()
	entry := func(typ suppress.Type, standard string, from suppress.Hash) suppress.Hash {
		h := key.Of(typ, standard)
		e := suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026-02-01T00:00:00Z", Key: key.ID()}
		if from != (suppress.Hash{}) {
			e.From = from.String()
		}
		value, err := json.Marshal(e)
		require.NoError(t, err)
		write(event.TopicErasure, h.String(), value)
		return h
	}
	asked := entry(suppress.Email, "ada@example.com", suppress.Hash{})
	entry(suppress.UserID, "42", entry(suppress.ProfileID, "p1", asked))
	other := entry(suppress.CodehostUsername, "carol", suppress.Hash{})

	src := receipt.Source{Conn: conn, Bus: kafkaConfig, Key: key}
	look := func(h suppress.Hash) (receipt.Receipt, map[string]int64) {
		var r receipt.Receipt
		require.NoError(t, receipt.Look(t.Context(), src, []event.ErasureIdentifier{{Type: "email", Hash: h.String()}}, &r))
		left := map[string]int64{}
		for _, p := range append(r.Tables, r.Topics...) {
			require.LessOrEqual(t, p.Remaining, p.Looked)
			if p.Remaining > 0 && p.Name != "lookups" {
				left[p.Name] = p.Remaining
			}
		}
		return r, left
	}
	r, left := look(asked)
	require.Len(t, r.Kept, 3)
	require.Equal(t, map[string]int64{
		"network_people": 1, "search_people": 1, "codehost_people": 1, "codehost_repos": 1,
		record.KindNetworkPerson.Topic(): 1, record.KindCodehostPerson.Topic(): 2, record.KindCodehostRepo.Topic(): 1,
	}, left)
	require.NotEmpty(t, r.NotLookedThrough)
	_, left = look(other)
	require.Equal(t, map[string]int64{"codehost_people": 1, record.KindCodehostPerson.Topic(): 1}, left)

	for _, table := range []string{"network_people", "search_people", "codehost_people", "codehost_repos", "lookups"} {
		require.NoError(t, conn.Exec(t.Context(), "TRUNCATE TABLE "+table))
	}
	r, _ = look(asked)
	for _, p := range r.Tables {
		require.Zero(t, p.Remaining, p.Name)
	}
	require.EqualValues(t, 4, r.Remaining(), "the topics' messages")
}

// Whatever is changed in a receipt, or added to it, is noticed.
func TestSignature(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	raw, err := receipt.Sign(receipt.Receipt{
		Version: 1, RequestID: "er_1", State: "removed", VerifiedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		Tables: []receipt.Place{{Name: "network_people", Looked: 12, Remaining: 3}}, Kept: []receipt.Kept{{Type: "email", Hash: "00"}},
	}, key)
	require.NoError(t, err)
	public := receipt.PublicKey(key)
	r, err := receipt.Check(raw, public)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Remaining())

	// Another layout of the same is the same.
	_, err = receipt.Check(bytes.ReplaceAll(raw, []byte("\n"), nil), public)
	require.NoError(t, err)

	for _, change := range [][2]string{
		{`"remaining": 3`, `"remaining": 0`}, {`"er_1"`, `"er_2"`}, {`"removed"`, `"masked"`}, {`"version": 1,`, `"version": 1, "more": 1,`},
		{`2026-02-03`, `2026-02-04`}, {`"hash": "00"`, `"hash": "01"`}, {`"signature": "`, `"signature": "AAAA`},
	} {
		changed := bytes.Replace(raw, []byte(change[0]), []byte(change[1]), 1)
		require.NotEqual(t, raw, changed, change[0])
		_, err := receipt.Check(changed, public)
		require.ErrorIs(t, err, receipt.ErrSignature, change[1])
	}
	// Signed anew by somebody else.
	r.Tables = nil
	forged, err := receipt.Sign(r, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize)))
	require.NoError(t, err)
	_, err = receipt.Check(forged, public)
	require.ErrorIs(t, err, receipt.ErrSignature)
	_, err = receipt.Check([]byte("{"), public)
	require.Error(t, err)
	require.NotErrorIs(t, err, receipt.ErrSignature)
}
