package evaluate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evaluate"
	"muster/discovery-worker/internal/evidence"
)

var update = flag.Bool("update", false, "render the page's tables and diagram from the stored results")

const docs = "../../../deploy/docs/"

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
		fmt.Sprintf("`make eval-discovery EVALFLAGS='-people %d -questions %d -seeds %s", r.People, r.Questions,
			worlds), "`" + r.Model + "`",
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
