package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

// edges generates valid records that are rare in a crawl but covered by MAPPING.md: absent values in every form, arrays
// longer than the served limit, unknown fields at every level and under reserved names, dates of every precision, and
// email addresses in texts.
type edges struct {
	rng *rand.Rand
	// own are the addresses that texts of the current record may contain.
	own []string
}

// withDot returns the addresses with a dot after the at sign. Others are only recognized in a text if the record states
// them.
func withDot(addresses []string) []string {
	out := []string{"some.body@edge.example"}
	for _, a := range addresses {
		if _, host, ok := strings.Cut(a, "@"); ok && strings.Contains(host, ".") {
			out = append(out, a)
		}
	}
	return out
}

type record = map[string]any

// edgeUserID is larger than the IDs in generated data.
const edgeUserID = 4_000_000_000

func edgeNetwork(i int) string  { return fmt.Sprintf("edge-network-%d", i) }
func edgeCodehost(i int) string { return fmt.Sprintf("Edge-Codehost-%d", i) }
func edgeSlug(i int) string     { return fmt.Sprintf("edge-company-%d", i) }

// writeEdges writes n people of both websets, and companies, in the format of a generated data set.
func writeEdges(t *testing.T, dir string, n int, seed uint64) {
	t.Helper()
	e := &edges{rng: rand.New(rand.NewPCG(seed, 2))}
	files := map[string]*strings.Builder{}
	for _, kind := range kinds {
		files[kind] = &strings.Builder{}
	}
	write := func(kind string, r record) {
		raw, err := json.Marshal(r, json.Deterministic(true))
		require.NoError(t, err)
		files[kind].Write(append(raw, '\n'))
	}
	for i := range n {
		addresses := e.addresses(i)
		// An older version is written first, last, or not at all.
		newest, older := e.networkPerson(i, "2026-05-06T07:08:09.25Z", addresses),
			e.networkPerson(i, "2026-05-06", addresses)
		e.shuffled(write, oracle.NetworkPerson, newest, older)
		newest, older = e.codehostPerson(i, "2026-04-01T00:00:00+02:00", addresses),
			e.codehostPerson(i, "2026-03", addresses)
		e.shuffled(write, oracle.CodehostPerson, newest, older)
		for range e.rng.IntN(4) {
			write(oracle.CodehostRepo, e.owned(e.repo(i, e.rng.IntN(8)), i))
			write(oracle.CodehostCommit, e.owned(e.commit(i, 500+e.rng.IntN(200)), i))
		}
		if e.one(4) {
			write(oracle.CodehostRepo,
				record{"user_id": edgeUserID + i, "id": e.rng.IntN(8), "updated_at": "2026-03-20", "deleted": true})
		}
		if e.one(3) {
			a := record{"platform": "network", "username": strings.ToUpper(edgeNetwork(e.rng.IntN(n)))}
			b := record{"platform": "codehost", "username": edgeCodehost(e.rng.IntN(n))}
			if e.one(2) {
				a, b = b, a
			}
			l := record{"a": a, "b": b, "source": fmt.Sprint("edge-", i), "observed_at": e.date()}
			if e.one(2) {
				l["confidence"] = jsontext.Value([]string{"0.9", "1", "0.30", "1.0"}[e.rng.IntN(4)])
			}
			write(oracle.AccountLink, l)
		}
		write(oracle.NetworkCompany, e.company(i))
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for kind, b := range files {
		require.NoError(t, os.WriteFile(file(dir, kind), []byte(b.String()), 0o600))
	}
}

func (e *edges) shuffled(write func(string, record), kind string, newest, older record) {
	switch e.rng.IntN(3) {
	case 0:
		write(kind, older)
		write(kind, newest)
	case 1:
		write(kind, newest)
		write(kind, older)
		write(kind, newest)
	default:
		write(kind, newest)
	}
}

func (e *edges) one(in int) bool { return e.rng.IntN(in) == 0 }

func choose[T any](e *edges, from ...T) T { return from[e.rng.IntN(len(from))] }

func (e *edges) addresses(i int) []string {
	all := []string{
		fmt.Sprintf("Edge.%d@Edge.Example", i), fmt.Sprintf("edge.%d@edge.example", i),
		fmt.Sprintf("edge+%d@mail.edge.example", i),
		fmt.Sprintf("root%d@localhost", i), fmt.Sprintf("kraß%d@äpfel.example", i), "not an address", "@edge",
		"edge@", "",
		fmt.Sprintf("o'neil_%d@edge.example", i),
	}
	e.rng.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all[:1+e.rng.IntN(len(all)-1)]
}

// text returns a string, or nil, sometimes with email addresses.
func (e *edges) text() any {
	own := choose(e, e.own...)
	switch e.rng.IntN(14) {
	case 0:
		return nil
	case 1:
		return ""
	case 2:
		return "write to " + own + ", or " + strings.ToUpper(own) + "!"
	case 3:
		return "person.else+x@elsewhere.example"
	case 4:
		return "a@b@c.example @handle x@y user%40host.example, 名前＠例え.example; end@host."
	case 5:
		return own + own
	case 6:
		return "mailto:" + own + "?subject=a@b.c.d&cc=q%40r.s-"
	case 7:
		return "<b>\u2028\"quoted\\ \u0001 &amp; \U0001F600 עברית"
	case 8:
		return "  " + strings.Repeat("long ", 20)
	default:
		return choose(e, "plain", "Überschrift", "0", "null", "{}", "日本語のテキスト", "no@dot")
	}
}

func (e *edges) date() string {
	return choose(e, "1999", "2003-07", "2003-07-01", "2003-07-01T00:00:00Z", "2003-07-01T00:00:00.5Z",
		"2011-12-31T23:30:00-05:00",
		"2012-01-01", "2012-01-01T03:04:05", "2020-02-29", fmt.Sprintf("%d", 1980+e.rng.IntN(40)),
		fmt.Sprintf("%d-%02d", 1980+e.rng.IntN(40), 1+e.rng.IntN(12)))
}

func (e *edges) maybeDate() any {
	switch e.rng.IntN(5) {
	case 0:
		return nil
	case 1:
		return ""
	}
	return e.date()
}

func (e *edges) integer() any {
	return choose[any](e, nil, 0, 1, 17, 9_007_199_254_740_991)
}

func (e *edges) flag() any { return choose[any](e, nil, true, false) }

// length returns the length of an array: mostly short, sometimes longer than the served limit.
func (e *edges) length() int {
	if e.one(25) {
		return choose(e, 100, 101, 115)
	}
	return e.rng.IntN(4)
}

func listOf(n int, entry func() any) []any {
	out := make([]any, 0, n)
	for range n {
		out = append(out, entry())
	}
	return out
}

func (e *edges) texts() any {
	if e.one(5) {
		return nil
	}
	return listOf(e.length(), e.text)
}

// unknown returns any value.
func (e *edges) unknown(depth int) any {
	switch n := e.rng.IntN(12); {
	case n == 0:
		return nil
	case n == 1:
		return choose[any](e, "", []any{}, record{})
	case n == 2:
		return jsontext.Value(choose(e, "12345678901234567890", "-0.5e-7", "1.50", "100", "1e2"))
	case n == 3:
		return choose(e, true, false)
	case n == 4:
		return listOf(102, func() any { return e.rng.IntN(10) })
	case n < 8 && depth < 3:
		o := record{}
		for range e.rng.IntN(4) {
			o[e.name()] = e.unknown(depth + 1)
		}
		return o
	case n < 10 && depth < 3:
		return listOf(e.rng.IntN(3), func() any { return e.unknown(depth + 1) })
	}
	return e.text()
}

func (e *edges) name() string {
	return choose(e, "tags", "tags_count", "E_Mail", "gmail", "reach me at x@y.example", "über", "a.b", "x", "X",
		"x_count", "deep", "note", "summary2")
}

// with adds unknown fields, some with names that are reserved in a shape.
func (e *edges) with(o record, reserved ...string) record {
	for range e.rng.IntN(3) {
		if name := "x_" + e.name(); o[name] == nil {
			o[name] = e.unknown(0)
		}
	}
	if len(reserved) > 0 && e.one(3) {
		o[choose(e, reserved...)] = e.unknown(0)
	}
	for _, name := range slices.Sorted(maps.Keys(o)) { // a field may be absent instead of null
		if o[name] == nil && e.one(2) {
			delete(o, name)
		}
	}
	return o
}

func (e *edges) location() any {
	switch e.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return record{}
	case 2:
		return record{"city": "", "state": nil}
	}
	return e.with(record{"city": e.text(), "state": e.text(), "country": e.text(), "country_code": e.text(),
		"continent": e.text(), "raw_address": e.text()})
}

func (e *edges) reference(id string) any {
	if e.one(6) {
		return choose[any](e, nil, record{}, record{"name": ""})
	}
	return e.with(record{"name": e.text(), "network_url": e.text(), id: e.text()})
}

func (e *edges) position() any {
	switch e.rng.IntN(12) {
	case 0:
		return nil
	case 1:
		return record{"summary": "", "location": record{"city": ""}, "company": nil}
	}
	return e.with(record{
		"summary": e.text(), "title": e.text(), "description": e.text(), "start": e.maybeDate(), "end": e.maybeDate(),
		"current":  e.flag(),
		"location": e.location(), "company": e.reference("company_id"),
	}, "company_name", "company_url", "start_date", "end_date", "is_current")
}

func (e *edges) study() any {
	switch e.rng.IntN(12) {
	case 0:
		return nil
	case 1:
		return record{"degrees": []any{}, "school": record{"name": nil}}
	}
	return e.with(record{
		"summary": e.text(), "field_of_study": e.text(), "start": e.maybeDate(), "end": e.maybeDate(),
		"current": e.flag(), "location": e.location(),
		"degrees": e.texts(), "minors": e.texts(), "majors": e.texts(), "school": e.reference("school_id"),
	}, "school_name", "school_url", "degree", "start_date", "end_date")
}

func (e *edges) networkPerson(i int, version string, addresses []string) record {
	stated := e.drawAddresses(addresses)
	named := func(names ...string) func() any {
		return func() any {
			o := record{}
			for _, n := range names {
				o[n] = e.text()
			}
			return e.with(o)
		}
	}
	r := record{
		"profile_id": fmt.Sprintf("edge-%d", i), "username": edgeNetwork(i), "last_updated": version,
		"current_position": e.position(), "experience": listOf(e.length(), e.position),
		"education": listOf(e.length(), e.study),
		"certifications": listOf(e.length(), func() any {
			c := named("credential_id", "credential_url", "issuer", "name")()
			c.(record)["issue_date"] = e.maybeDate()
			return c
		}),
		"languages": listOf(e.length(), named("language", "proficiency")), "skills": listOf(e.length(), named("skill")),
		"location": e.location(), "connections": e.integer(), "followers": e.integer(), "following": e.integer(),
		"social_accounts": e.texts(),
	}
	for _, n := range []string{"first_name", "middle_name", "last_name", "full_name", "url", "photo", "headline",
		"summary"} {
		r[n] = e.text()
	}
	if stated != nil {
		r["emails"] = stated
	}
	if e.one(2) {
		r["personal_email"] = choose(e, e.own...)
	}
	if e.one(4) {
		r["codehost_username"] = strings.ToLower(edgeCodehost(max(0, i-e.rng.IntN(3))))
	}
	return e.with(r, "network_username", "network_url", "updated_at", "profile", "codehost", "network",
		"repos_complete", "experience_count", "skills_count")
}

// drawAddresses draws the addresses that a record states, and sets those that its texts may contain.
func (e *edges) drawAddresses(addresses []string) []string {
	if e.one(2) {
		e.own = addresses
		return addresses
	}
	e.own = withDot(addresses)
	return nil
}

func (e *edges) codehostPerson(i int, version string, addresses []string) record {
	stated := e.drawAddresses(addresses)
	repos, commits := []any{}, []any{}
	n := e.length()
	for k := range n {
		repos = append(repos, e.repo(i, k))
		commits = append(commits, e.commit(i, k))
	}
	r := record{
		"user_id": edgeUserID + i, "codehost_username": edgeCodehost(i), "last_updated": version,
		"type":     choose[any](e, nil, "User", "Bot", "Organization"),
		"hireable": e.flag(), "followers": e.integer(), "following": e.integer(), "public_repos": e.integer(),
		"public_gists": e.integer(),
		"commit_count": e.integer(), "created_at": e.maybeDate(), "updated_at": e.maybeDate(),
		"repo_languages": e.texts(), "social_accounts": e.texts(), "names": e.texts(),
		"starred_repos":     listOf(e.length(), func() any { return e.unknown(0) }),
		"issues":            listOf(e.length(), func() any { return e.unknown(0) }),
		"follower_accounts": listOf(e.rng.IntN(3), func() any { return e.unknown(1) }), "followed_accounts": nil,
		"location_canonical": e.with(record{
			"city": e.text(), "timezone": e.text(), "label": e.text(), "latitude": jsontext.Value("-12.50"),
			"longitude": jsontext.Value("1e1"),
		}),
		"repos": repos, "commits": commits,
	}
	for _, n := range []string{"first_name", "last_name", "full_name", "avatar_url", "url", "bio", "blog",
		"personal_website", "location", "company"} {
		r[n] = e.text()
	}
	for _, n := range []string{"personal_email", "school_email"} {
		if e.one(2) {
			r[n] = choose(e, e.own...)
		}
	}
	if stated != nil {
		r[choose(e, "emails", "additional_emails")] = stated
	}
	if e.one(2) {
		r["repos_complete"], r["commits_complete"] = true, e.one(2)
	}
	if e.one(4) {
		r["network_username"] = edgeNetwork(i + e.rng.IntN(3))
	}
	return e.with(r, "codehost", "network", "email", "repos_count", "emails_count")
}

// repoVersions are before, at and after the time of the account's complete list.
var repoVersions = []string{
	"2019", "2020-02", "2021-01-01", "2021-01-02", "2021-01-02T00:00:00.001Z", "2026-03-31T22:00:00Z", "2026-04-01",
	"2026-04-02T00:00:00+14:00",
}

// repo returns one version of an owner's repository. The content depends on identity and version only.
func (e *edges) repo(i, id int) record {
	v := e.rng.IntN(len(repoVersions))
	c := &edges{rng: rand.New(rand.NewPCG(uint64(i), uint64(1000*v+id))), own: withDot(nil)}
	return c.with(record{
		"id": id, "updated_at": repoVersions[v], "name": c.text(), "full_name": c.text(), "description": c.text(),
		"language":         c.text(),
		"stargazers_count": c.integer(), "forks_count": c.integer(), "topics": c.texts(), "created_at": c.maybeDate(),
	}, "repo_id", "owner", "topics_count")
}

func (e *edges) commit(i, k int) record {
	c := &edges{rng: rand.New(rand.NewPCG(uint64(i), uint64(1_000_000+k))), own: withDot(nil)}
	return c.with(record{
		"sha": fmt.Sprintf("%08x%032x", i, k), "author_date": c.date(), "message": c.text(), "author_name": c.text(),
		"author_login": c.text(),
		"author_email": choose[any](c, nil, "author@edge.example", "Own.Author@Edge.Example", "author@localhost"),
		"repo":         choose[any](c, nil, record{}, c.with(record{"full_name": c.text(), "language": c.text()})),
	})
}

func (e *edges) owned(r record, i int) record {
	r["user_id"] = edgeUserID + i
	return r
}

func (e *edges) company(i int) record {
	return e.with(record{
		"company_id": fmt.Sprintf("edge-%d", i), "network_slug": edgeSlug(i),
		"network_id":   choose[any](e, nil, "", fmt.Sprintf("edge-%d", i)),
		"last_updated": e.date(),
		"profile": e.with(record{
			"name": e.text(), "tagline": e.text(), "description": e.text(), "industry": e.text(),
			"company_size": e.text(), "website": e.text(),
			"phone": e.text(), "employees": e.integer(), "founded": e.integer(), "specialties": e.texts(),
		}, "specialties_count"),
		"headquarters": choose[any](e, nil, record{},
			e.with(record{"city": e.text(), "region": e.text(), "country": nil, "line2": e.text()})),
		"images": choose[any](e, nil, record{"logo": ""}, e.with(record{"logo": e.text(), "cover": e.text()})),
	}, "codehost", "network", "deleted_at")
}
