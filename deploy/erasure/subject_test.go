package erasure_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/erasure"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// sumOf returns the SHA-256 hash of a normalized identifier, in hexadecimal.
func sumOf(t *testing.T, typ suppress.Type, value string) string {
	t.Helper()
	standard, err := suppress.Normalize(typ, value)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(standard))
	return hex.EncodeToString(sum[:])
}

func TestFindSubject_FindsRowsAndCallsByAnyIdentifier(t *testing.T) {
	kafkaConfig, conn, w := stores(t)
	renderer, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	offsets := map[string]int64{}
	put := func(kind record.Kind, raw string) {
		rec, err := record.Decode(kind, []byte(raw))
		require.NoError(t, err, raw)
		topic := kind.Topic()
		require.NoError(t,
			bus.EnsureTopics(t.Context(), kafkaConfig, []bus.Topic{{Name: topic, Partitions: 1, Replication: 1}}))
		require.NoError(t, renderer.Rows(batch, rec, readmodel.Position{Topic: topic, Offset: offsets[topic]}))
		offsets[topic]++
		require.NoError(t,
			bus.WriteAll(t.Context(), w,
				[]kafka.Message{{Topic: topic, Key: []byte(rec.Key), Value: rec.JSON, Headers: []kafka.Header{
					{Key: event.HeaderRun, Value: []byte("run-1")},
					{Key: event.HeaderFile, Value: []byte("people.ndjson")},
					{Key: event.HeaderLine, Value: []byte("7")},
				}}}))
	}
	const name = `it's \ada`
	put(record.KindNetworkPerson,
		`{"profile_id":"p-kari","username":"kari-lund","last_updated":"2026-01-02",`+
			`"work_emails":["Kari@Lund.example"],"contact":{"private":"+47 555 01 234"}}`)
	put(record.KindNetworkPerson,
		`{"profile_id":"p'1","username":"ada-l","last_updated":"2026-01-02","codehost_username":"ada",`+
			`"emails":["Ada@Example.com"]}`)
	put(record.KindNetworkPerson,
		`{"profile_id":"p2","username":"bob","last_updated":"2026-01-02","codehost_username":"ada"}`)
	put(record.KindCodehostPerson,
		`{"user_id":42,"codehost_username":"ada","last_updated":"2026-01-03","network_username":"ada-l",`+
			`"personal_email":"ada@work.example"}`)
	put(record.KindCodehostPerson, `{"user_id":43,"codehost_username":"carol","last_updated":"2026-01-03"}`)
	put(record.KindCodehostRepo,
		`{"user_id":42,"id":7,"name":"engine","updated_at":"2026-01-03","last_updated":"2026-01-03"}`)
	// A commit belongs to its author too, by any address of the accounts, in another account.
	put(record.KindCodehostCommit,
		`{"user_id":43,"sha":"aaa","author_date":"2026-01-02","author_email":"ADA@work.example"}`)
	put(record.KindCodehostCommit,
		`{"user_id":43,"sha":"bbb","author_date":"2026-01-02","author_email":"carol@work.example"}`)
	require.NoError(t, readmodel.Insert(t.Context(), conn, "t", batch))

	key := suppress.NoKey()
	disclosed := &readmodel.DisclosureBatch{}
	ledger := &readmodel.UsageBatch{}
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for i, returned := range [][]string{{"codehost-person 42", "network-person p2"}, {"codehost-person 43"},
		{"network-person 42"}} {
		u := &event.Usage{
			RequestID: string(rune('a' + i)), OrganizationID: "org", KeyID: "key", At: at, Period: "2026-02",
			Method: "POST", Endpoint: "/v1/person/enrich",
			Status: 200, Outcome: event.OutcomeCharged, Groups: []string{"codehost"},
		}
		ledger.Add(u, readmodel.Position{Topic: event.TopicUsage, Offset: int64(i)})
		for _, name := range returned {
			d, ok := key.Record(name)
			require.True(t, ok)
			disclosed.Add(u, d)
		}
	}
	require.NoError(t, readmodel.InsertUsage(t.Context(), conn, "u", ledger))
	require.NoError(t, readmodel.InsertDisclosures(t.Context(), conn, "u", disclosed))

	src := erasure.Source{Conn: conn, Bus: kafkaConfig}
	show := func(limits erasure.ReportLimits, typ, value string) *erasure.SubjectReport {
		id := record.ErasureIdentifier{Type: typ}
		if sum, ok := strings.CutPrefix(value, "sha256:"); ok {
			id.SHA256 = sum
		} else {
			id.Value = record.Scalar(value)
		}
		r, err := erasure.FindSubject(t.Context(), src, key, []record.ErasureIdentifier{id}, limits)
		require.NoError(t, err)
		return r
	}
	sum := sha256.Sum256([]byte("ada@example.com"))
	all := erasure.ReportLimits{Rows: 100, Messages: 100}
	want := show(all, "email", "sha256:"+hex.EncodeToString(sum[:])).Tables
	for typ, value := range map[string]string{
		"email": " ADA@example.com", "codehost_username": "@Ada", "network_username": "ada-l", "user_id": "42",
		"profile_id": "p'1",
	} {
		r := show(all, typ, value)
		require.Len(t, r.Accounts, 2, typ)
		require.Equal(t, want, r.Tables)
		tables := map[string]int{}
		for _, row := range r.Rows {
			tables[row.Table]++
			require.Equal(t, erasure.SourceMessage{
				Topic: row.Message.Topic, Offset: row.Message.Offset, Run: "run-1", File: "people.ndjson", Line: "7",
				Time: row.Message.Time,
			}, row.Message)
			require.False(t, row.Message.Time.IsZero())
			require.NotContains(t, row.Identity, "p2")
			if row.Table == "codehost_commits" {
				require.Equal(t, "43/aaa", row.Identity)
				continue
			}
			require.NotContains(t, row.Identity, "43")
		}
		require.Equal(t, [4]int{1, 1, 1, 1},
			[4]int{tables["network_people"], tables["codehost_people"], tables["codehost_repos"],
				tables["codehost_commits"]})
		require.Positive(t, tables["lookups"])
		require.Equal(t, "2026-01-02T00:00:00Z", r.Rows[0].Version)
		require.Equal(t, uint64(1), r.Calls)
		require.Equal(t, "a", r.Received[0].RequestID)
		require.Equal(t, []string{"codehost-person 42"}, r.Received[0].Identities)
		require.Equal(t, []string{"codehost"}, r.Received[0].Fields)
		require.NotEmpty(t, r.NotLookedThrough)
	}

	few := show(erasure.ReportLimits{Rows: 1, Messages: 1}, "user_id", "42")
	require.True(t, few.Rows[len(few.Rows)-1].Message.Unread)
	for _, table := range few.Tables {
		require.LessOrEqual(t, table.Listed, 1)
	}
	only := show(all, "email", "carol@work.example")
	require.Empty(t, only.Accounts)
	require.Equal(t, uint64(1), only.Held())
	require.Equal(t, "43/bbb", only.Rows[0].Identity)
	sum = sha256.Sum256([]byte("carol@work.example"))
	require.Equal(t, only.Rows, show(all, "email", "sha256:"+hex.EncodeToString(sum[:])).Rows)
	missing := show(all, "profile_id", name)
	require.Zero(t, missing.Held())
	require.Len(t, missing.Accounts, 1, "the account in the request")

	// An address or a number in a field outside the schema is found, as in an erasure.
	for typ, value := range map[string]string{
		"email": "kari@lund.example", "phone": "+4755501234", "phone ": "sha256:" +
			sumOf(t, suppress.Phone, "+4755501234"),
		"email ": "sha256:" + sumOf(t, suppress.Email, "kari@lund.example"),
	} {
		r := show(all, strings.TrimSpace(typ), value)
		require.Len(t, r.Accounts, 1, typ)
		require.Equal(t, "p-kari", r.Accounts[0].ID, typ)
		require.NotZero(t, r.Held(), typ)
	}
	require.Zero(t, show(all, "phone", "+14155550100").Held())

	// A message that was removed by compaction does not stop the report.
	lost := &readmodel.Batch{}
	rec, err := record.Decode(record.KindCodehostPerson,
		[]byte(`{"user_id":44,"codehost_username":"dora","last_updated":"2026-01-03"}`))
	require.NoError(t, err)
	require.NoError(t,
		renderer.Rows(lost, rec, readmodel.Position{Topic: record.KindCodehostPerson.Topic(), Offset: 99}))
	require.NoError(t, readmodel.Insert(t.Context(), conn, "l", lost))
	gone := show(all, "user_id", "44")
	require.NotZero(t, gone.Held())
	require.True(t, gone.Rows[0].Message.Gone)
}
