package erasure_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/erasure"
	"muster/ingest"
	"muster/platform/bus"
	erasing "muster/projector/erasure"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func hash(sum [32]byte) string { return base64.StdEncoding.EncodeToString(sum[:]) }

func hashOf(standard string) string { return hash(suppress.Sum(standard)) }

// archive writes a ZIP file of a download, and returns its path.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "20260312_4821_DROP.zip")
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, text := range files {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}

func TestImportLists_IsIdempotentAndKeepsTheFirstStatus(t *testing.T) {
	cfg, conn, _ := stores(t)
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{
		{Name: event.TopicErasure, Partitions: 1, Replication: 1},
		{Name: event.TopicErasureRequest, Partitions: 1, Replication: 1},
	}))
	renderer, batch := readmodel.NewRenderer(identity.Default()), &readmodel.Batch{}
	for kind, raws := range map[record.Kind][]string{
		record.KindNetworkPerson: {
			`{"profile_id":"p1","username":"danielle","first_name":"Danielle","last_name":"Johnson",` +
				`"date_of_birth":"1985-07-04","location":{"postal_code":"91790"},"last_updated":"2026",` +
				`"emails":["Danielle.Johnson12@example.com"]}`,
			`{"profile_id":"p2","username":"one","last_updated":"2026","emails":["office@example.com"],` +
				`"phone":"+1(415)555-9317"}`,
			`{"profile_id":"p3","username":"two","last_updated":"2026","emails":["office@example.com"]}`,
		},
		record.KindCodehostPerson: {`{"user_id":42,"codehost_username":"dj","last_updated":"2026",` +
			`"personal_email":"danielle.johnson12@example.com"}`},
	} {
		for _, raw := range raws {
			rec, err := record.Decode(kind, []byte(raw))
			require.NoError(t, err, raw)
			require.NoError(t, renderer.Rows(batch, rec, readmodel.Position{Topic: kind.Topic()}))
		}
	}
	require.NoError(t, readmodel.Insert(t.Context(), conn, "t", batch))

	// set loads the suppression set, like a process that starts now.
	set := func() *suppress.Set {
		s := suppress.NewSet(suppress.NoKey())
		require.NoError(t, bus.Scan(t.Context(), cfg, []string{event.TopicErasure}, func(m kafka.Message) error {
			require.Contains(t, string(m.Value), `"mark":"`)
			return s.Apply(m.Key, m.Value)
		}))
		s.Loaded()
		return s
	}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	run := func(opts erasure.ImportOptions, s *suppress.Set, paths ...string) *erasure.ImportResult {
		t.Helper()
		lists, err := erasure.ReadLists(paths)
		require.NoError(t, err)
		now = now.Add(time.Minute)
		opts.Now = func() time.Time { return now }
		out, err := erasure.ImportLists(t.Context(), erasure.Source{Conn: conn, Bus: cfg}, s, lists, opts)
		require.NoError(t, err)
		return out
	}
	list := func(out *erasure.ImportResult, name string) erasure.ListResult {
		t.Helper()
		for _, l := range out.Lists {
			if l.Name == name {
				return l
			}
		}
		t.Fatalf("%s not found", name)
		return erasure.ListResult{}
	}
	path := archive(t, map[string]string{
		"20260312_4821_Email.csv": "ID,Hash\nA7kP2xQ9Lm4R," + hashOf("danielle.johnson12@example.com") +
			"\nB7kP2xQ9Lm4R," + hashOf("office@example.com") +
			"\nC7kP2xQ9Lm4R," + hashOf("missing@example.com") + "\nshort," + hashOf("x") +
			"\nD7kP2xQ9Lm4R,nonsense\nE7kP2xQ9Lm4R," + hashOf("danielle.johnson12@example.com") + "\n",
		"20260312_4821_Phone.csv": "\xef\xbb\xbfID,Hash\r\nF7kP2xQ9Lm4R,vGM7y5n+hBXRSEAklhHDPCbysyNgYTmXdMcagGUOY8E=\r\n",
		"20260312_4821_NDZ.csv":   "ID,Hash\nG7kP2xQ9Lm4R,PQOfn1RffEKmqMmNAzDKKaoZCwxWbQZkQzPWmQo9REA=\n",
		"20260312_4821_MAID.csv":  "ID,Hash\n",
	})

	dry := run(erasure.ImportOptions{DryRun: true}, set(), path)
	require.Equal(t, map[erasure.ListStatus]int{erasure.Deleted: 2, erasure.OptedOut: 1, erasure.NotFound: 1},
		list(dry, "20260312_4821_Email.csv").Statuses)
	require.Zero(t, set().Len(), "a dry run changes nothing")

	first := run(erasure.ImportOptions{Exempt: map[string]bool{"F7kP2xQ9Lm4R": true}}, set(), path)
	require.Equal(t, list(dry, "20260312_4821_Email.csv").Statuses, list(first, "20260312_4821_Email.csv").Statuses)
	require.Len(t, list(first, "20260312_4821_Email.csv").Bad, 2)
	require.Equal(t, map[erasure.ListStatus]int{erasure.Exempted: 1}, list(first, "20260312_4821_Phone.csv").Statuses)
	require.Equal(t, map[erasure.ListStatus]int{erasure.Deleted: 1}, list(first, "20260312_4821_NDZ.csv").Statuses)
	require.Len(t, first.Requests, 2)
	require.Equal(t, 4, set().Len(), "three addresses and a composite, without the exempt number")
	dir := t.TempDir()
	written, err := first.Respond(dir)
	require.NoError(t, err)
	require.Len(t, written, 3, "responses, without one for the empty list")
	responses := func(dir string) map[string]string {
		out := make(map[string]string)
		for _, name := range []string{"20260312_4821_Email.csv", "20260312_4821_Phone.csv", "20260312_4821_NDZ.csv"} {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			out[name] = string(raw)
		}
		return out
	}
	want := map[string]string{
		"20260312_4821_Email.csv": "Id,Status\nA7kP2xQ9Lm4R,3\nB7kP2xQ9Lm4R,4\nC7kP2xQ9Lm4R,5\nE7kP2xQ9Lm4R,3\n",
		"20260312_4821_Phone.csv": "Id,Status\nF7kP2xQ9Lm4R,2\n",
		"20260312_4821_NDZ.csv":   "Id,Status\nG7kP2xQ9Lm4R,3\n",
	}
	require.Equal(t, want, responses(dir))

	// The people are deleted. A repeated import, here after a crash that lost its entries, gives the same responses.
	require.NoError(t, conn.Exec(t.Context(), "TRUNCATE TABLE network_people"))
	lost := suppress.NewSet(suppress.NoKey())
	lost.Loaded()
	again := run(erasure.ImportOptions{}, lost, path)
	require.Equal(t, 4, list(again, "20260312_4821_Email.csv").Known)
	require.Equal(t, first.Requests, again.Requests)
	require.Equal(t, 4, lost.Len(), "missing entries are published again")
	dir = t.TempDir()
	_, err = again.Respond(dir)
	require.NoError(t, err)
	require.Equal(t, want, responses(dir))
	all, err := erasing.Requests(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, all, 3, "requests: one per list with rows")
	require.Equal(t, "drop", all[0].Via)

	// Withdrawn: A has the same hash as E, the hash of B is its own.
	removed := func(rows string) string {
		p := filepath.Join(t.TempDir(), "20260501_4821_Removed.csv")
		require.NoError(t, os.WriteFile(p, []byte("ID,Hash,ListType\n"+rows), 0o600))
		return p
	}
	row := func(id, email string) string { return id + "," + hashOf(email) + ",Email\n" }
	email := func(address string) suppress.Hash { return suppress.NoKey().Of(suppress.Email, address) }
	out := run(erasure.ImportOptions{}, set(),
		removed(row("A7kP2xQ9Lm4R", "danielle.johnson12@example.com")+row("B7kP2xQ9Lm4R", "office@example.com")+
			row("Z7kP2xQ9Lm4R", "unknown@example.com")))
	require.Equal(t, 3, list(out, "20260501_4821_Removed.csv").Withdrawn)
	require.Equal(t, 1, list(out, "20260501_4821_Removed.csv").Kept)
	require.True(t, set().Suppressed(email("danielle.johnson12@example.com")))
	require.False(t, set().Suppressed(email("office@example.com")))
	none, err := out.Respond(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, none, "responses for withdrawn rows")
	run(erasure.ImportOptions{}, set(), removed(row("E7kP2xQ9Lm4R", "danielle.johnson12@example.com")))
	require.False(t, set().Suppressed(email("danielle.johnson12@example.com")))
	run(erasure.ImportOptions{}, set(), path)
	require.False(t, set().Suppressed(email("office@example.com")), "an old list does not restore a withdrawn request")

	// A person with another request stays suppressed when the platform's request is withdrawn.
	_, err = ingest.Erase(t.Context(), ingest.Config{Bus: cfg}, ingest.Deps{Suppressed: set()}, record.Erasure{
		Identifiers: []record.ErasureIdentifier{{Type: "email", Value: "missing@example.com"}},
		RequestedAt: now.Add(time.Hour).Format(time.RFC3339),
	})
	require.NoError(t, err)
	run(erasure.ImportOptions{}, set(), removed(row("C7kP2xQ9Lm4R", "missing@example.com")))
	require.True(t, set().Suppressed(email("missing@example.com")))
}

func TestReadLists_RejectsInvalidLists(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"name":   {"deletions.csv", "ID,Hash\n", "invalid file name"},
		"header": {"20260312_4821_Email.csv", "Id,Status\n", "line 1 must be ID,Hash"},
		"kind":   {"20260312_4821_Fax.csv", "ID,Hash\n", "invalid file name"},
		"empty":  {"20260312_4821_Email.csv", "", "line 1 must be ID,Hash"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := erasure.ReadLists([]string{path})
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := erasure.ReadLists([]string{filepath.Join(t.TempDir(), "none.zip")})
	require.Error(t, err)
	good := filepath.Join(t.TempDir(), "20260312_4821_Email_part01.csv")
	require.NoError(t, os.WriteFile(good, []byte("ID,Hash\n\"broken\nA7kP2xQ9Lm4R,"+hashOf("x")+"\n"), 0o600))
	lists, err := erasure.ReadLists([]string{good})
	require.NoError(t, err)
	require.Empty(t, lists[0].Rows)
	require.Len(t, lists[0].Bad, 1)
	_, err = erasure.ReadLists([]string{good, good})
	require.ErrorContains(t, err, "duplicate list")
}
