package finder_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/judge"
	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/websearch"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// identifier returns a finder with the model of descriptions. A nil set suppresses no person.
func (s *store) identifier(set *suppress.Set) *finder.Finder {
	s.t.Helper()
	model, err := evidence.Default()
	require.NoError(s.t, err)
	descriptions, err := evidence.Descriptions()
	require.NoError(s.t, err)
	reader := people.NewReader(s.conn, identity.Default(), people.Config{Suppressed: set})
	s.t.Cleanup(reader.Close)
	return finder.New(reader, model, slog.New(slog.DiscardHandler), time.Now).WithDescriptions(descriptions)
}

// abaras are people of one name among others: the first has three accounts and an address in each form.
func abaras(t *testing.T) *store {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: append(crowd(200),
			`{"profile_id":"p1","username":"juno-abara","full_name":"Juno Abara","headline":"Compiler engineer",`+
				`"location":{"city":"Oslo","country":"Norway"},"codehost_username":"junoa","emails":["Juno@Example.com"],`+
				`"phone_numbers":["+47 555 01 234"],"experience":[{"title":"Compiler engineer","current":true,`+
				`"company":{"name":"Quenlix"}}],"last_updated":"2026-01-01T00:00:00Z"}`,
			`{"profile_id":"p2","username":"juno-abara-2","full_name":"Juno Abara","headline":"Nurse",`+
				`"location":{"city":"Lima","country":"Peru"},"experience":[{"title":"Nurse","current":true,`+
				`"company":{"name":"Harlan Clinic"}}],"last_updated":"2026-01-01T00:00:00Z"}`),
		record.KindCodehostPerson: {
			`{"user_id":1,"codehost_username":"JunoA","full_name":"Juno Abara","bio":"Compilers",` +
				`"network_username":"juno-abara","last_updated":"2026-01-01T00:00:00Z"}`,
			`{"user_id":2,"codehost_username":"abara-gmbh","full_name":"Juno Abara","type":"Organization",` +
				`"emails":["juno@example.com"],"last_updated":"2026-01-01T00:00:00Z"}`},
		record.KindMicroblogPerson: {
			`{"user_id":"m1","username":"juno_writes","name":"Juno Abara","bio":"https://network.example/in/juno-abara",` +
				`"last_updated":"2026-01-01T00:00:00Z"}`},
		record.KindCodehostCommit: {
			`{"user_id":1,"sha":"a1","author_name":"Juno Abara","author_email":"juno@quenlix.example","author_login":"junoa",` +
				`"author_date":"2026-01-01T00:00:00Z","repo":{"full_name":"junoa/x"}}`},
	})
	require.NoError(t, readmodel.BuildAnswers(t.Context(), s.conn, readmodel.Builds{},
		[]readmodel.Touch{{UserID: 1, Offset: 1}, {UserID: 2, Offset: 1}}))
	return s
}

func usernames(m event.PersonMatch) map[string]string {
	out := make(map[string]string)
	for _, a := range m.Accounts {
		out[a.Platform] = a.Username
	}
	return out
}

func TestIdentify_TellsNamesakesApartAndMergesAccounts(t *testing.T) {
	s := abaras(t)
	f := s.identifier(nil)
	juno := map[string]string{"network": "juno-abara", "codehost": "JunoA", "microblog": "juno_writes"}
	nurse := map[string]string{"network": "juno-abara-2"}
	for _, c := range []struct {
		q    event.PersonQuery
		want map[string]string
	}{
		{event.PersonQuery{Name: "Juno Abara", Company: "Quenlix"}, juno},
		{event.PersonQuery{Name: "Abara, Juno", Company: "quenlix ltd", Location: "Oslo"}, juno},
		{event.PersonQuery{Name: "juno abara", Company: "Harlan Clinic", Location: "Lima, Peru"}, nurse},
	} {
		c.q.MinConfidence = event.DiscoveryThreshold
		d := f.Identify(t.Context(), c.q)
		require.Empty(t, d.Degraded)
		require.False(t, d.At.IsZero())
		require.Len(t, d.Matches, 1, "%+v", d.Matches)
		require.Equal(t, c.want, usernames(d.Matches[0]))
		require.Equal(t, "Juno Abara", d.Matches[0].Profile.FullName)
		require.NotEmpty(t, d.Matches[0].Evidence)
		require.LessOrEqual(t, d.Matches[0].Confidence, 0.99)
		for i, a := range d.Matches[0].Accounts {
			require.GreaterOrEqual(t, a.Confidence, 0.9)
			require.Equal(t, i == 0, a.Confidence == 1 && i == 0)
		}
	}
	// Of a name alone, neither is certain, and both are returned if the caller wants them.
	d := f.Identify(t.Context(), event.PersonQuery{Name: "Juno Abara"})
	require.Len(t, d.Matches, 2)
	require.Less(t, d.Matches[0].Confidence+d.Matches[1].Confidence, 1.1)
	d = f.Identify(t.Context(), event.PersonQuery{Name: "Juno Abara", MinConfidence: 0.95})
	require.Empty(t, d.Matches)
	require.True(t, d.BelowConfidence)
	d = f.Identify(t.Context(), event.PersonQuery{Name: "Absent Wyverling"})
	require.Empty(t, d.Matches)
	require.False(t, d.BelowConfidence)
}

func TestIdentify_FindsOwnersOfAddressesAndNumbers(t *testing.T) {
	s := abaras(t)
	f := s.identifier(nil)
	md5Of := func(address string) string {
		sum := md5.Sum([]byte(address))
		return hex.EncodeToString(sum[:])
	}
	sha256Of := func(address string) string {
		sum := sha256.Sum256([]byte(address))
		return hex.EncodeToString(sum[:])
	}
	found := func(q event.PersonQuery) []event.PersonMatch {
		t.Helper()
		q.MinConfidence = event.DiscoveryThreshold
		d := f.Identify(t.Context(), q)
		require.Empty(t, d.Degraded)
		return d.Matches
	}
	for name, q := range map[string]event.PersonQuery{
		"address":                   {Email: "juno@example.com"},
		"SHA-256":                   {EmailHash: sha256Of("juno@example.com")},
		"MD5":                       {EmailHash: md5Of("juno@example.com")},
		"address of commits":        {Email: "juno@quenlix.example"},
		"SHA-256 of commits":        {EmailHash: sha256Of("juno@quenlix.example")},
		"MD5 of commits":            {EmailHash: md5Of("juno@quenlix.example")},
		"no-reply address with ID":  {Email: "1+old-name@users.noreply.codehost.example"},
		"no-reply address":          {Email: "junoa@users.noreply.codehost.example"},
		"phone number":              {Phone: "4755501234"},
		"name and another's number": {Name: "Juno Abara", Company: "Quenlix", Phone: "4755509999"},
	} {
		matches := found(q)
		require.Len(t, matches, 1, name)
		require.Equal(t, "juno-abara", usernames(matches[0])["network"], name)
		require.Equal(t, "JunoA", usernames(matches[0])["codehost"], name)
	}
	require.Empty(t, found(event.PersonQuery{EmailHash: md5Of("ola@example.com")}))
	require.Empty(t, found(event.PersonQuery{Email: "9+other@users.noreply.codehost.example"}))

	// The lookups of an address and a number that are no longer the person's are stale.
	s.insert(map[record.Kind][]string{record.KindNetworkPerson: {
		`{"profile_id":"p1","username":"juno-abara","full_name":"Juno Abara","last_updated":"2026-02-01T00:00:00Z",` +
			`"experience":[{"title":"Engineer","company":{"name":"Quenlix","phone":"+47 555 01 234"}}]}`}})
	for _, q := range []event.PersonQuery{
		{Email: "juno@example.com"}, {EmailHash: sha256Of("juno@example.com")}, {EmailHash: md5Of("juno@example.com")},
		{Phone: "4755501234"},
	} {
		require.Empty(t, found(q))
	}
}

// Double surnames recur, as in families. The pair of surnames is a key that several people have, but no namesakes.
func TestIdentify_IsCertainOfARareNameAmongRecurringDoubleSurnames(t *testing.T) {
	s := newStore(t)
	profiles := []string{`{"profile_id":"q","username":"zeno-quarn","full_name":"Zeno Quarn",` +
		`"last_updated":"2026-01-01T00:00:00Z"}`}
	letters := func(n int) string { return string([]byte{byte('a' + n%26), byte('a' + n/26%26), byte('a' + n/676)}) }
	for i := range 800 {
		profiles = append(profiles, fmt.Sprintf(`{"profile_id":"p%d","username":"u%d",`+
			`"full_name":"G%s Mor%s Sty%s","last_updated":"2026-01-01T00:00:00Z"}`, i, i, letters(i), letters(i/2),
			letters(i/2)))
	}
	s.insert(map[record.Kind][]string{record.KindNetworkPerson: profiles})
	reader := people.NewReader(s.conn, identity.Default(), people.Config{})
	t.Cleanup(reader.Close)
	counts, err := reader.Population(t.Context())
	require.NoError(t, err)
	holders := make(map[string]uint64)
	for _, n := range counts.Names {
		holders[n.Key] = n.Holders
	}
	require.EqualValues(t, 1, holders["quarn zeno"])
	require.EqualValues(t, 1, holders["gaaa styaaa"], "given and family name")
	require.NotContains(t, holders, "gaaa moraaa", "parts of a longer name")
	require.NotContains(t, holders, "moraaa styaaa")

	d := s.identifier(nil).Identify(t.Context(), event.PersonQuery{Name: "Zeno Quarn"})
	require.Len(t, d.Matches, 1)
	require.Greater(t, d.Matches[0].Confidence, 0.9)
}

// A name that many share does not make the owner of an address less likely.
func TestIdentify_NamesakesDoNotCompeteWithTheOwnerOfAnAddress(t *testing.T) {
	s := newStore(t)
	profiles := crowd(300)
	for i := range 30 {
		email := ""
		if i == 7 {
			email = `"personal_email":"juno@post.example",`
		}
		profiles = append(profiles, fmt.Sprintf(`{"profile_id":"n%d","username":"juno-%d","full_name":"Juno Abara",%s`+
			`"last_updated":"2026-01-01T00:00:00Z"}`, i, i, email))
	}
	s.insert(map[record.Kind][]string{record.KindNetworkPerson: profiles})
	best := func(q event.PersonQuery) event.PersonMatch {
		t.Helper()
		d := s.identifier(nil).Identify(t.Context(), q)
		require.NotEmpty(t, d.Matches)
		require.Equal(t, "juno-7", usernames(d.Matches[0])["network"])
		sum := 0.0
		for _, m := range d.Matches {
			sum += m.Raw
		}
		require.LessOrEqual(t, sum, 1.001, "at most one person is right")
		return d.Matches[0]
	}
	alone := best(event.PersonQuery{Email: "juno@post.example"})
	named := best(event.PersonQuery{Email: "juno@post.example", Name: "Juno Abara"})
	require.GreaterOrEqual(t, named.Confidence, alone.Confidence)
	other := best(event.PersonQuery{Email: "juno@post.example", Name: "Zeno Quarn"})
	require.Less(t, other.Confidence, named.Confidence)
}

func TestIdentify_LeavesOutErasedPeople(t *testing.T) {
	s := abaras(t)
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := s.identifier(set)
	erase := func(kind suppress.Type, value string) {
		t.Helper()
		entry, err := json.Marshal(suppress.Entry{Type: kind, Scope: suppress.All,
			RequestedAt: "2026-11-21T00:00:00Z", Key: set.Key().ID()})
		require.NoError(t, err)
		require.NoError(t, set.Apply([]byte(set.Key().Of(kind, value).String()), entry))
	}
	hash := sha256.Sum256([]byte("juno@example.com"))
	queries := []event.PersonQuery{
		{Name: "Juno Abara", Company: "Quenlix"}, {Email: "juno@example.com"}, {EmailHash: hex.EncodeToString(hash[:])},
		{Phone: "4755501234"},
	}
	for _, q := range queries {
		q.MinConfidence = event.DiscoveryThreshold
		require.Len(t, f.Identify(t.Context(), q).Matches, 1)
	}
	erase(suppress.Email, "juno@quenlix.example")
	require.Empty(t, f.Identify(t.Context(), event.PersonQuery{Email: "juno@quenlix.example"}).Matches)
	erase(suppress.ProfileID, "p1")
	erase(suppress.UserID, "1")
	for _, q := range queries {
		for _, m := range f.Identify(t.Context(), q).Matches {
			require.NotContains(t, usernames(m), "codehost")
			require.NotEqual(t, "juno-abara", usernames(m)["network"])
		}
	}
}

// skeptic is a language model that always answers "another person".
type skeptic struct{}

func (skeptic) Name() string { return "skeptic" }

func (skeptic) Ask(_ context.Context, q judge.Question) ([]float64, error) {
	return make([]float64, len(q.Candidates)), nil
}

func TestIdentify_ProvidersOnlyLowerAndTheirFailureIsNamed(t *testing.T) {
	s := abaras(t)
	q := event.PersonQuery{Name: "Juno Abara", Company: "Quenlix"}
	plain := s.identifier(nil).Identify(t.Context(), q)
	flattered := s.identifier(nil).WithProviders(finder.Providers{Judge: flatterer{}}).Identify(t.Context(), q)
	require.LessOrEqual(t, flattered.Matches[0].Confidence, plain.Matches[0].Confidence)
	doubted := s.identifier(nil).WithProviders(finder.Providers{Judge: skeptic{}, JudgeVersion: "v"}).
		Identify(t.Context(), q)
	require.Less(t, doubted.Matches[0].Confidence, plain.Matches[0].Confidence)
	require.Equal(t, "v", doubted.Versions[event.StageLanguageModel])

	web := websearch.New([]websearch.Service{failingSearch{}}, identity.Default())
	degraded := s.identifier(nil).WithProviders(finder.Providers{Web: web}).
		Identify(t.Context(), event.PersonQuery{Name: "Juno Abara"})
	require.Equal(t, []string{event.StageWebSearch}, degraded.Degraded)
	require.Len(t, degraded.Matches, 2)
}

type failingSearch struct{}

func (failingSearch) Name() string { return "failing" }

func (failingSearch) Ask(context.Context, websearch.Query) ([]websearch.Result, error) {
	return nil, errors.New("down")
}
