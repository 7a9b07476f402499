package docs_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the tables of the page")

// measured returns the page's table of measurements.
func measured(m measurements) string {
	var b strings.Builder
	b.WriteString("| measured | | from |\n|---|---|---|\n")
	row := func(name, value, from string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, from) }
	row("a person in all tables but `search_people`", fmt.Sprintf("%.2f kB", m.TableBytes/1e3),
		"the world of 1,000,000: the sum of its tables, and answers of 100,000")
	row("a profile in `search_people`", fmt.Sprintf("%.2f kB", m.SearchBytes/1e3), "1,977 MB of 820,871 profiles")
	row("people who have a profile", fmt.Sprintf("%.2f", m.Profiles), "820,871 of 1,000,000")
	row("a person's records as JSON", fmt.Sprintf("%.1f kB", m.RecordBytes/1e3), "6.2 GB of 1,000,000")
	row("the same in the broker's log", fmt.Sprintf("%.1f kB", m.LogBytes/1e3), "2.7 GB")
	row("what a core projects in a second", fmt.Sprintf("%.1f MB", m.ProjectRate*m.ProjectRecord/1e6),
		"2,351 records of 3.0 KB")
	row("a call of enrichment, both websets", fmt.Sprintf("%.1f ms of a core", m.EnrichCPU*1e3),
		"from 256 callers, 100,000 people: engine 0.280 ms, program 0.227 ms")
	return b.String()
}

func TestPage_TablesAreComputed(t *testing.T) {
	const path = "sizing.md"
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(raw)
	m := measuredFigures()
	for name, table := range map[string]string{"measured": measured(m),
		"needs": needsTable(needs(m, defaultPlan()))} {
		block := regexp.MustCompile("(?s)(<!-- " + name + " -->\n).*?(<!-- end -->)")
		require.Regexp(t, block, page)
		page = block.ReplaceAllString(page, "${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}")
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	}
	require.Equal(t, page, string(raw), "go test ./deploy/docs -update")
	n := sizeOf(m, defaultPlan(), 100e6, 250)
	text := strings.Join(strings.Fields(page), " ")
	perPerson := m.TableBytes + m.Profiles*m.SearchBytes
	for _, step := range []string{
		fmt.Sprintf(
			"a person is %.2f kB + %.2f × %.2f kB = %.2f kB in the tables, so one copy is %.0f GB, a shard of %.0f "+
				"has %.0f GB, and 5 %% of that %.0f GB",
			m.TableBytes/1e3, m.Profiles, m.SearchBytes/1e3, perPerson/1e3, n.DataBytes/1e9, n.Shards,
			n.ShardBytes/1e9, n.MemoryBytes/1e9),
		fmt.Sprintf("Projecting takes %.1f kB ÷ %.2f MB/s = %.2f ms of a core a person", m.RecordBytes/1e3,
			m.ProjectRate*m.ProjectRecord/1e6,
			m.RecordBytes/(m.ProjectRate*m.ProjectRecord)*1e3),
		fmt.Sprintf("%.2f cores for three days. 250 calls × %.1f ms ÷ 0.5 = %.1f cores", n.LoadCores, m.EnrichCPU*1e3,
			n.CallCores),
	} {
		require.Contains(t, text, step)
	}
}

func TestMeasured_FiguresAreInTheBenchmarks(t *testing.T) {
	raw, err := os.ReadFile("benchmarks.md")
	require.NoError(t, err)
	for _, figure := range []string{
		"| lookups | 12,743,192 | 1,190 |", "| network_people | 820,871 | 1,360 |",
		"| codehost_people | 379,131 | 288 |",
		"| codehost_repos | 1,228,387 | 253 |", "| codehost_commits | 2,211,973 | 547 |",
		"| codehost_lists | 39,709 | 7 |",
		"| network_companies | 49,299 | 17 |", "| microblog_people | 264,038 | 69 |",
		"| account_links | 5,104,420 | 905 |",
		"1,000,000 people, seed 1", "6.2 GB of records", "2.7 GB in the broker's",
		"| `search_people`, the index of search | 1,977 | 902 |",
		"820,871 with a profile",
		"2,351 | 6.38", "records of 3.0 KB", "| 0.280, 0.227 |", "`codehost_answers` takes 50 MB",
	} {
		require.Contains(t, string(raw), figure, "benchmarks.md has changed: update sizing_model_test.go")
	}
}

func TestSize_GrowsWithDemand(t *testing.T) {
	m, p := measuredFigures(), defaultPlan()
	last := need{}
	for people := 1e6; people < 4e9; people *= 2 {
		n := sizeOf(m, p, people, people/1e6)
		require.Greater(t, n.Dollars, last.Dollars)
		require.GreaterOrEqual(t, n.Shards, last.Shards)
		require.LessOrEqual(t, n.ShardBytes, p.NodeDisk*p.Full)
		last = n
	}
}
