package differential_test

import (
	"cmp"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
	"muster/platform/engine/enginetest"
	"muster/query-api/internal/search/searchtest"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// open connects to the read models.
func open(t *testing.T, dsn string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: dsn, MaxOpenConns: 4})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// store returns a database with the read models of sample data for the given number of people, about 60% of whom have a
// profile.
func store(t *testing.T, people int) driver.Conn {
	t.Helper()
	conn := open(t, enginetest.DSN(t))
	fill(t, conn, people)
	return conn
}

// fill creates the read models and inserts the people.
func fill(t *testing.T, conn driver.Conn, people int) {
	t.Helper()
	files, err := readmodel.Migrations()
	require.NoError(t, err)
	migrations, err := clickhouse.LoadMigrations(files, readmodel.Layout{})
	require.NoError(t, err)
	_, err = clickhouse.Migrate(t.Context(), conn, migrations, clickhouse.MigrateConfig{})
	require.NoError(t, err)
	s := &sink{t: t, conn: conn, renderer: readmodel.NewRenderer(identity.Default())}
	require.NoError(t, sampledata.Generate(t.Context(), sampledata.Options{People: people, Seed: 6}, s, nil))
	for _, r := range unusualPeople() {
		require.NoError(t, s.Record(sampledata.NetworkPerson, []byte(r)))
	}
	for _, r := range unusualCompanies() {
		require.NoError(t, s.Record(string(record.KindNetworkCompany), []byte(r)))
	}
	require.NoError(t, s.flush())
	linkPeople(t, conn)
}

// linkPeople links people with accounts, as the projector does.
func linkPeople(t *testing.T, conn driver.Conn) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT profile_id FROM search_people FINAL WHERE NOT deleted")
	require.NoError(t, err)
	defer rows.Close() // read completely
	var linked []readmodel.LinkedRow
	for rows.Next() {
		r := readmodel.LinkedRow{Ver: 1}
		require.NoError(t, rows.Scan(&r.ProfileID))
		var ok bool
		if r.Account, ok = linkedAccount(r.ProfileID); ok {
			linked = append(linked, r)
		}
	}
	require.NoError(t, rows.Err())
	require.NoError(t, readmodel.InsertLinked(t.Context(), conn, linked))
}

// sink inserts network people and companies as the projector does.
type sink struct {
	t        *testing.T
	conn     driver.Conn
	renderer *readmodel.Renderer
	batch    readmodel.Batch
	records  int
}

func (s *sink) Record(kind string, raw []byte) error {
	if kind != sampledata.NetworkPerson && kind != string(record.KindNetworkCompany) {
		return nil
	}
	r, err := record.Decode(record.Kind(kind), raw)
	if err != nil {
		return err
	}
	s.records++
	if err := s.renderer.Rows(&s.batch, r, readmodel.Position{Topic: "test", Offset: int64(s.records)}); err != nil {
		return err
	}
	if s.batch.Records() >= 2000 {
		return s.flush()
	}
	return nil
}

func (s *sink) flush() error {
	err := readmodel.Insert(s.t.Context(), s.conn, strconv.Itoa(s.records), &s.batch)
	s.batch.Reset()
	return err
}

func (*sink) Truth([]byte) error { return nil }

// linkedAccount returns the linked account of a person. Some have none, some an account without values.
func linkedAccount(profileID string) (readmodel.LinkedAccount, bool) {
	a := readmodel.Unlinked()
	n := readmodel.ProfileHash(profileID)
	if n%3 == 0 {
		return a, false
	}
	draw := func(of uint64) uint64 {
		rest := n % of
		n /= of
		return rest
	}
	a.UserID = int64(draw(1000))
	a.Username = fmt.Sprint([]string{"engineer", "Ann-Ünal", "dev_", "!!"}[draw(4)], draw(7))
	languages := []string{"Go", "C++", "Objective-C", "go", "engineer engineer", "Rust", "###", "Jupyter Notebook"}
	for range draw(6) {
		a.Languages = append(a.Languages, languages[draw(uint64(len(languages)))])
	}
	if draw(4) > 0 {
		a.Followers = int64(draw(40))
	}
	if draw(4) > 0 {
		a.PublicRepos = int64(draw(300))
	}
	return a, true
}

// addLinked adds the fields of the linked account to the members of a person.
func addLinked(out map[string]any, profileID string) {
	a, ok := linkedAccount(profileID)
	if !ok {
		return
	}
	account := map[string]any{"username": a.Username, "languages": a.Languages}
	for name, n := range map[string]int64{"followers": a.Followers, "public_repos": a.PublicRepos} {
		if n != readmodel.SearchMissing {
			account[name] = n
		}
	}
	out["codehost"] = account
}

// documents returns the people of the store as the API returns them, with the fields that are only searchable.
func documents(t *testing.T, conn driver.Conn) []searchtest.Document {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT concat("+readmodel.Members(readmodel.ShapeEnrich)+
		" AS enriched, if(enriched = '', '', ','), '\"updated_at\":\"', updated_at, '\"'), concat('{', "+
		readmodel.Members(readmodel.ShapeAddon)+", '}') FROM network_people FINAL WHERE NOT deleted ORDER BY profile_id")
	require.NoError(t, err)
	defer rows.Close() // read completely
	var out []searchtest.Document
	for rows.Next() {
		var fragment, addon string
		require.NoError(t, rows.Scan(&fragment, &addon))
		added, err := json.Marshal(searchedOnly(t, []byte("{"+fragment+"}"), []byte(addon)), json.Deterministic(true))
		require.NoError(t, err)
		separator := ","
		if len(added) == 2 {
			separator = ""
		}
		d, err := searchtest.ParseDocument([]byte("{" + fragment + separator + string(added[1:])))
		require.NoError(t, err)
		out = append(out, d)
	}
	require.NoError(t, rows.Err())
	return out
}

// searchedOnly returns the fields of a person that are only searchable. addon is the person as the add-on network shows
// it.
func searchedOnly(t *testing.T, result, addon []byte) map[string]any {
	t.Helper()
	var members map[string]any
	require.NoError(t, json.Unmarshal(result, &members))
	out := make(map[string]any)
	for _, list := range []string{"experience", "education"} {
		if members[list+"_count"] == nil {
			out[list+"_count"] = 0
		}
	}
	var from struct {
		Current *struct {
			Title   *string `json:"title"`
			Summary *string `json:"summary"`
			Start   *string `json:"start"`
			Company struct {
				Name *string `json:"name"`
				ID   *string `json:"company_id"`
			} `json:"company"`
		} `json:"current_position"`
	}
	require.NoError(t, json.Unmarshal(addon, &from))
	if c := from.Current; c != nil {
		out["current_position"] = map[string]any{"title": cmp.Or(c.Title, c.Summary), "start_date": c.Start,
			"company_name": c.Company.Name, "company_id": c.Company.ID}
	}
	months, dated := map[string]bool{}, false
	list, _ := members["experience"].([]any)
	for _, e := range list {
		entry, _ := e.(map[string]any)
		start, ok := entry["start_date"].(string)
		if !ok {
			continue
		}
		dated = true
		end := start
		if date, ok := entry["end_date"].(string); ok {
			end = date
		} else if entry["is_current"] == true {
			end, _ = members["updated_at"].(string)
		}
		first, err := time.Parse("2006-01", start[:7])
		require.NoError(t, err)
		for month := first; month.Format("2006-01") <= end[:7]; month = month.AddDate(0, 1, 0) {
			months[month.Format("2006-01")] = true
		}
	}
	if dated {
		out["years_of_experience"] = len(months) / 12
	}
	id, _ := members["profile_id"].(string)
	addLinked(out, id)
	return out
}

// clockChanges returns instants around which the clocks of a time zone of searchtest change.
func clockChanges() []string {
	return []string{
		"2026-03-08T04:30:00Z", "2026-03-08T05:30:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z",
		"2026-09-06T03:30:00Z", "2026-09-06T04:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z",
	}
}

// unusualPeople returns what the sample data lack: scripts, emoji, long values, repeated words, empty texts.
func unusualPeople() []string {
	long := make([]byte, 300)
	for i := range long {
		long[i] = "abcdefghij"[i%10]
	}
	person := func(i int, updated, members string) string {
		return fmt.Sprintf(`{"profile_id":"strange-%d","username":"strange-%d","last_updated":"%s",%s}`, i,
			i, updated, members)
	}
	bodies := []string{
		`"full_name":"田中 太郎","headline":"東京のソフトウェアエンジニア 東京 東京"`,
		`"full_name":"สมชาย ใจดี","headline":"วิศวกรซอฟต์แวร์ กรุงเทพ"`,
		`"full_name":"Ольга Иванова","headline":"Инженер-программист C++ и Go","summary":"Санкт-Петербург"`,
		`"full_name":"محمد علي","headline":"مهندس برمجيات 🚀 ★"`,
		`"full_name":"!!! ---","headline":"🚀🚀 👩‍💻 rockets 🚀"`,
		`"full_name":"Ann O'Neil","headline":"engineer engineer engineer, AT&T and node.js at 10:30","summary":"` +
			string(long) + `"`,
		`"full_name":"Ann O’Neil","headline":"ENGINEER of C# and .NET; Engineer","connections":0,` +
			`"followers":9007199254740993`,
		`"headline":"the the the the the the the the the the the the the the the the the the the the the the the the ` +
			`the the the the the the the the the the the the the the the the the the the the end"`,
		`"full_name":"No Jobs","experience":[{"title":"Engineer","start":"1999","current":false},{"title":"Engineer",` +
			`"company":{"name":"Engineer Engineer"}},{"company":{"name":"Acme"}}],` +
			`"languages":[{"language":"Deutsch"},{"proficiency":"native"}]`,
		`"full_name":"Two Jobs","experience":[{"title":"Software Engineer","company":{"name":"Acme"},` +
			`"start":"2001-02-03","end":"2004"},{"title":"Manager of Engineer","company":{"name":"Acme Corp"},` +
			`"start":"2004-05","description":"Software was here. Engineer too"}]`,
		`"full_name":"Ångström Ünal","headline":"Straße İstanbul ﬁnance ΣΊΣΥΦΟΣ"`,
		`"full_name":"a*b?c\\d \"quoted\" (x) [y] {z} /s/","headline":"wild * cards ? and \\ slashes + - && || ! ^ ~ :"`,
		`"full_name":"Gaps","experience":[{"title":"Omega"},{"title":"!!!"},{"title":"Omega"}]`,
	}
	var out []string
	for i, b := range bodies {
		out = append(out, person(i, fmt.Sprintf("2026-01-%02dT00:00:00Z", 1+i%28), b))
	}
	for _, updated := range clockChanges() {
		out = append(out, person(len(out), updated, `"headline":"The clocks were changed"`))
	}
	return out
}
