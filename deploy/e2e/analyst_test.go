package e2e_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/internal/analyst"
	"muster/schemas/readmodel"
)

// Every view describes its columns, each of the twenty questions has an answer, nothing can be changed, and views
// can be exported to Parquet files.
func TestAnalysts_ViewsAreReadOnlyAndDocumented(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--sample", "300")
	ask := func(t *testing.T, statement string) [][]string {
		t.Helper()
		rows, err := csv.NewReader(strings.NewReader(p.muster(t, "sql", "--format", "csv", statement))).ReadAll()
		require.NoError(t, err)
		return rows[1:]
	}

	t.Run("views", func(t *testing.T) {
		var names []string
		for _, row := range ask(t,
			"SELECT name, comment FROM system.tables WHERE database = currentDatabase() ORDER BY name") {
			names = append(names, row[0])
			require.NotEmpty(t, row[1], "%s has no comment", row[0])
		}
		require.ElementsMatch(t, readmodel.ViewNames(), names)
		require.Empty(t,
			ask(t, "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND comment = ''"),
			"columns without a comment")
	})

	t.Run("questions", func(t *testing.T) {
		page := filepath.Join("..", "docs", "questions.md")
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		cells := analyst.Cells(page, string(text))
		require.Len(t, cells, 20)
		p.muster(t, "status", "--wait") // includes the ledger of the calls so far
		for _, cell := range cells {
			require.NotEmpty(t, ask(t, cell.Statement), cell.Title)
		}
		// Shares are of people: a person counts once, whatever the number of records, links and rows.
		shares := ask(t, cells[6].Statement)
		year, authors := shares[0][0],
			ask(t, "SELECT uniqExact(user_id) FROM commits WHERE language != '' AND toYear(authored_at) = "+
				shares[0][0])[0][0]
		require.Equal(t, ask(t, "SELECT round(100 * "+shares[0][2]+" / "+authors+", 1)")[0][0], shares[0][3],
			"share of a language in %s", year)
		for _, row := range ask(t, cells[15].Statement) {
			titled := "(SELECT lowerUTF8(username) FROM people WHERE current_title = '" + row[0] + "')"
			require.Equal(t,
				ask(t, "SELECT sum(public_repos) FROM accounts WHERE lowerUTF8(username) IN (SELECT a_username FROM "+
					"links "+
					"WHERE a_platform = 'codehost' AND b_platform = 'network' AND confidence >= 0.9 AND b_username IN "+
					titled+")")[0][0], row[2], row[0])
		}
		all := p.muster(t, "sql", "--file", page)
		for _, cell := range cells {
			require.Contains(t, all, cell.Title)
		}
	})

	t.Run("companies", func(t *testing.T) {
		// One company, whose older entry lacks the ID; a title that only looks senior; and no title.
		file := filepath.Join(t.TempDir(), "people.ndjson")
		require.NoError(t,
			os.WriteFile(file,
				[]byte(`{"profile_id": "quartz-1", "username": "quartz-1", "full_name": "Quartz Mill", "headline": "write to quartz@mill.example", `+
					`"current_position": {"title": "Chief Quarrier", "company": {"name": "Millworks"}}, `+
					`"last_updated": "2026-11-01T00:00:00Z", "experience": [`+
					`{"title": "Product Owner", "company": {"company_id": "co_quartz", "name": "Quartzmill"}, "start": "2021-02", "current": true}, `+
					`{"title": "Co-Founder", "company": {"name": " QuartzMill"}, "start": "2019-01", "end": "2021-01"}, `+
					`{"company": {"name": "Quartzless"}, "start": "2017-03", "end": "2018-12"}]}`+"\n"), 0o600))
		p.muster(t, "ingest", "network-person", file)
		p.muster(t, "status", "--wait")
		require.Equal(t, [][]string{{"co_quartz", "staff"}, {"co_quartz", "executive"}, {"quartzless", ""}},
			ask(t, "SELECT company_key, seniority FROM positions WHERE profile_id = 'quartz-1' ORDER BY position"))
		require.Equal(t, [][]string{{"2019-01-01", "1", "0", "1"}},
			ask(t, "SELECT month, joined, departed, headcount FROM company_headcount WHERE company_key = 'co_quartz'"))
		require.Equal(t, [][]string{{"2017-03-01", "1", "0", "1"}, {"2018-12-01", "0", "1", "0"}},
			ask(t, "SELECT month, joined, departed, headcount FROM company_headcount WHERE company_key = "+
				"'quartzless' ORDER BY month"))
		require.Equal(t, [][]string{{"write to [e-mail removed]", "Chief Quarrier", "Millworks"}},
			ask(t, "SELECT headline, current_title, current_company FROM people WHERE profile_id = 'quartz-1'"),
			"the record's own current_position, as in the API")
		require.Empty(t, ask(t, "SELECT company_key FROM company_headcount GROUP BY company_key "+
			"HAVING uniqExact(company) > 1"), "companies whose label changes")
		require.NotEmpty(t, ask(t, "SELECT sha FROM commits WHERE message LIKE '%[e-mail removed]%'"))
		require.Empty(t, ask(t, "SELECT message FROM commits WHERE match(message, '\\\\w@\\\\w+\\\\.')"))
	})

	t.Run("read-only", func(t *testing.T) {
		for _, statement := range []string{
			"DROP VIEW people", "INSERT INTO muster.network_people (profile_id) VALUES ('x')",
			"SELECT * FROM file('/etc/passwd', 'LineAsString')",
			"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
		} {
			got, err := muster(t.Context(), p.dataDir, "sql", statement)
			require.NoError(t, err)
			require.Equal(t, 1, got.status, "%s: %s", statement, got.out)
		}
		got, err := muster(t.Context(), p.dataDir, "sql", "--service-user", "DROP VIEW people")
		require.NoError(t, err)
		require.Equal(t, 1, got.status, got.out)
	})

	t.Run("export", func(t *testing.T) {
		dir := t.TempDir()
		p.muster(t, "export", "--all", "--output", dir)
		for _, view := range readmodel.ViewNames() {
			f, err := os.Open(filepath.Join(dir, view+".parquet"))
			require.NoError(t, err)
			info, err := f.Stat()
			require.NoError(t, err)
			file, err := parquet.OpenFile(f, info.Size())
			require.NoError(t, err, view)
			if view != "usage" { // still growing
				require.Equal(t, ask(t, "SELECT toInt64(count()) FROM "+view),
					[][]string{{strconv.FormatInt(file.NumRows(), 10)}}, view)
			}
			require.NoError(t, f.Close())
		}
		got, err := muster(t.Context(), p.dataDir, "export", "people", "--where", "no_such_column = 1", "--output",
			filepath.Join(dir, "none.parquet"))
		require.NoError(t, err)
		require.Equal(t, 1, got.status)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, len(readmodel.ViewNames()), "files, without partial ones")
	})
}
