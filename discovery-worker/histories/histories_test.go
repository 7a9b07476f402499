package histories_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/histories"
	"muster/discovery-worker/histories/historiestest"
	"muster/schemas/identity"
	"muster/schemas/record"
)

func options() histories.Options {
	return histories.Options{Seed: 1, Missing: 0, Population: 1, Calls: 1000}
}

// build builds from one repository without resampled profiles.
func build(t *testing.T, o histories.Options, mailmap string, authors ...historiestest.Author) *histories.Data {
	t.Helper()
	dir := t.TempDir()
	historiestest.Repository(t, filepath.Join(dir, "project.git"), mailmap, authors...)
	people, err := histories.Read(t.Context(), dir)
	require.NoError(t, err)
	data, err := people.Build(o)
	require.NoError(t, err)
	return data
}

// objects returns the records of a kind.
func objects(t *testing.T, data *histories.Data, kind record.Kind) (list []map[string]any) {
	t.Helper()
	for _, r := range data.Records {
		decoded, err := record.Decode(r.Kind, r.JSON)
		require.NoError(t, err, "records are valid: %v", decoded)
		if r.Kind == kind {
			var o map[string]any
			require.NoError(t, json.Unmarshal(r.JSON, &o))
			list = append(list, o)
		}
	}
	return list
}

// .mailmap, a common address and the account ID join the addresses of a person.
func TestBuild_JoinsAddressesOfAPerson(t *testing.T) {
	data := build(t, options(), "Karlon Goezbacht <karlon@mail.example> <k@old.example>",
		historiestest.Author{Name: "karl", Addresses: []string{
			"7+karlg@users.noreply.codehost.example", "7+karl-new@users.noreply.codehost.example"}},
		historiestest.Author{Name: "Karlon Goezbacht",
			Addresses: []string{"karlon@mail.example", "7+karl-new@users.noreply.codehost.example"}},
		historiestest.Author{Name: "K. G.", Addresses: []string{"k@old.example"}},
		historiestest.Author{Name: "pin[bot]", Addresses: []string{"9+pin[bot]@users.noreply.codehost.example"}},
	)
	require.Equal(t, 1, data.Accounts)
	require.Len(t, data.Questions, 1)
	require.Equal(t, "karl-new", data.Questions[0].Username, "the newest username")
	profiles := objects(t, data, record.KindNetworkPerson)
	require.Len(t, profiles, 1)
	require.Contains(t, []string{"Karlon Goezbacht", "K. G."}, profiles[0]["full_name"])
	require.Equal(t, profiles[0]["username"], data.Questions[0].Profile)
	require.NotContains(t, profiles[0], "emails")
	for _, c := range objects(t, data, record.KindCodehostCommit) {
		require.Contains(t, c["author_email"], "users.noreply.", "the other side's addresses stay there")
	}
}

func TestRead_UsesTheMailmapOfACheckout(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	repository := filepath.Join(dir, "project", ".git")
	historiestest.Repository(t, repository,
		"Karlon Goezbacht <karlon@mail.example> <7+karl@users.noreply.codehost.example>", historiestest.Author{Name: "karl", Addresses: []string{"7+karl@users.noreply.codehost.example"}})
	config := filepath.Join(repository, "config")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.Contains(t, string(text), "bare = true")
	text = bytes.Replace(text, []byte("bare = true"), []byte("bare = false"), 1)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(other, ".mailmap"),
		[]byte("Morvin Styk <m@mail.example> <7+karl@users.noreply.codehost.example>"), 0o600))
	t.Chdir(other)
	people, err := histories.Read(t.Context(), dir)
	require.NoError(t, err)
	data, err := people.Build(options())
	require.NoError(t, err)
	profiles := objects(t, data, record.KindNetworkPerson)
	require.Len(t, profiles, 1)
	require.Equal(t, "Karlon Goezbacht", profiles[0]["full_name"])
}

func TestBuild_LeavesOutPeopleWithSeveralAccounts(t *testing.T) {
	data := build(t, options(), "",
		historiestest.Author{Name: "Karlon Goezbacht", Addresses: []string{"7+karl@users.noreply.codehost.example"}},
		historiestest.Author{Name: "Morvin Styk", Addresses: []string{"8+styk@users.noreply.codehost.example",
			"9+morvin@users.noreply.codehost.example"}})
	require.Equal(t, 3, data.Accounts, "without .mailmap they are different people")

	data = build(t, options(), "Morvin Styk <m@mail.example> <8+styk@users.noreply.codehost.example>\n"+
		"Morvin Styk <m@mail.example> <9+morvin@users.noreply.codehost.example>",
		historiestest.Author{Name: "Karlon Goezbacht", Addresses: []string{"7+karl@users.noreply.codehost.example"}},
		historiestest.Author{Name: "Morvin Styk", Addresses: []string{"8+styk@users.noreply.codehost.example",
			"9+morvin@users.noreply.codehost.example"}})
	require.Equal(t, 1, data.Accounts)
	require.Equal(t, 1, data.Ambiguous)
}

func TestBuild_FurtherProfilesRepeatTheSettableShareOfNames(t *testing.T) {
	crowd := historiestest.Crowd(36)
	authors := make(map[any]bool)
	for _, author := range crowd {
		authors[author.Name] = true
	}
	others := func(share float64) (n float64) {
		o := options()
		o.Population, o.Repeated = 11, share
		for _, p := range objects(t, build(t, o, historiestest.Mailmap(crowd), crowd...), record.KindNetworkPerson) {
			if !authors[p["full_name"]] {
				n++
			}
		}
		return n
	}
	all := others(0)
	require.Greater(t, all, 100.0)
	require.InEpsilon(t, all/2, others(0.5), 0.2)
	require.Zero(t, others(1))
}

func TestBuild_SharesAreAsDocumented(t *testing.T) {
	const n = 600
	o := options()
	o.Missing, o.Population = 0.5, 3
	crowd := historiestest.Crowd(n)
	data := build(t, o, historiestest.Mailmap(crowd), crowd...)
	accounts, profiles := objects(t, data, record.KindCodehostPerson), objects(t, data, record.KindNetworkPerson)
	require.Len(t, accounts, n)
	require.Equal(t, data.Profiles, len(profiles))
	require.InDelta(t, 2.5*n, len(profiles), 0.15*n, "two resampled ones, and half of the own")
	named, declares, employed := 0, 0, 0
	for _, a := range accounts {
		if a["full_name"] != nil {
			named++
		}
		if a["network_username"] != nil {
			declares++
		}
	}
	for _, p := range profiles {
		if p["experience"] != nil {
			employed++
		}
	}
	require.InDelta(t, 2.0/3, float64(named)/n, 0.06)
	require.InDelta(t, 1.0/5*5/6, float64(declares)/n, 0.06, "also links to a profile that is left out")
	require.InDelta(t, 1.0/3, float64(employed)/float64(len(profiles)), 0.06)
	total := 0
	for _, class := range histories.Classes() {
		total += data.Sizes[class]
	}
	require.Equal(t, n, total)
	for _, q := range data.Questions {
		switch q.Class {
		case histories.NoProfile, histories.NoProfileNamesake:
			require.Empty(t, q.Profile)
		case histories.Linked:
			require.NotEmpty(t, q.Profile)
		default:
			require.NotEmpty(t, q.ProfileID)
		}
	}
}

func TestBuild_IsRepeatable(t *testing.T) {
	dir := t.TempDir()
	historiestest.Repository(t, filepath.Join(dir, "a", "one.git"), "", historiestest.Crowd(30)...)
	historiestest.Repository(t, filepath.Join(dir, "two.git"), "", historiestest.Crowd(40)[20:]...)
	var texts []string
	for range 2 {
		people, err := histories.Read(t.Context(), dir)
		require.NoError(t, err)
		data, err := people.Build(histories.Options{Seed: 4, Missing: 0.3, Population: 5, Calls: 20})
		require.NoError(t, err)
		require.Equal(t, 2, data.Repositories)
		require.LessOrEqual(t, len(data.Questions), 20)
		text, err := json.Marshal(data, json.Deterministic(true))
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	require.Equal(t, texts[0], texts[1])
}

func TestRead_NamesWhatIsWrong(t *testing.T) {
	_, err := histories.Read(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "no git repository in")
	_, err = histories.Read(t.Context(), filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "find repositories")

	dir := t.TempDir()
	historiestest.Repository(t, filepath.Join(dir, "p.git"), "", historiestest.Author{Name: "Karlon",
		Addresses: []string{"k@mail.example", "not an address", "7+k@users.noreply.codehost.example"}})
	people, err := histories.Read(t.Context(), dir)
	require.NoError(t, err)
	_, err = people.Build(options())
	require.ErrorContains(t, err, "no author has a no-reply address with an account ID, and a full name")
	for _, o := range []histories.Options{{Population: 1}, {Population: 0.5, Calls: 1},
		{Population: 1, Calls: 1, Missing: 1.5}, {Population: 1, Calls: 1, Missing: math.NaN()},
		{Population: math.NaN(), Calls: 1}, {Population: 1, Calls: 1, Repeated: -0.1},
		{Population: 1, Calls: 1, Repeated: math.NaN()}} {
		_, err = people.Build(o)
		require.ErrorContains(t, err, "the shares of missing profiles and of repeated names are from 0 to 1")
	}
}

// Of some names one word remains in a combination with another one: identification would refuse it.
func TestBuild_DescriptionsAreValidQueriesOfAuthorsAndSyntheticPeople(t *testing.T) {
	crowd := historiestest.Crowd(60)
	for i := range 20 {
		crowd[i].Name = "Dr " + crowd[i].Name
		crowd[20+i].Name = crowd[20+i].Name[:1] + ". (Bo) " + crowd[20+i].Name
	}
	o := options()
	o.Missing = 0.4
	data := build(t, o, historiestest.Mailmap(crowd), crowd...)
	given, synthetic := make(map[string]int), make(map[string]int)
	for _, d := range data.Descriptions {
		q := d.Query
		require.True(t, q.IsSelective())
		require.True(t, q.Email != "" || len(identity.NameBlockingKeys(q.Name)) > 0, q.Name)
		given[d.Given]++
		if d.Username == "" {
			synthetic[d.Given]++
			require.Empty(t, d.Profile)
		}
		require.True(t, d.Score(0.5, d.Username, "another").Right == (d.Username != ""))
		require.False(t, d.Score(0.5, "", "").Right)
	}
	for _, each := range []string{"name", "name, company", "name, location", "name, title", "name, company, location"} {
		require.NotZero(t, synthetic[each], each)
		require.Less(t, synthetic[each], given[each], each)
	}
	require.Equal(t, 60, given["e-mail"])
	require.Equal(t, 60, given["name, e-mail"])
	require.Zero(t, given["e-mail hash"])
	o.Calls = 25
	require.Len(t, build(t, o, "", crowd...).Descriptions, 25)
}

// The classes are weighted by their sizes, not by the numbers of calls.
func TestSummarize_WeighsClasses(t *testing.T) {
	answer := func(class histories.Class, profile, found string, confidence float64) histories.Outcome {
		return histories.Outcome{Question: histories.Question{Profile: profile, Class: class}, Found: found,
			Confidence: confidence, Took: time.Millisecond}
	}
	r := histories.Summarize([]histories.Outcome{
		answer(histories.Rare, "a", "a", 0.95), answer(histories.Rare, "b", "", 0),
		answer(histories.NoProfile, "", "c", 0.92), answer(histories.NoProfile, "", "", 0),
		answer(histories.Linked, "d", "d", 0.99),
	}, map[histories.Class]int{histories.Rare: 90, histories.NoProfile: 10, histories.Linked: 50})
	require.InDelta(t, 0.9, r.Precision.Value, 1e-9, "45 right, 5 wrong")
	require.InDelta(t, 0.5, r.Recall.Value, 1e-9)
	require.InDelta(t, 100, r.SureWrong.Value, 1e-9)
	require.InDelta(t, math.Abs(45*0.95+5*0.92+50*0.99-95)/100, r.ECE, 1e-9)
	require.Equal(t, time.Millisecond, r.Latency[0])
	var out bytes.Buffer
	require.NoError(t, r.Print(&out))
	require.Contains(t, out.String(), "rare name, no link")
	require.Contains(t, out.String(), "1/1 1.000")
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(line), 130)
	}
}
