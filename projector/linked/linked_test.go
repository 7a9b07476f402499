package linked_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/projector"
	"muster/projector/internal/projectortest"
	"muster/projector/linked"
	"muster/projector/project"
	"muster/projector/replay"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// rows returns the linked accounts of people as they are read, as JSON by profile ID.
func rows(t *testing.T, s *projectortest.Store) map[string]string {
	t.Helper()
	found, err := s.Conn.Query(t.Context(), "SELECT profile_id, toJSONString(tuple(user_id, codehost_username, "+
		"codehost_languages, codehost_public_repos, codehost_followers)) FROM linked_accounts FINAL WHERE user_id >= 0")
	require.NoError(t, err)
	defer found.Close() // read completely
	out := make(map[string]string)
	for found.Next() {
		var id, row string
		require.NoError(t, found.Scan(&id, &row))
		out[id] = row
	}
	require.NoError(t, found.Err())
	return out
}

func row(id int, username, languages string, repos, followers int64) string {
	return fmt.Sprintf(`[%d,%q,[%s],%d,%d]`, id, username, languages, repos, followers)
}

const missing = readmodel.SearchMissing

func TestLinked_FollowsRecordsLinksAndRepositories(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	account := func(version, members string) *record.Record {
		return projectortest.Decode(t, record.KindCodehostPerson,
			fmt.Sprintf(`{"user_id":7,"last_updated":%q%s}`, version, members))
	}
	link := func(observed, members string) *record.Record {
		return projectortest.Decode(t, record.KindAccountLink, fmt.Sprintf(
			`{"a":{"platform":"codehost","username":"Ada"},"b":{"platform":"network","username":"ann"},"source":"x",`+
				`"observed_at":%q%s}`, observed, members))
	}
	for _, step := range []struct {
		what string
		rec  *record.Record
		want string
	}{
		{"an account without a person", account("2020", `,"codehost_username":"Ada","followers":3`), ""},
		{"a person without a link", projectortest.Person(t, "p", "2020", `"username":"Ann"`), ""},
		{"a link", link("2021", ""), row(7, "Ada", "", missing, 3)},
		{"a withdrawn link", link("2022", `,"deleted":true`), ""},
		{"an account that declares the person", account("2023", `,"codehost_username":"Ada","network_username":"ann",`+
			`"public_repos":2`), row(7, "Ada", "", 2, missing)},
		{"a repository", projectortest.Repo(t, 7, 1, "2024", `,"language":"Go"`), row(7, "Ada", `"Go"`, 2, missing)},
		{"a new version of the person", projectortest.Person(t, "p", "2024", `"username":"Ann","headline":"x"`),
			row(7, "Ada", `"Go"`, 2, missing)},
		{"a person with another name", projectortest.Person(t, "p", "2025", `"username":"anne"`), ""},
		{"a person who declares the account", projectortest.Person(t, "p", "2026", `"username":"anne",`+
			`"codehost_username":"ADA"`), row(7, "Ada", `"Go"`, 2, missing)},
		{"an account with another name", account("2024", `,"codehost_username":"bob"`), ""},
		{"its former name", account("2025", `,"codehost_username":"ada","repo_languages":["C","D"]`),
			row(7, "ada", `"C","D"`, missing, missing)},
		{"an organization", account("2026", `,"codehost_username":"ada","type":"Organization"`), ""},
		{"a user", account("2027", `,"codehost_username":"ada"`), row(7, "ada", `"Go"`, missing, missing)},
		{"a withdrawn person", projectortest.Person(t, "p", "2027", `"deleted":true`), ""},
		{"a person who comes back", projectortest.Person(t, "p", "2028", `"username":"x","codehost_username":"ada"`),
			row(7, "ada", `"Go"`, missing, missing)},
		{"a withdrawn account", account("2028", `,"deleted":true`), ""},
	} {
		h.PublishRecords(step.rec)
		h.CaughtUp()
		require.Equal(t, step.want, rows(t, h.Store)["p"], step.what)
	}
	require.Empty(t, h.RejectedRecords())
}

// The search sink has to read a person again after the linked account changed, and only then.
func TestConsumer_TouchesPeopleWhoseAccountChanged(t *testing.T) {
	h := projectortest.New(t)
	h.Insert("1", projectortest.Person(t, "p", "2020", `"username":"ann","codehost_username":"ada"`),
		projectortest.Person(t, "q", "2020", `"username":"bob"`), projectortest.AccountRecord(t, 7, "2020", "ada"))
	h.StartLinked(h.Conn, nil)
	require.NoError(t, linked.Touch(t.Context(), h.Writer, event.AnswerTask{}, []string{"p", "q"}))
	h.LinkedCaughtUp()
	require.Equal(t, row(7, "ada", "", missing, missing), rows(t, h.Store)["p"])
	touch := func(id string, like event.AnswerTask) event.AnswerTask {
		like.Kind, like.ID = record.KindNetworkPerson, id
		return like
	}
	want := []event.AnswerTask{
		touch("p", event.AnswerTask{}), touch("p", event.AnswerTask{Linking: true}),
		touch("p", event.AnswerTask{IndexOnly: true}), touch("q", event.AnswerTask{}),
	}
	require.Equal(t, want, h.Touches())
	require.NoError(t, linked.Touch(t.Context(), h.Writer, event.AnswerTask{}, []string{"p", "q"}))
	h.LinkedCaughtUp()
	require.Len(t, h.Touches(), len(want)+2, "nothing changed")
}

// killingConn fails from the end of an insert on, as if the process were killed after it.
type killingConn struct {
	driver.Conn
	killed     chan struct{}
	insertOnce sync.Once
}

func (c *killingConn) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	select {
	case <-c.killed:
		return nil, io.ErrUnexpectedEOF
	default:
		return c.Conn.Query(ctx, query, args...)
	}
}

func (c *killingConn) PrepareBatch(
	ctx context.Context, query string, opts ...driver.PrepareBatchOption,
) (driver.Batch, error) {
	b, err := c.Conn.PrepareBatch(ctx, query, opts...)
	return &killingBatch{b, c}, err
}

type killingBatch struct {
	driver.Batch
	conn *killingConn
}

func (b *killingBatch) Send() error {
	defer b.conn.insertOnce.Do(func() { close(b.conn.killed) })
	return errors.Join(b.Batch.Send(), io.ErrUnexpectedEOF)
}

// The next consumer finds the rows of a killed one, and nothing to change.
func TestConsumer_TouchesPeopleWhoseAccountAKilledOneChanged(t *testing.T) {
	h := projectortest.New(t)
	h.Insert("1", projectortest.Person(t, "p", "2020", `"username":"ann","codehost_username":"ada"`),
		projectortest.AccountRecord(t, 7, "2020", "ada"))
	conn := &killingConn{Conn: h.Conn, killed: make(chan struct{})}
	stop := h.StartLinked(conn, nil)
	require.NoError(t, linked.Touch(t.Context(), h.Writer, event.AnswerTask{}, []string{"p"}))
	<-conn.killed
	stop()
	require.Equal(t, row(7, "ada", "", missing, missing), rows(t, h.Store)["p"])
	for _, touch := range h.Touches() {
		require.False(t, touch.IndexOnly, "touched before it was killed")
	}
	h.StartLinked(h.Conn, nil)
	h.LinkedCaughtUp()
	touches := h.Touches()
	require.True(t, touches[len(touches)-1].IndexOnly, "the document is not written: %v", touches)
}

// A refresh of everyone that is killed touches those whose rows it wrote, and those of a failing one in several steps.
func TestRefresher_AnnouncesEachStepBeforeItsRows(t *testing.T) {
	h := projectortest.New(t)
	const people = 1001
	records := []*record.Record{projectortest.AccountRecord(t, 7, "2020", "ada")}
	for i := range people {
		records = append(records, projectortest.Person(t, fmt.Sprint("p", i), "2020",
			fmt.Sprintf(`"username":"u%d","codehost_username":"ada"`, i)))
	}
	h.Insert("1", records...)
	written := func() int { return len(rows(t, h.Store)) }
	announced := 0
	r := linked.Refresher{Conn: h.Conn, Now: time.Now, Announce: func(_ context.Context, people []string) error {
		require.Equal(t, announced, written(), "rows before their announcement")
		if announced += len(people); len(people) == 1 {
			return io.ErrUnexpectedEOF
		}
		return nil
	}}
	require.ErrorIs(t, r.RefreshAll(t.Context(), nil), io.ErrUnexpectedEOF)
	require.Equal(t, people, announced)
	require.Equal(t, people-1, written())
}

// world is a random history of a few people, accounts, repositories and links, whose usernames collide.
type world struct {
	rng     *rand.Rand
	newest  map[string]member // by kind and identity
	records []*record.Record
}

// member is the content of a record.
type member struct {
	version int
	values  map[string]any
}

func (w *world) name() string { return []string{"ann", "bob", "cat"}[w.rng.IntN(3)] }

// add adds versions of an identity.
func (w *world) add(t *testing.T, kind record.Kind, key string, head map[string]any, date string,
	content func(map[string]any)) {
	t.Helper()
	for _, version := range w.rng.Perm(50)[:1+w.rng.IntN(4)] {
		values := maps.Clone(head)
		values[date] = time.Date(2026, 1, 1, 0, 0, version, 0, time.UTC).Format(time.RFC3339)
		if w.rng.IntN(6) == 0 {
			values["deleted"] = true
		} else {
			content(values)
		}
		raw, err := json.Marshal(values, json.Deterministic(true))
		require.NoError(t, err)
		w.records = append(w.records, projectortest.Decode(t, kind, string(raw)))
		name := string(kind) + " " + key
		if last, ok := w.newest[name]; !ok || version > last.version {
			w.newest[name] = member{version, values}
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), newest: make(map[string]member)}
	for i := range 4 {
		w.add(t, record.KindNetworkPerson, fmt.Sprint(i), map[string]any{"profile_id": fmt.Sprint("p", i)}, "last_updated",
			func(v map[string]any) {
				v["username"] = w.name()
				if w.rng.IntN(2) == 0 {
					v["codehost_username"] = w.name()
				}
			})
	}
	for i := range 4 {
		w.add(t, record.KindCodehostPerson, fmt.Sprint(i), map[string]any{"user_id": i}, "last_updated",
			func(v map[string]any) {
				v["codehost_username"] = w.name()
				if w.rng.IntN(3) == 0 {
					v["network_username"] = w.name()
				}
				if w.rng.IntN(2) == 0 {
					v["followers"] = w.rng.IntN(100)
				}
				if w.rng.IntN(6) == 0 {
					v["type"] = "Organization"
				}
			})
		w.add(t, record.KindCodehostRepo, fmt.Sprint(i), map[string]any{"user_id": i, "id": 1}, "updated_at",
			func(v map[string]any) { v["language"] = w.name() })
	}
	for i := range 6 {
		a, b := w.name(), w.name()
		source := fmt.Sprint("s", i)
		w.add(t, record.KindAccountLink, source, map[string]any{
			"a": map[string]any{"platform": "network", "username": a}, "source": source,
			"b": map[string]any{"platform": "codehost", "username": b},
		}, "observed_at", func(v map[string]any) { v["confidence"] = []float64{0.5, 0.75, 1}[w.rng.IntN(3)] })
	}
	w.rng.Shuffle(len(w.records), func(a, b int) { w.records[a], w.records[b] = w.records[b], w.records[a] })
	return w
}

// get returns the newest content of an identity; ok is false if there is none or it is deleted.
func (w *world) get(kind record.Kind, key any) (m member, ok bool) {
	m, ok = w.newest[fmt.Sprint(kind, " ", key)]
	return m, ok && m.values["deleted"] != true
}

// want returns the linked accounts by brute force.
func (w *world) want() map[string]string {
	type candidate struct {
		account    int
		confidence float64
		stated     int
	}
	out := make(map[string]string)
	for p := range 4 {
		person, ok := w.get(record.KindNetworkPerson, p)
		if !ok {
			continue
		}
		var found []candidate
		// holder adds the newest account with a username.
		holder := func(name any, confidence float64, stated int) {
			best, version := -1, -1
			for i := range 4 {
				a, ok := w.get(record.KindCodehostPerson, i)
				if ok && a.values["type"] == nil && a.values["codehost_username"] == name && a.version > version {
					best, version = i, a.version
				}
			}
			if best >= 0 {
				found = append(found, candidate{best, confidence, stated})
			}
		}
		if name := person.values["codehost_username"]; name != nil {
			holder(name, 1, person.version)
		}
		for i := range 4 {
			a, ok := w.get(record.KindCodehostPerson, i)
			if ok && a.values["type"] == nil && a.values["network_username"] == person.values["username"] {
				found = append(found, candidate{i, 1, a.version})
			}
		}
		for i := range 6 {
			l, ok := w.get(record.KindAccountLink, fmt.Sprint("s", i))
			if ok && l.values["a"].(map[string]any)["username"] == person.values["username"] {
				holder(l.values["b"].(map[string]any)["username"], l.values["confidence"].(float64), l.version)
			}
		}
		if len(found) == 0 {
			continue
		}
		best := slices.MinFunc(found, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.confidence, a.confidence), cmp.Compare(b.stated, a.stated),
				cmp.Compare(a.account, b.account))
		})
		account, _ := w.get(record.KindCodehostPerson, best.account)
		languages, followers := "", int64(missing)
		if repo, ok := w.get(record.KindCodehostRepo, best.account); ok {
			languages = fmt.Sprintf("%q", repo.values["language"])
		}
		if n, ok := account.values["followers"].(int); ok {
			followers = int64(n)
		}
		out[fmt.Sprint("p", p)] = row(best.account, account.values["codehost_username"].(string), languages, missing,
			followers)
	}
	return out
}

// TestLinked_EqualsBruteForceInAnyOrder projects random histories in random order and batches, restarts the projector
// meanwhile, and compares the rows with brute force; then again after the table was lost and refreshed as a whole.
func TestLinked_EqualsBruteForceInAnyOrder(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			h := projectortest.New(t)
			stop := h.Start(nil)
			for records := w.records; len(records) > 0; {
				n := min(len(records), 1+w.rng.IntN(12))
				h.PublishRecords(records[:n]...)
				records = records[n:]
				switch w.rng.IntN(6) {
				case 0:
					h.CaughtUp()
				case 1:
					stop()
					stop = h.Start(nil)
				}
			}
			h.CaughtUp()
			want := w.want()
			require.Equal(t, want, rows(t, h.Store))

			stop()
			r := linked.Refresher{Conn: h.Conn, Now: time.Now}
			require.NoError(t, r.RefreshAll(t.Context(), func(_ int, changed []string) error {
				require.Empty(t, changed, "nothing changes")
				return nil
			}))
			require.NoError(t, h.Conn.Exec(t.Context(), "TRUNCATE TABLE linked_accounts"))
			report, err := replay.Answers(t.Context(),
				replay.Deps{Deps: project.Deps{Conn: h.Conn, Logger: slog.New(slog.DiscardHandler)}})
			require.NoError(t, err)
			require.EqualValues(t, len(want), report.Linked)
			require.Equal(t, want, rows(t, h.Store), "after a replay")
		})
	}
}

// gatedConn delays builds of answers while its gate is held.
type gatedConn struct {
	driver.Conn
	gate sync.RWMutex
}

func (c *gatedConn) Exec(ctx context.Context, query string, args ...any) error {
	if strings.HasPrefix(query, "INSERT INTO "+readmodel.AnswersTable) {
		c.gate.RLock()
		defer c.gate.RUnlock()
	}
	return c.Conn.Exec(ctx, query, args...)
}

// The person is linked when the answer is built, although nothing of the account points to a person before.
func TestLinked_PersonArrivesBeforeTheBuildOfTheAccount(t *testing.T) {
	h := projectortest.New(t)
	conn := &gatedConn{Conn: h.Conn}
	h.Start(func(_ *projector.Config, deps *project.Deps) { deps.Conn = conn })
	h.PublishRecords(projectortest.AccountRecord(t, 7, "2020", "ada"))
	h.CaughtUp()
	conn.gate.Lock()
	h.PublishRecords(projectortest.Decode(t, record.KindCodehostPerson,
		`{"user_id":7,"last_updated":"2021","codehost_username":"ada","network_username":"ann"}`))
	h.RecordsCaughtUp()
	h.PublishRecords(projectortest.Person(t, "p", "2020", `"username":"ann"`))
	h.RecordsCaughtUp()
	h.LinkedCaughtUp()
	require.Empty(t, rows(t, h.Store))
	conn.gate.Unlock()
	h.CaughtUp()
	require.Equal(t, row(7, "ada", "", missing, missing), rows(t, h.Store)["p"])
}

// Most people of a crawl have no links. Refreshing them would cost more than projecting them.
func TestLinked_OnlyPeopleWhoMayBeLinkedAreRefreshed(t *testing.T) {
	h := projectortest.New(t)
	h.Start(nil)
	h.PublishRecords(projectortest.Person(t, "p", "2020", `"username":"ann","codehost_username":"ada"`),
		projectortest.Person(t, "q", "2020", `"username":"bob"`))
	h.CaughtUp()
	require.Empty(t, h.Touches())
	h.PublishRecords(projectortest.AccountRecord(t, 8, "2020", "eve"), projectortest.AccountRecord(t, 7, "2020", "ada"))
	h.CaughtUp()
	touch := func(kind record.Kind, id string, like event.AnswerTask) event.AnswerTask {
		like.Kind, like.ID = kind, id
		return like
	}
	var want []event.AnswerTask
	for _, like := range []event.AnswerTask{{}, {Linking: true}, {Built: true}} {
		want = append(want, touch(record.KindCodehostPerson, "7", like))
	}
	want = append(want, touch(record.KindCodehostPerson, "8", event.AnswerTask{}),
		touch(record.KindNetworkPerson, "p", event.AnswerTask{}))
	got := h.Touches()
	for i := range got {
		got[i].Version = 0
	}
	require.Equal(t, want, got)
	require.Equal(t, row(7, "ada", "", missing, missing), rows(t, h.Store)["p"])
	h.PublishRecords(projectortest.Person(t, "p", "2021", `"username":"ann"`))
	h.CaughtUp()
	require.Empty(t, rows(t, h.Store), "no longer declared")
}
