package evaluate_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evaluate"
	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

var update = flag.Bool("update", false, "render the page's tables and diagram from the stored results")

const docs = "../../../deploy/docs/"

// The page of the model shows the numbers of the embedded model, and an example that it computed.
func TestPage_ShowsModel(t *testing.T) {
	model, err := evidence.Default()
	require.NoError(t, err)
	page, err := os.ReadFile(docs + "discovery-model.md")
	require.NoError(t, err)
	rendered := string(page)
	for name, text := range map[string]string{"weights": weights(model), "calibration": calibration(model),
		"example": example(model)} {
		block := regexp.MustCompile("(?s)(<!-- " + name + " -->\n).*?(<!-- end -->)")
		require.Regexp(t, block, rendered)
		rendered = block.ReplaceAllLiteralString(rendered, "<!-- "+name+" -->\n"+text+"<!-- end -->")
	}
	if *update {
		require.NoError(t, os.WriteFile(docs+"discovery-model.md", []byte(rendered), 0o600))
		page = []byte(rendered)
	}
	require.Equal(t, string(page), rendered, "go test ./internal/evaluate -update")
}

func weights(m *evidence.Model) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Model `%s`: intercept %.3f.\n\n| field | weights of its levels |\n|---|---|\n", m.Version, m.Prior)
	for _, field := range slices.Sorted(maps.Keys(m.Weights)) {
		var levels []string
		for _, level := range slices.Sorted(maps.Keys(m.Weights[field])) {
			levels = append(levels, fmt.Sprintf("`%s` %.3f", level, m.Weights[field][level]))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", field, strings.Join(levels, ", "))
	}
	return b.String()
}

func calibration(m *evidence.Model) string {
	raw, calibrated := "| raw |", "| confidence |"
	line := "|---|"
	for _, p := range m.Calibration {
		raw += fmt.Sprintf(" %.3f |", p.Raw)
		calibrated += fmt.Sprintf(" %.3f |", p.Calibrated)
		line += "---|"
	}
	return raw + "\n" + line + "\n" + calibrated + "\n"
}

// example compares two invented people in a store of 40,000 profiles and 15,000 accounts.
func example(m *evidence.Model) string {
	store := &readmodel.Population{Share: 1, Usernames: []readmodel.UsernameCount{
		{Platform: identity.Network, Held: 40_000, Named: 1498, NamedHeld: 999},
		{Platform: identity.Codehost, Held: 15_000},
	}}
	add := func(platform, key string) {
		store.Names = append(store.Names, readmodel.NameCount{Platform: platform, Key: key, Holders: 1})
	}
	add(identity.Network, "quarn zeno")
	add(identity.Codehost, "quarn zeno")
	for i := range 29 {
		add(identity.Network, fmt.Sprintf("surname%c zeno", 'a'+i))
	}
	for i := range 3 {
		add(identity.Network, fmt.Sprintf("given%c quarn", 'a'+i))
	}
	a := &people.Profile{Platform: identity.Codehost, Username: "zquarn", Key: "zquarn", Identity: "1",
		Names: []string{"Zeno Quarn"}, Topics: []string{"Go"}, Person: true}
	b := &people.Profile{Platform: identity.Network, Username: "zeno-quarn", Key: "zeno-quarn", Identity: "p1",
		Names: []string{"Zeno Quarn"}, Headline: "Engineer", Places: []string{"Oslo"}, Person: true}
	population := evidence.NewPopulation(store, evidence.Prior{})
	c := &evidence.Candidate{Pair: evidence.Pair{A: a, B: b, Population: population}}
	m.Rank([]*evidence.Candidate{c})
	var out strings.Builder
	out.WriteString("The account `zquarn`, \"Zeno Quarn\", with repositories in Go, and the profile `zeno-quarn`, " +
		"\"Zeno Quarn\", Engineer,\n" +
		"Oslo. The store has 40,000 profiles and 15,000 accounts; 29 others are called Zeno, 3 Quarn, none both.\n" +
		"Of 1,498 profiles that accounts declare it has 999. Weights below 0.1 bits are left out of `evidence`, but " +
		"added.\n\n| evidence | finding | bits |\n|---|---|---|\n")
	for _, e := range m.Reasons(c) {
		fmt.Fprintf(&out, "| `%s` | %s | %.2f |\n", e.Kind, e.Finding, e.Weight)
	}
	odds := c.Raw / (1 - c.Raw)
	fmt.Fprintf(&out, "| sum | | %.2f |\n\nThe odds are 2 to the %.2f = %.3g, the raw probability is %.3g / %.3g = "+
		"%.3f, and the confidence %.3f, before the\nreverse search.\n\n", math.Log2(odds), math.Log2(odds), odds, odds,
		1+odds, c.Raw, c.Confidence)
	return out.String()
}

// The page shows the stored results of `make eval-discovery`, which are of the embedded model.
func TestPage_MatchesStoredResults(t *testing.T) {
	raw, err := os.ReadFile(docs + "discovery-results.json")
	require.NoError(t, err)
	var r evaluate.Results
	require.NoError(t, json.Unmarshal(raw, &r))
	model, err := evidence.Default()
	require.NoError(t, err)
	require.Equal(t, model.Version, r.Model, "the results are of another model; run make eval-discovery")

	var svg bytes.Buffer
	require.NoError(t, r.Plot(&svg))
	page, err := os.ReadFile(docs + "discovery.md")
	require.NoError(t, err)
	rendered := string(page)
	for name, table := range map[string]string{"measured": measures(r), "bands": measureBands(r)} {
		block := regexp.MustCompile("(?s)(<!-- " + name + " -->\n).*?(<!-- end -->)")
		require.Regexp(t, block, rendered)
		rendered = block.ReplaceAllString(rendered, "${1}"+table+"${2}")
	}
	if *update {
		require.NoError(t, os.WriteFile(docs+"discovery.md", []byte(rendered), 0o600))
		require.NoError(t, os.WriteFile(docs+"discovery-reliability.svg", svg.Bytes(), 0o600))
		page = []byte(rendered)
	}
	picture, err := os.ReadFile(docs + "discovery-reliability.svg")
	require.NoError(t, err)
	require.Equal(t, string(picture), svg.String(), "go test ./internal/evaluate -update")
	require.Equal(t, string(page), rendered, "go test ./internal/evaluate -update")

	worlds := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(r.Worlds)), ","), "[]")
	for _, text := range []string{
		fmt.Sprintf("`make eval-discovery EVALFLAGS='-people %d -questions %d -seeds %s -population %g ", r.People,
			r.Questions, worlds, r.Population), "`" + r.Model + "`",
	} {
		require.Contains(t, string(page), text)
	}
}

func measures(r evaluate.Results) string {
	values := make(map[string]string)
	for _, m := range r.Measures {
		values[m.Name] = fmt.Sprintf("%.3f [%.3f, %.3f]", m.Value, m.Low, m.High)
	}
	var b strings.Builder
	b.WriteString("| | linked on either side | without any link |\n|---|---|---|\n")
	for _, name := range []string{"precision", "recall", "F1"} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, values["linked: "+name], values["without a link: "+name])
	}
	fmt.Fprintf(&b, "\n| all %d answers | |\n|---|---|\n", r.Answers)
	for _, row := range [][2]string{{"Brier score", "Brier"},
		{"expected calibration error, 15 bins of equal mass", "ECE"}, {"AUROC", "AUROC"}} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], values[row[1]])
	}
	return b.String()
}

func measureBands(r evaluate.Results) string {
	var b strings.Builder
	b.WriteString("| without a link | precision | recall | people |\n|---|---|---|---|\n")
	for _, band := range r.Bands {
		if name, ok := strings.CutPrefix(band.Name, "without a link, "); ok && band.Precision != nil &&
			band.Recall != nil {
			fmt.Fprintf(&b, "| %s | %.3f | %.3f | %d |\n", name, *band.Precision, *band.Recall, band.Of)
		}
	}
	b.WriteString("\n| baseline without a link | precision | recall |\n|---|---|---|\n")
	for _, base := range r.Baselines {
		fmt.Fprintf(&b, "| %s | %.3f | %.3f |\n", base.Name, base.Precision, base.Recall)
	}
	return b.String()
}
