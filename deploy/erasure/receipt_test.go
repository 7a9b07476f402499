package erasure_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/erasure"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/projector/migrations"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// stores starts a broker, migrated tables and a writer to the broker.
func stores(t *testing.T) (bus.Config, driver.Conn, *bus.Writer) {
	t.Helper()
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: enginetest.DSN(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	_, err = migrations.Apply(t.Context(), conn, readmodel.Layout{}, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	w := bus.NewWriter(cfg)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return cfg, conn, w
}

func TestReceipt_CountsDataOfTheRequestOnly(t *testing.T) {
	kafkaConfig, conn, w := stores(t)
	write := func(topic, key string, value []byte) {
		require.NoError(t,
			bus.EnsureTopics(t.Context(), kafkaConfig, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
		require.NoError(t,
			bus.WriteAll(t.Context(), w, []kafka.Message{{Topic: topic, Key: []byte(key), Value: value}}))
	}

	renderer, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for kind, raws := range map[record.Kind][]string{
		record.KindNetworkPerson: {`{"profile_id":"p1","username":"ada-l","last_updated":"2026-01-02",` +
			`"emails":["ada@example.com"]}`},
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"ada","last_updated":"2026-01-03"}`,
			`{"user_id":43,"codehost_username":"carol","last_updated":"2026-01-03"}`},
		record.KindCodehostRepo: {`{"user_id":42,"id":7,"name":"engine","updated_at":"2026-01-03",` +
			`"last_updated":"2026-01-03"}`},
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

	src := erasure.Source{Conn: conn, Bus: kafkaConfig}
	look := func(h suppress.Hash) (erasure.Receipt, map[string]int64) {
		var r erasure.Receipt
		require.NoError(t,
			r.Search(t.Context(), src, key, []event.ErasureIdentifier{{Type: "email", Hash: h.String()}}))
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

// Messages in topics that expire by age are counted separately from remaining data. Stored profiles, responses of
// receivers, commits of an author and telephone numbers are remaining data.
func TestReceipt_CountsExpiringMessagesSeparately(t *testing.T) {
	kafkaConfig, conn, w := stores(t)
	var err error
	write := func(topic, key string, value any, headers ...kafka.Header) {
		t.Helper()
		raw, isRaw := value.([]byte)
		if !isRaw {
			raw, err = json.Marshal(value)
			require.NoError(t, err)
		}
		require.NoError(t,
			bus.EnsureTopics(t.Context(), kafkaConfig, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
		require.NoError(t,
			bus.WriteAll(t.Context(), w,
				[]kafka.Message{{Topic: topic, Key: []byte(key), Value: raw, Headers: headers}}))
	}
	key := suppress.NoKey()
	entry := func(typ suppress.Type, standard string) event.ErasureIdentifier {
		h := key.Of(typ, standard)
		write(event.TopicErasure, h.String(),
			suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026-02-01T00:00:00Z", Key: key.ID()})
		return event.ErasureIdentifier{Type: string(typ), Hash: h.String()}
	}
	hers := []event.ErasureIdentifier{entry(suppress.Email, "ada@example.com"), entry(suppress.CodehostUsername, "ada"),
		entry(suppress.Phone, "14155550100"), entry(suppress.ProfileID, "p9")}

	now := time.Now().UTC()
	for _, email := range []string{"ada@example.com", "bob@example.com"} {
		username, _, _ := strings.Cut(email, "@")
		body := []byte(`{"personal_email":"` + email + `"}`)
		account := event.Account{Platform: identity.Codehost, Username: username}
		write(event.TopicWebhookTask, "d",
			event.WebhookTask{DeliveryID: username, OrganizationID: "o", URL: "https://receiver.example/", Body: body,
				CreatedAt: now})
		write(event.TopicWebhook, "d", event.WebhookAttempt{DeliveryID: username, Response: "no such person: " + email})
		write(event.TopicRejected, "",
			event.Rejected{Kind: record.KindCodehostPerson,
				Raw: []byte(`{"codehost_username":"` + username + `","last_updated":7}`)})
		write(event.TopicDiscoveryTask, "", event.DiscoveryTask{RequestID: "r", Input: account})
		write(event.TopicDiscovery, "",
			event.Discovery{RequestID: "r", Input: event.Account{Platform: identity.Network, Username: "x"},
				Socials: []event.Social{{Account: account}}})
		write(event.TopicContext, "", event.Context{Profile: body})
		write(event.TopicContextTask, "", event.ContextTask{Person: []byte(`"Write to ` + email + `."`)})
		var headers []kafka.Header
		event.DeadLetter{
			Service:      "webhook-sender",
			Handler:      "deliveries",
			Topic:        event.TopicWebhookTask,
			FirstFailure: now,
			LastFailure:  now,
		}.Set(
			func(name, value string) {
				headers = append(headers, kafka.Header{Key: name, Value: []byte(value)})
			},
		)
		dead, err := json.Marshal(event.WebhookTask{DeliveryID: username, Body: body})
		require.NoError(t, err)
		write(event.DeadLetterTopic("webhook-sender", "deliveries").Name, "", dead, headers...)

		var contexts readmodel.ContextBatch
		require.NoError(t, contexts.Add(&event.Context{
			Call: event.ContextCall{RequestID: username, OrganizationID: "o", KeyID: "k", RequestedAt: now,
				RespondBy: now}, Status: event.ContextComplete, At: now, Profile: body,
		}, readmodel.Position{Topic: event.TopicContext}))
		require.NoError(t, readmodel.InsertContexts(t.Context(), conn, "c"+username, &contexts))
		var attempts readmodel.WebhookBatch
		attempts.Add(&event.WebhookAttempt{DeliveryID: username, Attempt: 1, EndpointID: "e", OrganizationID: "o",
			At: now, CreatedAt: now, Response: email}, readmodel.Position{Topic: event.TopicWebhook})
		require.NoError(t, readmodel.InsertWebhooks(t.Context(), conn, "w"+username, &attempts))
	}
	renderer, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for kind, raws := range map[record.Kind][]string{
		record.KindNetworkPerson: {`{"profile_id":"p1","username":"phoned","mobile_phone":"(415) 555-0100",` +
			`"last_updated":"2026"}`, `{"profile_id":"p2","username":"other","phone":"(415) 555-0101",` +
			`"last_updated":"2026"}`},
		record.KindCodehostCommit: {
			`{"user_id":7,"sha":"a","message":"hers","author_email":"ADA@example.com","author_date":"2026"}`,
			`{"user_id":7,"sha":"b","message":"his","author_email":"bob@example.com","author_date":"2026"}`,
		},
	} {
		for _, raw := range raws {
			rec, err := record.Decode(kind, []byte(raw))
			require.NoError(t, err, raw)
			require.NoError(t, renderer.Rows(batch, rec, readmodel.Position{Topic: kind.Topic()}))
		}
	}
	require.NoError(t, readmodel.Insert(t.Context(), conn, "t", batch))

	// The body of this delivery contains no identifier, but a source record does.
	write(event.TopicWebhookTask, "d",
		event.WebhookTask{DeliveryID: "made", OrganizationID: "o", URL: "https://receiver.example/", Body: []byte(`{}`),
			CreatedAt:  now,
			Identities: []string{"network-person p9"}})

	r := erasure.Receipt{SuppressedAt: now}
	require.NoError(t, r.Search(t.Context(), erasure.Source{Conn: conn, Bus: kafkaConfig}, key, hers))
	passing := map[string]erasure.Passing{}
	for _, p := range r.Passing {
		passing[p.Name] = p
		require.NotEmpty(t, p.UntilThen, p.Name)
	}
	for _, name := range []string{
		event.TopicWebhookTask, event.TopicWebhook, event.TopicRejected, event.TopicDiscoveryTask, event.TopicDiscovery,
		event.TopicContext, event.TopicContextTask,
		event.DeadLetterTopic("webhook-sender", "deliveries").Name,
	} {
		made := 0
		if name == event.TopicWebhookTask {
			made = 1
		}
		require.EqualValues(t, 2+made, passing[name].Looked, name)
		require.EqualValues(t, 1+made, passing[name].Remaining, name)
		require.Greater(t, passing[name].GoneBy, now.Add(6*24*time.Hour), name)
		require.Less(t, passing[name].GoneBy, now.Add(31*24*time.Hour), name)
	}
	require.EqualValues(t, 0, passing[event.TopicWebhookState].Remaining)
	left := map[string]int64{}
	for _, p := range r.Tables {
		if p.Remaining > 0 {
			left[p.Name] = p.Remaining
		}
	}
	require.Equal(t, map[string]int64{readmodel.ContextTable: 1, readmodel.WebhookAttemptsTable: 1, "network_people": 1,
		"codehost_commits": 1}, left)
	require.EqualValues(t, 4, r.Remaining(), "remaining, without expiring messages")
	require.NotEmpty(t, r.Files)
	require.Contains(t, r.NotLookedThrough[0], now.Add(25*time.Hour).Format(time.RFC3339))
}

func TestCheckReceipt_DetectsChangesAndAdditions(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	raw, err := erasure.Receipt{
		Version: 1, RequestID: "er_1", State: "deleted", VerifiedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		Tables: []erasure.Place{{Name: "network_people", Looked: 12, Remaining: 3}},
		Kept:   []erasure.Kept{{Type: "email", Hash: "00"}},
	}.Sign(key)
	require.NoError(t, err)
	public := erasure.PublicKey(key)
	r, err := erasure.CheckReceipt(raw, public)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Remaining())

	// Another JSON layout has the same signature.
	_, err = erasure.CheckReceipt(bytes.ReplaceAll(raw, []byte("\n"), nil), public)
	require.NoError(t, err)

	for _, change := range [][2]string{
		{`"remaining": 3`, `"remaining": 0`}, {`"er_1"`, `"er_2"`}, {`"deleted"`, `"suppressed"`},
		{`"version": 1,`, `"version": 1, "more": 1,`},
		{`2026-02-03`, `2026-02-04`}, {`"hash": "00"`, `"hash": "01"`}, {`"signature": "`, `"signature": "AAAA`},
	} {
		changed := bytes.Replace(raw, []byte(change[0]), []byte(change[1]), 1)
		require.NotEqual(t, raw, changed, change[0])
		_, err := erasure.CheckReceipt(changed, public)
		require.ErrorIs(t, err, erasure.ErrSignature, change[1])
	}
	// Signed again with another key.
	r.Tables = nil
	forged, err := r.Sign(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize)))
	require.NoError(t, err)
	_, err = erasure.CheckReceipt(forged, public)
	require.ErrorIs(t, err, erasure.ErrSignature)
	_, err = erasure.CheckReceipt([]byte("{"), public)
	require.Error(t, err)
	require.NotErrorIs(t, err, erasure.ErrSignature)
}
