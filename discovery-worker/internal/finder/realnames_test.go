package finder_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/judge"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// networkPerson returns a profile of the network.
func networkPerson(id, username, name string) string {
	return fmt.Sprintf(`{"profile_id":%q,"username":%q,"full_name":%q,"last_updated":"2026-01-01T00:00:00Z"}`, id,
		username, name)
}

// account returns an account of the code host, without a name if it is empty.
func account(id int, username, name string) string {
	if name == "" {
		return fmt.Sprintf(`{"user_id":%d,"codehost_username":%q,"last_updated":"2026-01-01T00:00:00Z"}`, id, username)
	}
	return fmt.Sprintf(`{"user_id":%d,"codehost_username":%q,"full_name":%q,"last_updated":"2026-01-01T00:00:00Z"}`, id,
		username, name)
}

// crowd returns profiles of people with other names, so that names in the store are neither all rare nor all common.
func crowd(n int) (list []string) {
	for i := range n {
		list = append(list, networkPerson(fmt.Sprintf("crowd%d", i), fmt.Sprintf("crowd-%d", i),
			fmt.Sprintf("Given%c Family%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i%7)))
	}
	return list
}

// foundOn returns the username that is found for an account of the code host, and its social.
func foundOn(t *testing.T, s *store, username string) (string, *event.Social) {
	t.Helper()
	return foundBy(t, s.finder(), username)
}

// foundBy is foundOn with a finder.
func foundBy(t *testing.T, f *finder.Finder, username string) (string, *event.Social) {
	t.Helper()
	d := f.Find(t.Context(), event.Account{Platform: identity.Codehost, Username: username})
	require.Empty(t, d.Degraded)
	for _, p := range d.Socials[1:] {
		if p.Platform == identity.Network {
			return p.Username, &p
		}
	}
	return "", nil
}

func TestFind_NamesInOtherForms(t *testing.T) {
	names := [][2]string{
		{"Costa Ana Silvan", "Ana Silvan Costa"},
		{"Brenka Lindoval Harkesh", "Brenka Harkesh"},
		{"Karl van der Quarn", "Karl Vanderquarn"},
		{"欧阳铭铎", "Mingduo Ouyang"},
		{"남궁혁찬", "Hyukchan Namgung"},
		{"Odrin Müllenrath", "Odrin Muellenrath"},
	}
	s := newStore(t)
	records := map[record.Kind][]string{record.KindNetworkPerson: crowd(300)}
	for i, n := range names {
		records[record.KindNetworkPerson] = append(records[record.KindNetworkPerson],
			networkPerson(fmt.Sprintf("p%d", i), fmt.Sprintf("profile-%c", 'a'+i), n[1]))
		records[record.KindCodehostPerson] = append(records[record.KindCodehostPerson],
			account(i+1, fmt.Sprintf("quiet%c", 'a'+i), n[0]))
	}
	s.insert(records)
	for i, n := range names {
		found, p := foundOn(t, s, fmt.Sprintf("quiet%c", 'a'+i))
		require.Equal(t, fmt.Sprintf("profile-%c", 'a'+i), found, n)
		require.Greater(t, p.Confidence, 0.6, n)
	}
}

func TestFind_NamelessAccountHasTheNamesOfItsCommits(t *testing.T) {
	commit := func(user int, sha, login, name string) string {
		return fmt.Sprintf(`{"user_id":%d,"sha":%q,"author_name":%q,"author_login":%q,"author_date":"2026-01-01"}`,
			user, sha, name, login)
	}
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: append(crowd(300), networkPerson("p1", "profile-a", "Patrix Kwangmor"),
			networkPerson("p2", "profile-b", "Selwa Trevanik")),
		record.KindCodehostPerson: {account(1, "quietotter", ""), account(2, "loudbadger", ""),
			account(3, "selwacodes", "")},
		record.KindCodehostCommit: {
			commit(1, "a1", "QuietOtter", "Patrix Kwangmor"), commit(1, "a2", "", "quietotter"),
			commit(2, "b1", "quietotter", "Patrix Kwangmor"), // of another account
		},
	})
	found, p := foundOn(t, s, "quietotter")
	require.Equal(t, "profile-a", found)
	require.Greater(t, p.Confidence, 0.6)
	found, _ = foundOn(t, s, "loudbadger")
	require.Empty(t, found, "the commit's author is another account")
	found, _ = foundOn(t, s, "selwacodes")
	require.Empty(t, found, "a given name is no name")
}

// Of two accounts with one name, the profile is that of the one whose username it has; the search back from it finds
// the other one.
func TestFind_SearchBackMustReturnTheInput(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: append(crowd(300), networkPerson("p1", "quiet-otter-of-varn", "Patrix Kwangmor")),
		record.KindCodehostPerson: {account(1, "quietotterofvarn", "Patrix Kwangmor"),
			account(2, "loudbadger", "Patrix Kwangmor")},
	})
	found, p := foundOn(t, s, "quietotterofvarn")
	require.Equal(t, "quiet-otter-of-varn", found)
	require.Contains(t, p.Evidence, event.Evidence{Kind: "reverse", Finding: "input",
		Weight: weightOf(p.Evidence, "reverse")})
	found, _ = foundOn(t, s, "loudbadger")
	require.Empty(t, found)
}

// A language model that is sure of everything changes nothing that the search back has found.
func TestFind_SearchBackHoldsWhateverTheLanguageModelSays(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: append(crowd(300), networkPerson("p1", "quiet-otter-of-varn", "Patrix Kwangmor")),
		record.KindCodehostPerson: {account(1, "quietotterofvarn", "Patrix Kwangmor"),
			account(2, "loudbadger", "Patrix Kwangmor")},
	})
	sure := s.finder().WithProviders(finder.Providers{Judge: sureJudge{}, JudgeVersion: "sure"})
	_, before := foundOn(t, s, "quietotterofvarn")
	found, after := foundBy(t, sure, "quietotterofvarn")
	require.Equal(t, "quiet-otter-of-varn", found)
	require.LessOrEqual(t, after.Confidence, before.Confidence)
	require.NotZero(t, weightOf(after.Evidence, "reverse"))
	found, _ = foundBy(t, sure, "loudbadger")
	require.Empty(t, found)
}

// sureJudge says that every candidate is the same person.
type sureJudge struct{}

func (sureJudge) Name() string { return "sure" }

func (sureJudge) Ask(_ context.Context, q judge.Question) ([]float64, error) {
	return slices.Repeat([]float64{0.98}, len(q.Candidates)), nil
}

func weightOf(list []event.Evidence, kind string) float64 {
	for _, e := range list {
		if e.Kind == kind {
			return e.Weight
		}
	}
	return 0
}

// With a lower prevalence or coverage the same pair is less certain, and evidence says why.
func TestFind_PriorIsExplainedAndSettable(t *testing.T) {
	s := newStore(t)
	s.insert(map[record.Kind][]string{
		record.KindNetworkPerson: append(crowd(300), networkPerson("p1", "profile-a", "Patrix Kwangmor")),
		record.KindCodehostPerson: {account(1, "quietotter", "Patrix Kwangmor"),
			`{"user_id":2,"codehost_username":"x2","network_username":"crowd-1","last_updated":"2026-01-01T00:00:00Z"}`,
			`{"user_id":3,"codehost_username":"x3","network_username":"absent","last_updated":"2026-01-01T00:00:00Z"}`},
	})
	input := event.Account{Platform: identity.Codehost, Username: "quietotter"}
	confidence := func(prior evidence.Prior, finding string) float64 {
		_, ranked := s.finder().WithPrior(prior).Explain(t.Context(), input)
		for _, c := range ranked {
			if c.Platform == identity.Network {
				require.NotEmpty(t, c.Candidates)
				model, err := evidence.Default()
				require.NoError(t, err)
				reasons := model.Reasons(c.Candidates[0])
				last := reasons[len(reasons)-1]
				require.Equal(t, "prior", last.Kind)
				require.Equal(t, finding, last.Finding)
				return c.Candidates[0].Raw
			}
		}
		return 0
	}
	usual := confidence(evidence.Prior{}, "coverage 0.50, prevalence 0.50") // one of two declared accounts is stored
	rare := confidence(evidence.Prior{Prevalence: 0.05}, "coverage 0.50, prevalence 0.05")
	sparse := confidence(evidence.Prior{Coverage: map[string]float64{identity.Network: 0.01}},
		"coverage 0.01, prevalence 0.50")
	require.Less(t, rare, usual)
	require.Less(t, sparse, rare)
}
