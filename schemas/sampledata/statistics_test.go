package sampledata

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// census counts the records of a generation; 1,000,000 people need about a gigabyte.
type census struct {
	tb        testing.TB
	names     map[string]int // full names of network records
	scripts   map[string]int // by the first letter of shown names
	script1   map[rune]string
	records   map[string]int
	repos     map[int64]int // per codehost account, newest lists
	commits   map[int64]int
	code      map[string]string // identity -> shown name, newest record seen last
	net       map[string]string
	people    int
	perClass  map[string]int
	presence  map[string]int
	pairs     int
	alike     int
	equal     int
	sameName  int
	unlinked  int
	distinct  map[string]int // the world's own names
	positions map[string]map[string]int
	dirt      map[string]int
}

func newCensus(tb testing.TB) *census {
	return &census{tb: tb, names: map[string]int{}, scripts: map[string]int{}, script1: map[rune]string{},
		records: map[string]int{}, repos: map[int64]int{}, commits: map[int64]int{},
		code: map[string]string{}, net: map[string]string{}, perClass: map[string]int{}, presence: map[string]int{},
		distinct:  map[string]int{},
		positions: map[string]map[string]int{}, dirt: map[string]int{}}
}

type censusRecord struct {
	ProfileID string `json:"profile_id"`
	UserID    any    `json:"user_id"`
	FullName  string `json:"full_name"`
	Name      string `json:"name"`
	Repos     []any  `json:"repos"`
	Commits   []any  `json:"commits"`
	Deleted   bool   `json:"deleted"`
}

func (c *census) Record(kind string, line []byte) error {
	c.records[kind]++
	c.dirtIn(string(line))
	if kind == NetworkCompany || kind == AccountLink {
		return nil
	}
	var v censusRecord
	if err := json.Unmarshal(line, &v); err != nil {
		return err
	}
	id := v.ProfileID
	switch x := v.UserID.(type) {
	case string:
		id = x
	case float64:
		id = number(x)
		switch {
		case v.Deleted:
		case kind == CodehostRepo:
			c.repos[int64(x)]++
		case kind == CodehostCommit:
			c.commits[int64(x)]++
		case kind == CodehostPerson:
			c.repos[int64(x)] = max(c.repos[int64(x)], len(v.Repos))
			c.commits[int64(x)] = max(c.commits[int64(x)], len(v.Commits))
		}
	}
	if c.positions[kind] == nil {
		c.positions[kind] = map[string]int{}
	}
	if _, ok := c.positions[kind][id]; !ok {
		c.positions[kind][id] = len(c.positions[kind])
	}
	switch kind {
	case NetworkPerson:
		if _, seen := c.net[id]; !seen && !v.Deleted {
			c.names[v.FullName]++
			c.net[id] = v.FullName
		}
		c.script(v.FullName)
	case CodehostPerson:
		c.code[id] = v.FullName
		c.script(v.FullName)
	case MicroblogPerson:
		c.script(v.Name)
	}
	return nil
}

func (c *census) script(s string) {
	for _, r := range s {
		if !unicode.IsLetter(r) {
			continue
		}
		c.scripts[c.scriptOf(r)]++
		return
	}
}

func (c *census) scriptOf(r rune) string {
	if s, ok := c.script1[r]; ok {
		return s
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			c.script1[r] = name
			return name
		}
	}
	return "Unknown"
}

func (c *census) dirtIn(line string) {
	for name, mark := range map[string]string{
		"null": ":null", "empty string": `:""`, "HTML entity": "&amp;", "no-break space": "\u00a0",
		"right-to-left mark": "\u200f",
		"zero width":         "\u200b", "year only": `"start":"20`, "tab": `\t`, "line break": `\n`, "emoji": "🚀",
		"withdrawn":     `"deleted":true`,
		"complete list": `"repos_complete":true`, "unknown field": `"_crawl"`, "combining accent": "e\u0301",
	} {
		if strings.Contains(line, mark) {
			c.dirt[name]++
		}
	}
}

func (c *census) Truth(line []byte) error {
	var v struct {
		Type     string
		Class    string
		Name     string
		Accounts []struct {
			Platform, Identity string
			Actual             string `json:"actual_username"`
		}
		Links []struct {
			Own bool
		}
	}
	if err := json.Unmarshal(line, &v, json.MatchCaseInsensitiveNames(true)); err != nil {
		return err
	}
	if v.Type != "entity" {
		return nil
	}
	c.perClass[v.Class]++
	if v.Class != "person" {
		return nil
	}
	c.people++
	c.distinct[v.Name]++
	shown := map[string]string{}
	for i, a := range v.Accounts {
		c.presence[a.Platform]++
		switch a.Platform {
		case "network":
			shown[a.Platform] = c.net[a.Identity]
		case "codehost":
			shown[a.Platform] = c.code[a.Identity]
		}
		if i == 0 {
			continue
		}
		c.pairs++
		first := v.Accounts[0].Actual
		c.alike += boolInt(alike(first, a.Actual))
		c.equal += boolInt(strings.EqualFold(first, a.Actual))
	}
	if shown["network"] != "" && len(v.Links) == 0 {
		if _, ok := shown["codehost"]; ok {
			c.unlinked++
			c.sameName += boolInt(shown["network"] == shown["codehost"])
		}
	}
	return nil
}

// alike reports whether two handles share four letters in a row, or one has the letters of the other.
func alike(a, b string) bool {
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) {
				return unicode.ToLower(r)
			}
			return -1
		}, s)
	}
	a, b = letters(a), letters(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) >= 3 && strings.Contains(b, a) {
		return true
	}
	for i := 0; i+4 <= len(a); i++ {
		if strings.Contains(b, a[i:i+4]) {
			return true
		}
	}
	return false
}

func topShare(counts map[string]int, top int) (share float64) {
	var all []int
	sum := 0
	for _, n := range counts {
		all, sum = append(all, n), sum+n
	}
	slices.Sort(all)
	head := 0
	for i := range min(top, len(all)) {
		head += all[len(all)-1-i]
	}
	return float64(head) / float64(sum)
}

// correlation is Pearson's, of two lists of the same length.
func correlation(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, syy, sxy = sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
}

// Covers distinct and common names, scripts, usernames unlike names, and active developers. The documented values are
// for 1,000,000 people: go test -run TestStatistics -world.people 1000000.
func TestStatistics_AreAsDocumented(t *testing.T) {
	c := newCensus(t)
	require.NoError(t, Generate(t.Context(), Options{People: *scale, Seed: 21}, c, nil))
	n := float64(c.people)
	require.Equal(t, *scale, c.people)

	t.Logf("records: %v", c.records)
	t.Logf("entities: %v, accounts of people: %v", c.perClass, c.presence)
	require.InDelta(t, 0.82, float64(c.presence["network"])/n, 0.07)
	require.InDelta(t, 0.35, float64(c.presence["codehost"])/n, 0.05)
	require.InDelta(t, 0.25, float64(c.presence["microblog"])/n, 0.04)

	shown := float64(len(c.names)) / n
	t.Logf("distinct names: %d of people, %d shown on network; the 1,000 most common: %.1f%% and %.1f%%",
		len(c.distinct), len(c.names), 100*topShare(c.distinct, 1000), 100*topShare(c.names, 1000))
	require.GreaterOrEqual(t, float64(len(c.distinct))/n, 0.3)
	require.GreaterOrEqual(t, shown, 0.3)
	require.GreaterOrEqual(t, topShare(c.distinct, 1000), 0.1)
	require.GreaterOrEqual(t, topShare(c.names, 1000), 0.1)

	t.Logf("scripts: %v", c.scripts)
	frequent := 0
	for _, k := range c.scripts {
		if float64(k) > n/4000 {
			frequent++
		}
	}
	require.GreaterOrEqual(t, frequent, 10)

	unlike := 1 - float64(c.alike)/float64(c.pairs)
	t.Logf("second accounts: %d, %.1f%% without likeness of user names, %.1f%% with the same one", c.pairs, 100*unlike,
		100*float64(c.equal)/float64(c.pairs))
	require.GreaterOrEqual(t, unlike, 1.0/3)
	require.Less(t, unlike, 0.43)
	require.Less(t, float64(c.equal)/float64(c.pairs), 0.25, "the same user name must not identify people")
	t.Logf("of %d unlinked network and codehost pairs %.1f%% show the same name", c.unlinked,
		100*float64(c.sameName)/float64(c.unlinked))
	require.Less(t, float64(c.sameName)/float64(c.unlinked), 0.33, "the same name must not identify people")

	active, repos, commits := 0, 0, 0
	for id, k := range c.repos {
		if k >= 3 && c.commits[id] >= 6 {
			active, repos, commits = active+1, repos+k, commits+c.commits[id]
		}
	}
	t.Logf("active: %.1f%% of people, %.1f repositories and %.1f commits each", 100*float64(active)/n,
		float64(repos)/float64(active), float64(commits)/float64(active))
	require.InDelta(t, 0.10, float64(active)/n, 0.015)
	require.InDelta(t, 10, float64(repos)/float64(active), 2)
	require.InDelta(t, 20, float64(commits)/float64(active), 4)

	t.Logf("dirt: %v", c.dirt)
	for name, k := range c.dirt {
		require.Positive(t, k, name)
	}
	require.Len(t, c.dirt, 14)
}

// Ids and record order do not correlate between platforms, nor with the person's index.
func TestRecords_DoNotRevealIdentity(t *testing.T) {
	m := generate(t, Options{People: 6000, Seed: 31})
	position := map[string]map[string]float64{}
	for p := onNetwork; p <= onMicroblog; p++ {
		position[p.String()] = map[string]float64{}
		for i, l := range m.lines[p.kind()] {
			position[p.String()][identityOf(t, p, decode(t, l))] = float64(i)
		}
	}
	series := map[string][]float64{}
	add := func(name string, x float64) { series[name] = append(series[name], x) }
	rank := func(id string) float64 {
		x := 0.0
		for i := range min(len(id), 8) {
			x = x*64 + float64(id[i])
		}
		return x
	}
	for _, l := range m.truth {
		v := decode(t, l)
		if v["type"] != "entity" || v["class"] != "person" || len(v["accounts"].([]any)) < 3 {
			continue
		}
		add("index", v["index"].(float64))
		for _, a := range v["accounts"].([]any) {
			acc := a.(map[string]any)
			p, id := acc["platform"].(string), acc["identity"].(string)
			add("order on "+p, position[p][id])
			add("id on "+p, rank(id))
		}
	}
	require.Greater(t, len(series["index"]), 200)
	bound := 4 / math.Sqrt(float64(len(series["index"])))
	for a := range series {
		for b := range series {
			if a < b {
				require.Less(t, math.Abs(correlation(series[a], series[b])), bound, "%s and %s", a, b)
			}
		}
	}
	for kind, lines := range m.lines {
		for _, l := range lines {
			for _, word := range []string{`"index"`, "namesake", `"truth"`, `"entity"`, `"holder"`} {
				require.NotContains(t, string(l), word, kind)
			}
		}
	}
}

func TestOptions_AccountLinksAreMinimums(t *testing.T) {
	m := generate(t, Options{People: 1500, Seed: 6, AccountLinks: 9000, JoinedLinks: 1500})
	present := map[string]bool{}
	for p := onNetwork; p <= onMicroblog; p++ {
		_, _, ever := newestRecords(t, m, p)
		for h := range ever {
			present[p.String()+" "+h] = true
		}
	}
	distinct := map[string]bool{}
	joined := 0
	for _, l := range m.lines[AccountLink] {
		v := decode(t, l)
		both, key := true, v["source"].(string)
		for _, end := range []string{"a", "b"} {
			x := v[end].(map[string]any)
			name := x["platform"].(string) + " " + strings.ToLower(x["username"].(string))
			key += "|" + name
			both = both && present[name]
		}
		if !distinct[key] {
			distinct[key] = true
			joined += boolInt(both)
		}
	}
	require.GreaterOrEqual(t, len(distinct), 9000)
	require.GreaterOrEqual(t, joined, 1500)
	require.Less(t, joined, 2500)
}
