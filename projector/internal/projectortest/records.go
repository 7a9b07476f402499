package projectortest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
	"muster/schemas/suppress"
)

// AccountRecord returns the record of a code-host account.
func AccountRecord(tb testing.TB, id int, version, username string) *record.Record {
	return Decode(tb, record.KindCodehostPerson, fmt.Sprintf(`{"user_id":%d,"codehost_username":%q,"last_updated":%q}`,
		id, username, version))
}

// People returns records of an erased person and of others, on both shards.
func People(ghost string) map[record.Kind][]string {
	out := map[record.Kind][]string{
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"` + ghost + `","last_updated":"2026"}`},
		record.KindCodehostRepo:   {`{"user_id":42,"id":1,"name":"x","updated_at":"2026"}`},
	}
	for i := range 20 {
		out[record.KindCodehostPerson] = append(out[record.KindCodehostPerson],
			fmt.Sprintf(`{"user_id":%d,"codehost_username":"alive-%d","last_updated":"2026"}`, 100+i, i))
		out[record.KindCodehostRepo] = append(out[record.KindCodehostRepo],
			fmt.Sprintf(`{"user_id":%d,"id":1,"name":"x","updated_at":"2026"}`, 100+i))
	}
	return out
}

// Suppressed returns a set with one erased codehost username.
func Suppressed(t *testing.T, username string) *suppress.Set {
	t.Helper()
	set := suppress.NewSet(suppress.NoKey())
	value, err := json.Marshal(suppress.Entry{
		Type: suppress.CodehostUsername, Scope: suppress.All, RequestedAt: "2026-11-21T00:00:00Z", Key: set.Key().ID(),
	})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.CodehostUsername, username).String()), value))
	set.Loaded()
	return set
}

// SuppressedBy returns a set in which one identifier is suppressed.
func SuppressedBy(t *testing.T, typ suppress.Type, standard string) *suppress.Set {
	t.Helper()
	set := suppress.NewSet(suppress.NoKey())
	entry, err := json.Marshal(suppress.Entry{Type: typ, Scope: suppress.All, RequestedAt: "2026-11-21",
		Key: set.Key().ID()})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(typ, standard).String()), entry))
	set.Loaded()
	return set
}

// History returns records of a few identities in several versions, shuffled and partly repeated; want is the
// newest version of each.
func History(tb testing.TB, seed uint64, people, versions int) (all []*record.Record, want map[string]*record.Record) {
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // reproducible
	want = map[string]*record.Record{}
	for p := range people {
		id := fmt.Sprintf("p_%d", p)
		for v := range versions {
			members := fmt.Sprintf(`"username":"user-%d","headline":"v%d","emails":["%d@x.example"]`,
				random.IntN(people), v, p)
			if random.IntN(10) == 0 {
				members = `"deleted":true`
			}
			rec := Person(tb, id, fmt.Sprintf("2020-01-%02dT00:00:00Z", v+1), members)
			want[id] = rec
			for range 1 + random.IntN(2) {
				all = append(all, rec)
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, want
}

// Decode decodes a record.
func Decode(tb testing.TB, kind record.Kind, raw string) *record.Record {
	tb.Helper()
	rec, err := record.Decode(kind, []byte(raw))
	require.NoError(tb, err, raw)
	return rec
}

// These test the SQL of schemas/readmodel on the real engine. They are here because schemas opens no
// connections.

// Person returns the record of a network person with more fields.
func Person(tb testing.TB, id, version, members string) *record.Record {
	if members != "" {
		members = "," + members
	}
	return Decode(tb, record.KindNetworkPerson, fmt.Sprintf(`{"profile_id":%q,"last_updated":%q%s}`, id, version,
		members))
}

// Members returns the object of a shape.
func Members(r readmodel.NetworkPersonRow, shape readmodel.Shape) string {
	return string(append(r.Append([]byte{'{'}, shape, false), '}'))
}

// Owner returns the record of an account without other fields than its lists.
func Owner(tb testing.TB, user int) *record.Record {
	return Decode(tb, record.KindCodehostPerson,
		fmt.Sprintf(`{"user_id":%d,"last_updated":"2020","codehost_username":"ann"}`, user))
}

// Repo returns the record of a repository with more fields.
func Repo(tb testing.TB, user, id int, updated, members string) *record.Record {
	return Decode(tb, record.KindCodehostRepo, fmt.Sprintf(`{"user_id":%d,"id":%d,"updated_at":%q%s}`, user, id,
		updated, members))
}

// RepoList returns the complete list of an account's repositories.
func RepoList(tb testing.TB, user int, updated string, ids ...string) *record.Record {
	items := ""
	if len(ids) > 0 {
		items = `,"items":["` + strings.Join(ids, `","`) + `"]`
	}
	return Decode(tb, record.KindCodehostList, fmt.Sprintf(`{"user_id":%d,"list":"repos","last_updated":%q%s}`, user,
		updated, items))
}

// IDs returns the "id" fields of entries.
func IDs(entries []string) string {
	var out []string
	for _, e := range entries {
		id, _, _ := strings.Cut(strings.TrimPrefix(e, `"id":`), ",")
		out = append(out, id)
	}
	return strings.Join(out, " ")
}

// Pair returns the message with the version bump of a record, as published by ingest.
func Pair(tb testing.TB, rec *record.Record) kafka.Message {
	tb.Helper()
	s := event.VersionBump{Kind: rec.Kind, Key: rec.Key, Version: rec.VersionText, Hash: rec.Hash}
	value, err := json.Marshal(s)
	require.NoError(tb, err)
	return kafka.Message{Topic: event.TopicVersionBump, Key: []byte(s.MessageKey()), Value: value}
}

// recordSink collects generated records as ingest publishes them, with embedded lists split off.
type recordSink struct {
	tb   testing.TB
	recs []*record.Record
}

// Record implements the sink of sample data.
func (s *recordSink) Record(kind string, raw []byte) error {
	rec := Decode(s.tb, record.Kind(kind), string(raw))
	parts, rejected := rec.SplitEmbedded()
	require.Empty(s.tb, rejected)
	s.recs = append(s.recs, parts...)
	s.recs = append(s.recs, rec)
	return nil
}

// Truth implements the sink of sample data.
func (s *recordSink) Truth([]byte) error { return nil }

// WorldRecords returns the records of sample data.
func WorldRecords(tb testing.TB, people int, seed uint64) []*record.Record {
	tb.Helper()
	s := &recordSink{tb: tb}
	require.NoError(tb, sampledata.Generate(tb.Context(), sampledata.Options{People: people, Seed: seed}, s, nil))
	return s.recs
}

// Newest returns the current record of every identity that is not deleted, by kind and key.
func Newest(recs []*record.Record) map[record.Kind]map[string]*record.Record {
	out := map[record.Kind]map[string]*record.Record{}
	for _, r := range recs {
		m := out[r.Kind]
		if m == nil {
			m = map[string]*record.Record{}
			out[r.Kind] = m
		}
		if have := m[r.Key]; have == nil || r.Version > have.Version || r.Version == have.Version &&
			r.Hash > have.Hash {
			m[r.Key] = r
		}
	}
	for _, m := range out {
		for key, r := range m {
			if r.Deleted {
				delete(m, key)
			}
		}
	}
	return out
}

// Ranked returns records of one identity in ascending order: version, mapping revision, deletion, content
// hash.
func Ranked(t *testing.T, id string) []*record.Record {
	a, b := Person(t, id, "2025", `"username":"a"`), Person(t, id, "2025", `"username":"b"`)
	if a.Hash > b.Hash {
		a, b = b, a
	}
	again := func(r *record.Record, revision uint32) *record.Record {
		copied := *r
		copied.Revision = revision
		return &copied
	}
	gone := Person(t, id, "2025", `"deleted":true`)
	return []*record.Record{
		Person(t, id, "2024-12-31T23:59:59.999999Z", `"username":"before"`), a, b, gone,
		again(a, 1), again(b, 1), again(gone, 1), again(a, 2), again(a, 4294967295),
		Person(t, id, "2025-01-01T00:00:00.000001Z", `"username":"after"`),
	}
}

// WorldPeople returns the network people of generated sample data.
func WorldPeople(t *testing.T) []*record.Record {
	t.Helper()
	return slices.DeleteFunc(WorldRecords(t, 300, 7),
		func(r *record.Record) bool { return r.Kind != record.KindNetworkPerson })
}
