//go:build docs

package e2e_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// block is a code block of a page.
type block struct {
	page     string
	line     int
	language string
	code     string
	// notRun is the reason for not running the block, from a comment before it:
	// <!-- not run: needs a cluster -->
	notRun string
}

func (b block) String() string { return fmt.Sprintf("%s:%d (%s)", b.page, b.line, b.language) }

// testedElsewhere returns the pages whose blocks of some languages are run by other tests of `make docs-check`.
func testedElsewhere() map[string]string {
	out := map[string]string{
		"deploy/docs/backup.md sh":      "TestBackupPage",
		"deploy/docs/upgrade.md sh":     "TestUpgradePage",
		"deploy/docs/clients.md sh":     "TestClientsPage",
		"deploy/docs/clients.md go":     "TestClientsPage",
		"deploy/docs/clients.md python": "TestClientsPage",
		// TestConnect_ToolsReadTheViews is run by `make test-connect`.
		"deploy/docs/connect.md python": "TestConnect_ToolsReadTheViews",
		"deploy/docs/connect.md java":   "TestConnect_ToolsReadTheViews",
	}
	for _, page := range snippetPages() {
		for _, language := range []string{"python", "js", "go"} {
			out[page+" "+language] = "TestSnippets"
		}
	}
	for page, languages := range verifyPages() {
		for _, language := range languages {
			out[page+" "+language] = "TestVerifySnippets"
		}
	}
	return out
}

// codeBlocks returns the code blocks of all pages in the repository, by page and line.
func codeBlocks(t *testing.T) []block {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []block
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != root &&
			(strings.HasPrefix(name, ".") ||
				slices.Contains([]string{"node_modules", "bin", "dist", "testdata"}, name)) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page, err := filepath.Rel(root, path)
		out = append(out, blocksOf(filepath.ToSlash(page), string(text))...)
		return err
	}))
	return out
}

func blocksOf(page, text string) (out []block) {
	mark := regexp.MustCompile(`^<!-- not run: (.+) -->$`)
	var b *block
	reason := ""
	for i, line := range strings.Split(text, "\n") {
		language, fenced := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fenced && b == nil:
			b = &block{page: page, line: i + 1, language: language, notRun: reason}
		case fenced:
			out = append(out, *b)
			b, reason = nil, ""
		case b != nil:
			b.code += line + "\n"
		case strings.TrimSpace(line) != "":
			reason = ""
			if m := mark.FindStringSubmatch(line); m != nil {
				reason = m[1]
			}
		}
	}
	return out
}

// Commands and statements are run, in a directory next to one running instance; JSON is parsed, and queries in it are
// sent. Blocks that cannot run here have a comment with the reason, and are counted.
func TestDocs_CodeBlocksRun(t *testing.T) {
	w := newWorkshop(t)
	counted := map[string]int{}
	var left []string
	page := ""
	for _, b := range codeBlocks(t) {
		if b.page != page {
			page = b.page
			w.preparePage(t, page)
		}
		if test, ok := testedElsewhere()[b.page+" "+b.language]; ok && b.notRun == "" {
			counted["run by "+test]++
			continue
		}
		if b.notRun != "" {
			left = append(left, fmt.Sprintf("%s: %s", b, b.notRun))
			if b.language == "sql" {
				w.parse(t, b)
			}
			continue
		}
		did := ""
		t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) { did = w.do(t, b) })
		counted[did]++
	}
	var summary strings.Builder
	for _, did := range slices.Sorted(maps.Keys(counted)) {
		fmt.Fprintf(&summary, "%4d blocks %s\n", counted[did], did)
	}
	fmt.Fprintf(&summary, "%4d blocks NOT run:\n", len(left))
	for _, l := range left {
		fmt.Fprintf(&summary, "     %s\n", l)
	}
	t.Logf("code blocks of the documentation:\n%s", summary.String())
	require.Greater(t, counted["run"], 30)
}

// workshop is a directory in which the commands of pages run, with a running instance.
type workshop struct {
	p       *platform
	dir     string
	env     []string
	replace []string
}

// newWorkshop starts an instance like `make run`, on free ports.
func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	w := &workshop{dir: t.TempDir()}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if name := e.Name(); name != "bin" && !strings.HasPrefix(name, ".") {
			require.NoError(t, os.Symlink(filepath.Join(root, name), filepath.Join(w.dir, name)))
		}
	}
	tools := map[string]string{
		// `muster up` in a block starts another instance, and stops it.
		"muster": `#!/bin/bash
set -euo pipefail
if [ "${1-}" != up ]; then exec ` + binary + ` "$@"; fi
shift
dir=$(mktemp -d -p "$PWD")
` + binary + ` up --data-dir "$dir" --no-sample --api-addr 127.0.0.1:0 --ingest-addr 127.0.0.1:0 --admin-addr 127.0.0.1:0 --clickhouse-addr 127.0.0.1:0 --kafka-addr 127.0.0.1:0 "$@" >"$dir.out" 2>"$dir.err" &
until grep -q "Ctrl-C stops it" "$dir.out"; do
	kill -0 $! || { cat "$dir.err" >&2; exit 1; }
	sleep 0.1
done
cat "$dir.out"
kill -INT $!
wait $!
`,
		// Targets are only looked up; they have their own tests.
		"make": "#!/bin/sh\nexec " + programPath(t, "make") + " -C '" + root + "' --no-print-directory -n \"$@\"\n",
	}
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "bin"), 0o700))
	for name, script := range tools {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "bin", name), []byte(script), 0o700))
	}
	plan, err := exec.CommandContext(t.Context(), filepath.Join(w.dir, "bin", "make"), "run").Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^bin/muster up --data-dir \.muster --sample 2000$`, string(plan), "what `make run` does")

	w.p = start(t, filepath.Join(w.dir, ".muster"), "--sample", "300", "--webhook-allow", "127.0.0.0/8")
	w.env = append(environment(), "KEY="+w.p.APIKey, "BASE="+w.p.BaseURL, "INGEST="+w.p.IngestURL,
		"INGEST_URL="+w.p.IngestURL,
		"OPERATOR_TOKEN="+w.p.OperatorToken, "PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
	return w
}

func programPath(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	require.NoError(t, err)
	return path
}

// file writes a file that the commands of a page use.
func (w *workshop) file(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600))
}

// setenv sets a variable of subsequent commands.
func (w *workshop) setenv(name, value string) { w.env = append(w.env, name+"="+value) }

// script runs commands until they exit.
func (w *workshop) script(ctx context.Context, code string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", code)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = dieWithParent()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is like script, but an error fails the test.
func (w *workshop) must(t *testing.T, code string) string {
	t.Helper()
	out, err := w.script(t.Context(), code)
	require.NoError(t, err, "%s\n%s", code, out)
	return strings.TrimSpace(out)
}

// do runs or parses a block, and describes what it did.
func (w *workshop) do(t *testing.T, b block) (did string) {
	t.Helper()
	code := strings.NewReplacer(w.replace...).Replace(b.code)
	switch b.language {
	case "sh":
		out, err := w.script(t.Context(), code)
		require.NoError(t, err, "%s\n%s", code, out)
		require.NotContains(t, out, `{"detail"`, code)
		if regexp.MustCompile(`(?m)^make `).MatchString(code) {
			return "of make's targets, looked up with make -n"
		}
		return "run"
	case "sql":
		out, err := w.script(t.Context(), "muster sql <<'SQL'\n"+
			strings.TrimSuffix(strings.TrimSpace(code), ";")+";\nSQL")
		require.NoError(t, err, "%s\n%s", code, out)
		return "run"
	case "json":
		decoder := jsontext.NewDecoder(strings.NewReader(code))
		for decoder.PeekKind() != 0 {
			value, err := decoder.ReadValue()
			require.NoError(t, err, "%s", code)
			var asked map[string]jsontext.Value
			if json.Unmarshal(value, &asked) == nil && asked["query"] != nil {
				w.search(t, asked)
				return "run"
			}
		}
		return "of JSON, read"
	case "yaml", "jq":
		return "given to the commands of their page as a file" // preparePage has written it
	case "text":
		for line := range strings.Lines(code) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				out, err := w.script(t.Context(), command)
				require.NoError(t, err, "%s\n%s", command, out)
				_, rest, _ := strings.Cut(code, "\n")
				header, _, _ := strings.Cut(rest, "\n")
				shown := slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
					return slices.Equal(strings.Fields(line), strings.Fields(header))
				})
				require.True(t, shown, "%s does not show %q:\n%s", command, header, out)
				return "run"
			}
		}
		return "of text, to be read"
	}
	require.Fail(t, "untested block", "%s: run it, or mark it with a comment before it: <!-- not run: why -->", b)
	return ""
}

// search sends a search; a cursor in an example is replaced with that of the previous page.
func (w *workshop) search(t *testing.T, body map[string]jsontext.Value) {
	t.Helper()
	if body["cursor"] != nil {
		delete(body, "cursor")
		var page struct {
			Next jsontext.Value `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal(w.p.api().mustPost(t, "/v1/person/search", body).body, &page))
		body["cursor"] = page.Next
	}
	got := w.p.api().mustPost(t, "/v1/person/search", body)
	require.Equal(t, 200, got.status, "%s", got.body)
}

// parse requires that a statement that is not run is valid ClickHouse SQL.
func (w *workshop) parse(t *testing.T, b block) {
	t.Helper()
	for statement := range strings.SplitSeq(b.code, ";\n") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(statement)
		out, err := w.script(t.Context(), "muster sql <<'SQL'\nSELECT formatQuery('"+quoted+"');\nSQL")
		require.NoError(t, err, "%s\n%s", b, out)
	}
}

// preparePage prepares the files that the commands of a page use, and the values of placeholders.
func (w *workshop) preparePage(t *testing.T, page string) {
	t.Helper()
	w.replace = []string{
		"http://127.0.0.1:8080", w.p.BaseURL, "export KEY=mk_live_...", "true",
		"zstd", "gzip", "people.ndjson.zst", "people.ndjson.gz", // installed on every machine
		"curl -s ", "curl -sS --fail-with-body ",
	}
	w.file(t, "people.ndjson",
		fmt.Sprintf(`{"profile_id":"page%d","username":"page-%[1]d","last_updated":"2026-11-21"}`+"\n", len(page)))
	w.must(t, "gzip -kf people.ndjson")
	switch page {
	case "deploy/docs/accounts.md":
		organization, key := w.organization(t)
		w.replace = append(w.replace, "ORGANIZATION", organization, "KEY_ID", key)
		w.file(t, "accounts.yaml", firstBlock(t, page, "yaml"))
	case "deploy/docs/connect.md":
		at, err := url.Parse(w.p.ClickHouseURL)
		require.NoError(t, err)
		w.replace = append(w.replace, "127.0.0.1:8123", at.Host)
	case "deploy/docs/csv.md":
		// Before the mapping is written, all rows are rejected, with exit status 1.
		const rejected = "muster ingest network-person contacts.csv --dry-run"
		w.replace = append(w.replace, rejected, rejected+" || [ $? = 1 ]")
	case "deploy/docs/git.md":
		h := newHistory(t)
		h.commit(t, "Ada Berg", "ada@work.example", 2)
		h.commit(t, "Trygve Nes", "7001+trygve-nes@users.noreply.codehost.example", 1)
		w.replace = append(w.replace, "~/src", h.dir)
	case "deploy/docs/refresh.md":
		w.replace = append(w.replace, "updated_at < '2026-11-01'", "profile_id = 'refresh-2'")
	case "deploy/docs/erasure.md":
		w.erasure(t)
	case "deploy/docs/ingest.md":
		w.file(t, "people-2026-11.ndjson",
			`{"profile_id":"page1","username":"page-one","last_updated":"2026-11-21"}`+"\n")
		w.must(t, "gzip -kf people-2026-11.ndjson")
		w.letters(t)
		// Other pages need the people of the sample data.
		w.replace = append(w.replace, "updated_at < '2026-11-01'", "username = 'page-one'")
	case "deploy/docs/sources.md":
		w.file(t, "people.ndjson",
			`{"profile_id":"page1","username":"page-one","last_updated":"2026-11-21","fullname":"Page One"}`+"\n")
		w.file(t, "mine.jq", firstBlock(t, page, "jq"))
		for _, b := range codeBlocks(t) {
			switch {
			case b.page == page && b.language == "jq" && strings.HasPrefix(b.code, "# own-columns.jq"):
				w.file(t, "own-columns.jq", b.code)
			case b.page == page && strings.HasPrefix(b.code, "id,name,email"):
				w.file(t, "people.csv", b.code)
			}
		}
		w.file(t, "export.ndjson",
			`{"type":"person","id":"mapped1","name":"Mapped One","links":["https://network.example/in/mapped-one"]}`+
				"\n")
		h := newHistory(t)
		h.commit(t, "Amara O.", "7001+amara-o@users.noreply.codehost.example", 3)
		bare := t.TempDir()
		w.must(t, "git clone -q --bare '"+h.dir+"' '"+filepath.Join(bare, "other.git")+"'")
		w.replace = append(w.replace, "~/src/muster", h.dir, "/srv/git/", bare+"/")
	case "deploy/docs/webhooks.md", "query-api/internal/docs/guides/webhooks.md":
		w.webhooks(t)
	}
}

// firstBlock returns the first block of a language on a page.
func firstBlock(t *testing.T, page, language string) string {
	t.Helper()
	for _, b := range codeBlocks(t) {
		if b.page == page && b.language == language {
			return b.code
		}
	}
	require.Fail(t, "no such block", "%s %s", page, language)
	return ""
}

// organization creates an organization, and returns its ID and the ID of its key.
func (w *workshop) organization(t *testing.T) (organization, key string) {
	t.Helper()
	var made accountView
	w.p.musterJSON(t, &made, "account", "create", "A page's", "--plan", "growth", "--rpm", "600", "--monthly-requests",
		"100000", "--credits", "50000", "--json")
	return made.OrganizationID, strings.TrimPrefix(made.Key, "mk_live_")[:8]
}

// letters creates rejected records: an invalid date, and an object that its mapping rejects.
func (w *workshop) letters(t *testing.T) {
	t.Helper()
	w.file(t, "bad.ndjson", `{"profile_id":"bad1","username":"bad-one","last_updated":"yesterday"}`+"\n")
	w.file(t, "mine.jq", `record("network-person"; {profile_id: .id, username: .name, last_updated: $received})`)
	w.file(t, "broken.jq", `error("not today")`)
	w.file(t, "export.ndjson", `{"id":"foreign1","name":"foreign-one"}`+"\n")
	for _, command := range []string{"muster ingest network-person bad.ndjson",
		"muster ingest --map ./broken.jq export.ndjson"} {
		w.must(t, command+" || [ $? = 1 ]")
	}
	var list []struct {
		ID string `json:"id"`
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		w.p.musterJSON(t, &list, "rejected", "list", "--reason", "bad_date", "--json")
		return len(list) > 0, "no rejected record"
	})
	// Nothing was fixed, so the record is rejected again, with that exit status.
	w.replace = append(w.replace, "3-42", list[0].ID, "rejected resubmit --reason bad_date ",
		"rejected resubmit --reason bad_date || [ $? = 1 ] ")
}

// webhooks creates a receiver, and an organization with deliveries to it.
func (w *workshop) webhooks(t *testing.T) {
	t.Helper()
	receiver := receive(t)
	organization, _ := w.organization(t)
	sent, _ := w.organization(t)
	w.p.muster(t, "webhook", "secret", "create", sent)
	w.p.muster(t, "webhook", "test", sent, receiver+"/hooks")
	var deliveries []struct {
		ID string `json:"delivery_id"`
	}
	eventually(t, 30*time.Second, func() (bool, string) {
		w.p.musterJSON(t, &deliveries, "webhook", "list", "--organization", sent, "--json")
		return len(deliveries) > 0, "no delivery"
	})
	gone, err := muster(t.Context(), w.p.dataDir, "webhook", "test", sent, receiver+"/gone")
	require.NoError(t, err)
	require.Equal(t, 1, gone.status, "status 410: %s%s", gone.out, gone.errors)
	var endpoints []struct {
		ID      string `json:"endpoint_id"`
		Address string `json:"address"`
	}
	endpoint := ""
	eventually(t, 30*time.Second, func() (bool, string) {
		w.p.musterJSON(t, &endpoints, "webhook", "endpoint", "list", "--organization", sent, "--json")
		for _, e := range endpoints {
			if strings.HasSuffix(e.Address, "/gone") {
				endpoint = e.ID
			}
		}
		return endpoint != "", "no stopped endpoint"
	})
	w.replace = append(w.replace, "https://example.com/hooks", receiver+"/hooks", "ORGANIZATION", organization,
		"DELIVERY", deliveries[0].ID,
		"ENDPOINT", endpoint, "URL", receiver+"/hooks")
}

// erasure creates erasure requests, deletion lists of California's platform, and the platform.
func (w *workshop) erasure(t *testing.T) {
	t.Helper()
	type request struct {
		ID string `json:"request_id"`
	}
	var withdrawn, kept []request
	w.p.musterJSON(t, &withdrawn, "erase", "email=withdrawn@example.com", "--json")
	w.p.musterJSON(t, &kept, "erase", "email=kept@example.com", "--now", "--json")
	// The topics are compacted twice, a minute apart; a busy machine takes longer.
	eventuallyEvery(t, 4*time.Minute, time.Second, func() (bool, string) {
		state := w.p.muster(t, "erase", "status", kept[0].ID)
		return strings.Contains(state, "deleted"), state
	})
	w.file(t, "requests.ndjson",
		`{"identifiers":[{"type":"email","value":"many@example.com"}],"requested_at":"2026-11-20T10:00:00Z"}`+"\n")
	platform, key := dropPlatform(t,
		download(t, map[string]string{"Email": "ID,Hash\naaaaaaaaaaa1," + listed("person@lists.example") + "\n"}))
	w.setenv("DROP_KEY", key)
	w.replace = append(w.replace, `--public-key "$KEY"`,
		`--public-key "$(sed -n 's/.*"public_key": *"\([^"]*\)".*/\1/p' receipt.json)"`, "muster erase status er_0193",
		"muster erase status "+withdrawn[0].ID, "withdraw er_0193", "withdraw "+withdrawn[0].ID,
		"er_0193", kept[0].ID, "sha256:63c1…9201", "sha256:"+strings.Repeat("63c19201", 8),
		"https://api.drop.privacy.ca.gov", platform)
	// Subject access reports are for people who are not erased.
	ids := strings.Fields(w.p.muster(t, "sql", "--service-user", "--format", "TabSeparated",
		"SELECT user_id, email_keys[1] FROM muster.codehost_people FINAL WHERE NOT deleted AND notEmpty(email_keys) "+
			"ORDER BY user_id LIMIT 1"))
	require.Len(t, ids, 2)
	w.replace = append(w.replace, "subject show email=ada@example.com", "subject show email="+ids[1],
		"subject show user_id=42", "subject show user_id="+ids[0])
}
