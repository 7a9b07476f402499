package e2e_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

var both = []string{"codehost", "network"}

// Each identifier in the truth file finds its holder, and the response has the fields that MAPPING.md derives from the
// files.
func TestAnswers_EqualTheOracle(t *testing.T) {
	t.Parallel()
	people := 20_000
	if testing.Short() {
		people = 400
	}
	people = number(t, "MUSTER_E2E_PEOPLE", people)
	drawn := seed(t)
	rng := rand.New(rand.NewPCG(drawn, 1))

	dir := generate(t, people, drawn)
	p := start(t, newDataDir(t), "--no-sample")
	ingestAll(t, p, dir)
	store, tr := load(t, dir), readTruth(t, dir)
	c := newChecker(p, store)
	require.Greater(t, len(tr.handles["network"]), people/2)

	network, codehost := askedHandles(tr.handles["network"]), askedHandles(tr.handles["codehost"])
	numeric := map[string]bool{}
	for _, id := range slices.Concat(tr.identities["codehost"], tr.withdrawn["codehost"]) {
		numeric[id] = true
	}
	for i := range codehost { // digits are first a user ID, whatever the truth file has
		codehost[i].known = !numeric[codehost[i].identifier]
	}

	t.Run("network webset", func(t *testing.T) {
		check(t, c, listCallers, batches(network), c.network)
		// A sample of a third, with each combination of add-ons.
		rng.Shuffle(len(network), func(a, b int) { network[a], network[b] = network[b], network[a] })
		part := network[:len(network)/3]
		check(t, c, listCallers, batches(part, "codehost", "personal_email"), c.network)
		check(t, c, listCallers,
			slices.Concat(batches(part[:len(part)/2], "codehost"), batches(part[len(part)/2:], "personal_email")),
			c.network)
	})
	t.Run("codehost webset", func(t *testing.T) {
		ids := slices.Concat(askedIDs(tr.identities["codehost"], true), askedIDs(tr.withdrawn["codehost"], false))
		check(t, c, listCallers, slices.Concat(batches(codehost, "network"), batches(ids)), c.codehost)
	})
	t.Run("must_have", func(t *testing.T) { mustHave(t, c, rng, 40, network, codehost) })
	t.Run("one record", func(t *testing.T) { oneRecord(t, c, rng, network, codehost) })
	t.Run("person enrichment", func(t *testing.T) { enrich(t, c, rng, tr, network, codehost) })
	t.Run("companies", func(t *testing.T) { companies(t, c, tr) })
	t.Run("spellings", func(t *testing.T) { spellings(t, c, rng, tr) })
	t.Run("edges", func(t *testing.T) { edgeAnswers(t, p, drawn) })
	p.stop(t)
}

// enrich requests every email address, with one choice of websets each, and a sample of the other identifiers: the
// webset tests cover every name.
func enrich(t *testing.T, c *checker, rng *rand.Rand, tr truth, network, codehost []asked) {
	t.Helper()
	var requests []oracle.PersonRequest
	for i, e := range tr.emails {
		// The truth does not know the addresses of commits.
		if a := c.store.AccountByEmail(e.address); !c.store.IsOrganization(e.codehost) && !c.store.HasByCommit(a, e.address) {
			require.Equal(t, e.codehost, accountID(a), "truth file and oracle")
		}
		require.Equal(t, e.network, profileID(c.store.ProfileByEmail(e.address)), "truth file and oracle")
		requests = append(requests,
			oracle.PersonRequest{Email: e.address, Websets: [][]string{both, {"network"}, {"codehost"}}[i%3]})
	}
	any1 := func() oracle.PersonRequest {
		n, h, e := network[rng.IntN(len(network))].identifier, codehost[rng.IntN(len(codehost))].identifier,
			tr.emails[rng.IntN(len(tr.emails))].address
		switch rng.IntN(8) {
		case 0:
			return oracle.PersonRequest{Codehost: h, NetworkUsername: n, Email: e}
		case 1:
			return oracle.PersonRequest{Codehost: "missing-" + h, NetworkUsername: n, Email: e}
		case 2:
			return oracle.PersonRequest{NetworkUsername: "missing-" + n, Email: strings.ToUpper(e)}
		case 3:
			return oracle.PersonRequest{Email: e}
		case 4, 5:
			return oracle.PersonRequest{NetworkUsername: n}
		default:
			return oracle.PersonRequest{Codehost: h}
		}
	}
	for range len(network) / 8 {
		r := any1()
		r.Websets = [][]string{nil, {"network"}, {"codehost"}, both, both, {"network", "codehost"}}[rng.IntN(6)]
		requests = append(requests, r)
	}
	check(t, c, callers, requests, c.person)
}

func oneRecord(t *testing.T, c *checker, rng *rand.Rand, network, codehost []asked) {
	t.Helper()
	const questions = 200
	var jobs []webset
	for range questions {
		w := webset{identifiers: []asked{network[rng.IntN(len(network))]},
			addons: [][]string{nil, {"codehost"}, {"personal_email", "codehost"}}[rng.IntN(3)]}
		if rng.IntN(3) == 0 {
			w.mustHave = []string{"codehost", "certifications"}
		}
		jobs = append(jobs, w)
	}
	check(t, c, callers, jobs, func(ctx context.Context, w webset) error { return c.one(ctx, "network", w) })
	jobs = nil
	for range questions {
		w := webset{identifiers: []asked{codehost[rng.IntN(len(codehost))]},
			addons: [][]string{nil, {"network"}}[rng.IntN(2)]}
		if rng.IntN(3) == 0 {
			w.mustHave = []string{"network", "repos", "school_email"}
		}
		jobs = append(jobs, w)
	}
	check(t, c, callers, jobs, func(ctx context.Context, w webset) error { return c.one(ctx, "codehost", w) })
}

// edgeAnswers compares records that are rare in a crawl with MAPPING.md.
func edgeAnswers(t *testing.T, p *platform, drawn uint64) {
	t.Helper()
	const n = 150
	dir := filepath.Join(t.TempDir(), "edges")
	writeEdges(t, dir, n, drawn)
	ingestAll(t, p, dir)
	store := load(t, dir)
	c := newChecker(p, store)
	rng := rand.New(rand.NewPCG(drawn, 3))

	var network, codehost []asked
	var requests []oracle.PersonRequest
	type question struct {
		body map[string]string
		want *oracle.Company
	}
	var questions []question
	for i := range n {
		network = append(network, asked{identifier: edgeNetwork(i)})
		codehost = append(codehost, asked{identifier: edgeCodehost(i)})
		requests = append(requests, oracle.PersonRequest{NetworkUsername: edgeNetwork(i), Websets: both},
			oracle.PersonRequest{Codehost: edgeCodehost(i), Websets: both})
		questions = append(questions,
			question{map[string]string{"network_slug": edgeSlug(i)}, store.CompanyBySlug(edgeSlug(i))})
	}
	for _, addons := range [][]string{nil, {"codehost"}, {"personal_email"}, {"codehost", "personal_email"}} {
		check(t, c, listCallers, batches(network, addons...), c.network)
	}
	check(t, c, listCallers, batches(codehost, "network"), c.codehost)
	mustHave(t, c, rng, 25, network, codehost)
	check(t, c, callers, requests, c.person)
	check(t, c, callers, questions,
		func(ctx context.Context, q question) error { return c.company(ctx, q.body, q.want) })
}

func askedHandles(handles []handle) []asked {
	var out []asked
	for _, h := range handles {
		out = append(out, asked{h.name, h.holder, true})
	}
	return out
}

// askedIDs returns requests by identity.
func askedIDs(ids []string, exist bool) []asked {
	var out []asked
	for _, id := range ids {
		a := asked{identifier: id, identity: id, known: exist}
		out = append(out, a)
	}
	return out
}

func mustHave(t *testing.T, c *checker, rng *rand.Rand, size int, network, codehost []asked) {
	t.Helper()
	sample := func(ids []asked) []asked {
		out := make([]asked, 0, size)
		for range size {
			out = append(out, ids[rng.IntN(len(ids))])
		}
		return out
	}
	draw := func(names []string) [][]string {
		var out [][]string
		for _, n := range names {
			out = append(out, []string{n}, []string{n, names[rng.IntN(len(names))]})
		}
		return out
	}
	var jobs []webset
	for _, names := range draw(networkMustHave) {
		w := webset{identifiers: sample(network), mustHave: names}
		if slices.Contains(names, "personal_email") {
			w.addons = []string{"personal_email"}
		}
		jobs = append(jobs, w)
	}
	check(t, c, listCallers, jobs, c.network)
	jobs = nil
	for _, names := range draw(codehostMustHave) {
		jobs = append(jobs, webset{identifiers: sample(codehost), mustHave: names})
	}
	check(t, c, listCallers, jobs, c.codehost)
}

// The names in MAPPING.md, section 8.
var (
	networkMustHave = []string{
		"profile_id", "username", "first_name", "middle_name", "last_name", "full_name", "url", "photo", "headline",
		"summary", "location",
		"connections", "followers", "following", "current_position", "experience", "education", "certifications",
		"languages", "skills",
		"codehost_username", "microblog_username", "social_accounts", "last_updated", "personal_email", "codehost",
	}
	codehostMustHave = []string{
		"user_id", "codehost_username", "type", "first_name", "last_name", "full_name", "personal_email",
		"school_email", "additional_emails",
		"emails", "avatar_url", "url", "bio", "blog", "personal_website", "location", "location_canonical", "company",
		"hireable", "followers",
		"following", "public_repos", "public_gists", "created_at", "updated_at", "repo_languages", "commit_count",
		"social_accounts",
		"network_username", "microblog_username", "starred_repos", "issues", "follower_accounts", "followed_accounts",
		"last_updated",
		"repos", "commits", "network",
	}
)

func companies(t *testing.T, c *checker, tr truth) {
	t.Helper()
	type question struct {
		body map[string]string
		want *oracle.Company
	}
	var questions []question
	for _, h := range tr.handles[oracle.NetworkCompany] {
		want := c.store.CompanyBySlug(h.name)
		holder := ""
		if want != nil {
			holder = want.ID
		}
		require.Equal(t, h.holder, holder, "slug %q: truth file and oracle", h.name)
		questions = append(questions,
			question{map[string]string{"network_slug": h.name}, want},
			question{map[string]string{"network_url": "https://www.network.example/company/" + h.name + "/"}, want})
	}
	for _, id := range tr.identities[oracle.NetworkCompany] {
		want := c.store.CompanyByID(id)
		require.NotNil(t, want, id)
		questions = append(questions, question{map[string]string{"company_id": id}, want})
		if networkID := tr.networkIDs[id]; networkID != "" {
			questions = append(questions,
				question{map[string]string{"network_id": networkID}, c.store.CompanyByNetworkID(networkID)})
		}
	}
	for _, id := range tr.withdrawn[oracle.NetworkCompany] {
		questions = append(questions, question{map[string]string{"company_id": id}, nil})
	}
	require.Greater(t, len(questions), 100)
	check(t, c, callers, questions,
		func(ctx context.Context, q question) error { return c.company(ctx, q.body, q.want) })
}
