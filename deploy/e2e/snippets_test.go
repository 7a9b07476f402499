//go:build clients || docs

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"muster/platform/freeport"
)

// snippet is a code block of a page.
type snippet struct{ name, language, code string }

// snippets returns the code blocks of a page that a reader would run.
func snippets(t *testing.T, path string) []snippet {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
	require.NoError(t, err)
	var list []snippet
	for i, m := range regexp.MustCompile("(?ms)^```(sh|python|js|go)\n(.*?)^```").FindAllStringSubmatch(string(raw),
		-1) {
		list = append(list, snippet{fmt.Sprintf("%s %d", filepath.Base(path), i+1), m[1], m[2]})
	}
	return list
}

// snippetPages are the pages of TestDocs_SnippetsRun.
func snippetPages() []string {
	return []string{
		"README.md", "query-api/internal/docs/guides/first-call.md", "query-api/internal/docs/guides/search.md",
		"query-api/internal/docs/guides/cursors.md", "query-api/internal/docs/guides/errors.md",
		"deploy/docs/bulk.md", "deploy/docs/context.md", "deploy/docs/identify.md",
		"deploy/docs/feedback.md", "deploy/docs/sources.md", "deploy/docs/agents.md",
	}
}

// verifyPages are the pages of TestVerifySnippets, with the languages.
func verifyPages() map[string][]string {
	return map[string][]string{
		"query-api/internal/docs/guides/webhooks.md": {"python", "js", "go"},
		"deploy/docs/webhooks.md":                    {"python"}, // the other languages need a library
	}
}

// The calls in the README, the guides and the pages on context and sources are sent as printed, in every language.
func TestDocs_SnippetsRun(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "100")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "people.ndjson"),
		[]byte(`{"profile_id":"snippet1","username":"snippet-one","last_updated":"2026-11-21"}`+"\n"), 0o600))
	zip := exec.CommandContext(t.Context(), "gzip", "-k", filepath.Join(dir, "people.ndjson"))
	require.NoError(t, zip.Run())
	env := append(environment(), "KEY="+p.APIKey, "BASE="+p.BaseURL, "INGEST_URL="+p.IngestURL,
		"OPERATOR_TOKEN="+p.OperatorToken)
	here := strings.NewReplacer(
		"http://127.0.0.1:8080", p.BaseURL, "export KEY=mk_live_...", "true",
		"zstd", "gzip", "people.ndjson.zst", "people.ndjson.gz", // installed on every machine
		"curl -s ", "curl -sS --fail-with-body ", "data engineer", "engineer",
	)
	ran := 0
	for _, page := range snippetPages() {
		for _, s := range snippets(t, page) {
			if s.language == "sh" && !strings.Contains(s.code, "curl -s") {
				continue // commands of muster and make are tested elsewhere
			}
			ran++
			t.Run(s.name+" "+s.language, func(t *testing.T) {
				out := runSnippet(t, dir, env, s.language, here.Replace(s.code))
				require.NotContains(t, out, `"detail"`)
				if !strings.Contains(s.code, "def send(") { // a function definition
					require.NotEmpty(t, strings.TrimSpace(out))
				}
			})
		}
	}
	require.GreaterOrEqual(t, ran, 9)
}

// The code in three languages accepts a delivery that is signed with the Standard Webhooks library, and rejects a
// changed one.
func TestVerifySnippets(t *testing.T) {
	const secret, id, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_1", `{"full_name":"Ada"}`
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	now := time.Now()
	signature, err := hook.Sign(id, now, []byte(body))
	require.NoError(t, err)
	env := append(environment(), "SECRET="+secret, "ID="+id, fmt.Sprintf("SENT=%d", now.Unix()), "SIGNATURE="+signature,
		"BODY="+body)
	call := map[string]string{
		"python": `
import os
e = os.environ
import email.message  # the type of the headers of http.server: missing ones are None
headers = email.message.Message()
none = [verify(e["SECRET"], headers, b""), verify(e["SECRET"], {}, b"")]
headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"] = e["ID"], e["SENT"], "v1,AAAA " + e["SIGNATURE"]
print(verify(e["SECRET"], headers, e["BODY"].encode()), verify(e["SECRET"], headers, e["BODY"].encode() + b" ") or any(none))
`,
		"js": `
const e = process.env;
const headers = { "webhook-id": e.ID, "webhook-timestamp": e.SENT, "webhook-signature": "v1,AAAA " + e.SIGNATURE };
console.log(verify(e.SECRET, headers, e.BODY), verify(e.SECRET, headers, e.BODY + " ") || verify(e.SECRET, {}, ""));
`,
		"go": `
func main() {
	header := http.Header{}
	header.Set("webhook-id", os.Getenv("ID"))
	header.Set("webhook-timestamp", os.Getenv("SENT"))
	header.Set("webhook-signature", "v1,AAAA "+os.Getenv("SIGNATURE"))
	body := os.Getenv("BODY")
	fmt.Println(Verify(os.Getenv("SECRET"), header, []byte(body)), Verify(os.Getenv("SECRET"), header, []byte(body+" ")) || Verify(os.Getenv("SECRET"), http.Header{}, nil))
}
`,
	}
	ran := 0
	wanted := 0
	for page, languages := range verifyPages() {
		wanted += len(languages)
		for _, s := range snippets(t, page) {
			if !slices.Contains(languages, s.language) {
				continue
			}
			ran++
			t.Run(page+" "+s.language, func(t *testing.T) {
				code := strings.Replace(s.code, "package webhook\n\nimport (",
					"package main\n\nimport (\n\t\"fmt\"\n\t\"os\"", 1)
				out := runSnippet(t, t.TempDir(), env, s.language, code+call[s.language])
				require.Equal(t, "true false", strings.ToLower(strings.TrimSpace(out)))
			})
		}
	}
	require.Equal(t, wanted, ran)
}

// The steps of the page on the clients work in an empty folder, and each program does what the page says.
func TestClientsPage(t *testing.T) {
	const page, secret = "deploy/docs/clients.md", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	p := start(t, t.TempDir(), "--sample", "100")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	addrs, err := freeport.Addrs(t.Context(), 1)
	require.NoError(t, err)
	pythonAddr := strings.Replace(addrs[0], "127.0.0.1:", `("127.0.0.1", `, 1) + ")"
	here := strings.NewReplacer("http://127.0.0.1:8080", p.BaseURL, "127.0.0.1:9000", addrs[0],
		`("127.0.0.1", 9000)`, pythonAddr, "../muster/", root+"/", "export KEY=mk_live_...", "true")
	env := append(environment(), "KEY="+p.APIKey, "SECRET="+secret, "GOWORK=off", "GOFLAGS=")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", args, out)
		return string(out)
	}
	// receive runs a program that receives deliveries and prints their profiles.
	receive := func(want, name string, args ...string) {
		t.Helper()
		receiver := exec.CommandContext(t.Context(), name, args...)
		var out output
		receiver.Dir, receiver.Env, receiver.Stdout, receiver.Stderr = dir, env, &out, &out
		receiver.SysProcAttr = dieWithParent()
		require.NoError(t, receiver.Start())
		url := "http://" + addrs[0] + "/muster"
		eventually(t, startTimeout, func() (bool, string) {
			return deliver(
					t, url, secret, `{"full_name":"Ada","custom":{},"confidence":{}}`,
				) == http.StatusNoContent,
				out.String()
		})
		require.Equal(t, http.StatusUnauthorized, deliver(t, url, "whsec_AAAA", `{"detail":"x"}`))
		require.Contains(t, out.String(), want)
		require.NoError(t, receiver.Process.Kill())
		_ = receiver.Wait()
	}
	pythonOutput := []string{
		`^matched: \['codehost', 'network'\] credits: 1\n(\S+ \S+\n)+error: 400 .*"match"\? .*\n$`,
		`(?s)^profile\.location\.country\n.*\d\n.*\sprofile_id\s+company_name\s+start_date\n`,
	}
	programs, pythonPrograms, commands := 0, 0, ""
	for _, s := range snippets(t, page) {
		if s.language == "sh" {
			commands += run("bash", "-euc", here.Replace(s.code))
			continue
		}
		if s.language == "python" {
			pythonPrograms++
			const python, file = "venv/bin/python", "program.py"
			code := here.Replace(s.code)
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(code), 0o600))
			if pythonPrograms <= len(pythonOutput) {
				require.Regexp(t, pythonOutput[pythonPrograms-1], run(python, file))
			} else {
				receive("profile: msg_1 Ada", filepath.Join(dir, python), file)
			}
			continue
		}
		programs++
		code := here.Replace(s.code)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o600))
		switch programs {
		case 1: // the next steps run it
		case 2:
			require.Regexp(t, `(?m)^\S+ \S+$`, run("go", "run", "."), "a result of the search")
		case 3:
			run("go", "build", "-o", "receiver", ".")
			receive(`profile: msg_1 "Ada"`, filepath.Join(dir, "receiver"))
		}
	}
	require.Equal(t, []int{3, 3}, []int{programs, pythonPrograms})
	require.Contains(t, commands, "matched: [codehost network] credits: 1\nusername: ")
	require.DirExists(t, filepath.Join(dir, "vendor", "muster", "query-api", "client"))
	module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(module), "muster/query-api/client v0.0.0")
	require.Contains(t, string(module), "replace muster/query-api/client => "+root+"/query-api/client")
}

// deliver sends a signed webhook and returns the status, 0 if there is no response.
func deliver(t *testing.T, url, secret, body string) int {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	now := time.Now()
	signature, err := hook.Sign("msg_1", now, []byte(body))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range map[string]string{"webhook-id": "msg_1", "webhook-signature": signature,
		"webhook-timestamp": fmt.Sprint(now.Unix())} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// pythonClient returns the program of the environment that `make test-client-py` builds, with the dependencies of the
// Python client, and the variable with the client's source.
func pythonClient(t *testing.T) (program, pythonPath string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	program = filepath.Join(root, ".cache", "client-py", "bin", "python")
	require.FileExists(t, program, "run make test-client-py")
	return program, "PYTHONPATH=" + filepath.Join(root, "query-api", "client-py", "src")
}

// runSnippet runs a program and returns its output.
func runSnippet(t *testing.T, dir string, env []string, language, code string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(),
		map[string]string{"sh": "main.sh", "python": "main.py", "js": "main.mjs", "go": "main.go"}[language])
	require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
	python, pythonPath := pythonClient(t)
	command := map[string][]string{"sh": {"bash", "-eu", file}, "python": {python, file}, "js": {"node", file},
		"go": {"go", "run", file}}[language]
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Dir = append(env[:len(env):len(env)], pythonPath), dir
	if language == "go" {
		cmd.Dir = "" // in the workspace, which has the imported client
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", code, out)
	return string(out)
}
