package e2e_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
	"muster/platform/bus"
	"muster/schemas/event"
)

// It follows everything that `muster up` prints and writes.
func TestFirstRun_PrintedCommandsWork(t *testing.T) {
	dataDir := t.TempDir()
	p := start(t, dataDir, "--sample", "300")

	t.Run("standalone.json", func(t *testing.T) {
		path := filepath.Join(dataDir, "standalone.json")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "mode of a file with secrets")
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		v, err := oracle.Decode(raw)
		require.NoError(t, err)
		fields, ok := v.(oracle.Object)
		require.True(t, ok)
		for _, name := range []string{"base_url", "api_key", "operator_token", "ingest_url", "admin_url", "kafka",
			"kafka_user", "kafka_password", "clickhouse_url", "pid"} {
			require.NotEmpty(t, fields[name], name)
		}
		require.Equal(t, oracle.Number(strconv.Itoa(p.cmd.Process.Pid)), fields["pid"])
		require.True(t, strings.HasPrefix(p.APIKey, "mk_live_"), "rulings.md, Accounts")
		require.Len(t, p.APIKey, len("mk_live_")+8+1+32+6)
	})

	t.Run("curl lines", func(t *testing.T) { curlLines(t, p, "codehost") })

	t.Run("each example of the API description finds a person or a company", func(t *testing.T) { examplesFind(t, p) })

	t.Run("health", func(t *testing.T) {
		admin := &api{base: p.AdminURL, client: newClient()}
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			require.Equal(t, http.StatusOK, admin.mustGet(t, path, nil).status, path)
		}
	})

	t.Run("description", func(t *testing.T) {
		got := (&api{base: p.BaseURL, client: newClient()}).mustGet(t, "/v1/openapi.json", nil)
		require.Equal(t, http.StatusOK, got.status, "needs no key (rulings.md, Errors)")
		_, err := oracle.Decode(got.body)
		require.NoError(t, err)
	})

	t.Run("the broker's password", func(t *testing.T) {
		others := p.bus(t)
		others.SASL = nil
		_, err := bus.EndOffsets(t.Context(), others, []string{event.TopicUsage})
		require.ErrorContains(t, err, "kafka_password of its standalone.json", "other users of the machine can connect too")
		_, err = bus.EndOffsets(t.Context(), p.bus(t), []string{event.TopicUsage})
		require.NoError(t, err)
	})

	t.Run("status", func(t *testing.T) {
		p.muster(t, "status", "--wait", "--timeout", "30s")
		var st struct {
			Services []struct {
				Name  string `json:"name"`
				Ready bool   `json:"ready"`
			} `json:"services"`
			Topics []struct {
				Topic string `json:"topic"`
				Lag   int64  `json:"lag"`
			} `json:"topics"`
			ReadModels []struct {
				Table   string `json:"table"`
				Records int64  `json:"records"`
			} `json:"read_models"`
		}
		p.musterJSON(t, &st, "status", "--json")
		require.NotEmpty(t, st.Services)
		for _, s := range st.Services {
			require.True(t, s.Ready, s.Name)
		}
		require.NotEmpty(t, st.Topics)
		for _, topic := range st.Topics {
			require.Zero(t, topic.Lag, topic.Topic)
		}
		records := map[string]int64{}
		for _, m := range st.ReadModels {
			records[m.Table] = m.Records
		}
		require.Positive(t, records["network_people"])
		require.Positive(t, records["codehost_people"])
		require.Contains(t, p.muster(t, "status"), "network_people")
	})

	t.Run("ingest knows the versions of the sample", func(t *testing.T) {
		var summary struct {
			Kinds []struct {
				Read      int64 `json:"read"`
				Published int64 `json:"published"`
				Seen      int64 `json:"seen"`
			} `json:"kinds"`
		}
		p.musterJSON(t, &summary, "ingest", "network-person",
			filepath.Join(generate(t, 300, 1), "network-person.ndjson"), "--json")
		require.Len(t, summary.Kinds, 1)
		require.Positive(t, summary.Kinds[0].Read)
		require.Zero(t, summary.Kinds[0].Published+summary.Kinds[0].Seen)
	})

	t.Run("a data directory is not served twice", func(t *testing.T) {
		r, err := muster(t.Context(), dataDir, "up", "--api-addr", "127.0.0.1:0", "--ingest-addr", "127.0.0.1:0",
			"--admin-addr", "127.0.0.1:0", "--clickhouse-addr", "127.0.0.1:0", "--kafka-addr", "127.0.0.1:0")
		require.NoError(t, err)
		require.Equal(t, 2, r.status)
		require.Contains(t, r.errors, dataDir)
		require.Contains(t, r.errors, strconv.Itoa(p.cmd.Process.Pid), "the ID of the serving process")
		require.Contains(t, r.errors, "--data-dir", "the fix")
		require.Less(t, r.took, 10*time.Second)
	})

	t.Run("a port in use", func(t *testing.T) {
		taken := strings.TrimPrefix(p.BaseURL, "http://")
		other := launch(t, t.TempDir(), "--no-sample", "--api-addr", taken)
		select {
		case <-other.ended:
		case <-time.After(startTimeout):
			t.Fatal("it runs although its port is in use")
		}
		require.Error(t, other.exit)
		require.Contains(t, other.errors.String(), "--api-addr", "the fix")
		require.Contains(t, other.errors.String(), "address already in use")
	})

	before := p.sql(t, "SELECT count() FROM network_people FINAL WHERE deleted = 0")
	p.stop(t)

	t.Run("commands without an instance", func(t *testing.T) {
		for _, args := range [][]string{{"status"}, {"account", "list"}, {"ingest", "network-person", "/dev/null"}} {
			r, err := muster(t.Context(), dataDir, args...)
			require.NoError(t, err)
			require.Equal(t, 2, r.status, args)
			require.Contains(t, r.errors, "muster up", "the fix")
		}
	})

	t.Run("a second start finds the data", func(t *testing.T) {
		again := start(t, dataDir)
		require.Equal(t, p.APIKey, again.APIKey)
		require.Equal(t, p.OperatorToken, again.OperatorToken)
		require.Equal(t, before, again.sql(t, "SELECT count() FROM network_people FINAL WHERE deleted = 0"))
		curlLines(t, again, "codehost")
		again.stop(t)
	})
}

func TestFirstRun_ShowsANetworkProfileIfThereAreNoAccounts(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	p := start(t, dataDir, "--no-sample")
	require.Contains(t, p.out.String(), "There are no people yet")
	file := filepath.Join(t.TempDir(), "people.ndjson")
	require.NoError(t,
		os.WriteFile(file,
			[]byte(`{"profile_id": "1", "username": "ada-l", "full_name": "Ada L", "headline": "engineer", "last_updated": "2026-11-01T00:00:00Z"}`+"\n"), 0o600))
	p.muster(t, "ingest", "network-person", file)
	p.muster(t, "status", "--wait")
	p.stop(t)
	again := start(t, dataDir)
	require.NotContains(t, again.out.String(), "There are no people yet")
	asked := curlLines(t, again, "network")
	require.Equal(t, []any{"network"}, asked["/v1/person/enrich"]["websets_matched"])
	require.Equal(t, "ada-l", asked["/v1/webset/network/person"]["username"])
	again.stop(t)
}

// curlLines runs the printed commands as they are, and returns the responses by path.
func curlLines(t *testing.T, p *platform, platform string) map[string]oracle.Object {
	t.Helper()
	var lines []string
	for line := range strings.Lines(p.out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "curl ") {
			lines = append(lines, line)
		}
	}
	asked := map[string]oracle.Object{}
	counts := 0
	for _, line := range lines {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, "%s\n%s", line, errs.String())
		v, err := oracle.Decode(bytes.TrimSpace(out))
		require.NoError(t, err, "%s\n%s", line, out)
		switch v := v.(type) {
		case oracle.Object:
			require.NotContains(t, v, "detail", line)
			for _, path := range []string{"/v1/person/enrich", "/v1/webset/codehost/person",
				"/v1/webset/network/person", "/v1/company/enrich", "/v1/person/search", "/v1/person/discover"} {
				if strings.Contains(line, path) {
					asked[path] = v
				}
			}
		case oracle.Number:
			require.NotEqual(t, oracle.Number("0"), v, line)
			counts++
		default:
			t.Fatalf("%s\nanswers with %s", line, out)
		}
	}
	require.NotContains(t, p.out.String(), p.APIKey, "an output that is not a terminal may be a log")
	require.Positive(t, counts, "SQL commands that count people")
	require.NotEmpty(t, asked["/v1/person/search"]["results"])
	require.NotEmpty(t, asked["/v1/person/discover"]["socials"])
	if platform != "codehost" {
		return asked
	}
	enriched := asked["/v1/person/enrich"]
	require.Equal(t, []any{"codehost", "network"}, enriched["websets_matched"], "the person is in both websets")
	require.Len(t, enriched["person"], 2)
	require.NotEmpty(t, asked["/v1/webset/codehost/person"]["codehost_username"])
	require.Contains(t, asked["/v1/webset/codehost/person"], "network", "with the add-on")
	require.Equal(t, true, asked["/v1/company/enrich"]["matched"])
	require.NotEmpty(t, asked["/v1/company/enrich"]["company"])
	return asked
}

func TestUp_WorksWithoutData(t *testing.T) {
	dataDir := t.TempDir()
	p := start(t, dataDir, "--no-sample")
	require.Contains(t, p.out.String(), "muster generate", "how to create people")
	enriched := p.api().mustPost(t, "/v1/person/enrich", map[string]any{"codehost": "missing"})
	require.Equal(t, http.StatusOK, enriched.status)
	require.JSONEq(t, `{"websets_matched":[],"person":{}}`, string(enriched.body))
	company := p.api().mustPost(t, "/v1/company/enrich", map[string]any{"network_slug": "nothing"})
	require.JSONEq(t, `{"matched":false,"company":null}`, string(company.body))
	for _, webset := range []string{"network", "codehost"} {
		got := p.api().mustGet(t, "/v1/webset/"+webset+"/person", map[string][]string{webset: {"missing"}})
		require.Equal(t, http.StatusOK, got.status)
		require.JSONEq(t, `{}`, string(got.body))
	}

	t.Run("accounts", func(t *testing.T) { accounts(t, p) })
	t.Run("bad input", func(t *testing.T) { badInput(t, p) })
	t.Run("ingest", func(t *testing.T) { ingestCommand(t, p) })
	p.stop(t)

	again := start(t, dataDir) // without --no-sample
	require.Equal(t, p.APIKey, again.APIKey)
	require.NotContains(t, again.errors.String(), "Generating", "a used directory gets no sample")
	again.stop(t)
}

// Connections with an unfinished request, or without one, are closed.
func TestUp_StopsDespiteOpenConnections(t *testing.T) {
	t.Parallel()
	p := start(t, newDataDir(t), "--no-sample")
	var dialer net.Dialer
	for _, url := range []string{p.BaseURL, p.AdminURL, p.IngestURL} {
		silent, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = silent.Close() })
		require.NotZero(t, (&api{base: url, client: newClient()}).mustGet(t, "/healthz", nil).status)
	}
	p.stop(t)
}

// accountView is the output of `muster account ... --json`.
type accountView struct {
	OrganizationID string `json:"organization_id"`
	Active         bool   `json:"active"`
	Plan           string `json:"plan"`
	Key            string `json:"key"`
	Keys           []struct {
		ID string `json:"id"`
	} `json:"keys"`
}

// accounts checks that changes take effect within a second. On a busy machine one of them may take longer.
func accounts(t *testing.T, p *platform) {
	var took []time.Duration
	defer func() {
		if !t.Failed() {
			slices.Sort(took)
			t.Logf("changes took effect after %s", took)
			require.Less(t, took[len(took)/2], time.Second)
		}
	}()
	var created accountView
	p.musterJSON(t, &created, "account", "create", "Example Ltd", "--json")
	require.NotEmpty(t, created.OrganizationID)
	require.NotEmpty(t, created.Key)

	statusWithin := func(key string, want int) answer {
		t.Helper()
		caller := &api{base: p.BaseURL, key: key, client: newClient()}
		var got answer
		began := time.Now()
		eventually(t, 30*time.Second, func() (bool, string) {
			got = caller.mustPost(t, "/v1/person/enrich", map[string]any{"codehost": "missing"})
			return got.status == want, "status " + itoa(got.status) + ", want " + itoa(want)
		})
		took = append(took, time.Since(began))
		return got
	}
	statusWithin(created.Key, http.StatusOK)

	var second accountView
	p.musterJSON(t, &second, "account", "key", "create", created.OrganizationID, "--name", "narrow", "--scopes",
		"webset", "--json")
	narrow := statusWithin(second.Key, http.StatusForbidden)
	require.Contains(t, narrow.detail(t), "enrich", "the missing scope")
	webset := (&api{base: p.BaseURL, key: second.Key, client: newClient()}).mustGet(t, "/v1/webset/codehost/person",
		map[string][]string{"codehost": {"missing"}})
	require.Equal(t, http.StatusOK, webset.status)

	p.muster(t, "account", "deactivate", created.OrganizationID)
	inactive := statusWithin(created.Key, http.StatusForbidden)
	require.Contains(t, inactive.detail(t), "inactive")
	for _, path := range []string{"/v1/company/enrich", "/v1/webset/network/person", "/v1/webset/codehost/person"} {
		got := (&api{base: p.BaseURL, key: created.Key, client: newClient()}).mustPost(t, path, map[string]any{})
		require.Equal(t, http.StatusForbidden, got.status,
			"%s: 403 comes before validation of the body (rulings.md, Errors)", path)
	}
	p.muster(t, "account", "activate", created.OrganizationID)
	statusWithin(created.Key, http.StatusOK)

	id := strings.TrimPrefix(created.Key, "mk_live_")[:8]
	require.Contains(t, p.muster(t, "account", "show", created.OrganizationID), id)
	require.NotContains(t, p.muster(t, "account", "show", created.OrganizationID, "--json"),
		created.Key[len("mk_live_")+9:], "a key is shown once")
	p.muster(t, "account", "key", "revoke", id)
	revoked := statusWithin(created.Key, http.StatusUnauthorized)
	require.NotEmpty(t, revoked.detail(t))

	var listed []accountView
	p.musterJSON(t, &listed, "account", "list", "--json")
	require.Len(t, listed, 2, "this one and the development organization")

	r, err := muster(t.Context(), p.dataDir, "account", "deactivate", "org_nobody")
	require.NoError(t, err)
	require.Equal(t, 2, r.status)
	require.Contains(t, r.errors, "org_nobody")
}

// ingestCommand checks exit statuses and messages.
func ingestCommand(t *testing.T, p *platform) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	good := write("good.ndjson",
		`{"profile_id":"one","username":"first-one","last_updated":"2026-01-01T00:00:00Z"}`+"\n")
	bad := write("bad.ndjson", `{"profile_id":"two","username":"second","last_updated":"2026-01-01T00:00:00Z"}
{"profile_id":"three","username":3,"last_updated":"2026-01-01T00:00:00Z"}
{"username":"missing"}
not JSON
`)
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   []string
	}{
		{"all published", []string{"network-person", good}, 0, nil},
		{"some rejected", []string{"network-person", bad}, 1, []string{"3", "reject"}},
		{"no such file", []string{"network-person", filepath.Join(dir, "absent")}, 2, []string{"absent"}},
		{"no such kind", []string{"network-persons", good}, 2, []string{"network-persons", "network-person"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := muster(t.Context(), p.dataDir, append([]string{"ingest"}, c.args...)...)
			require.NoError(t, err)
			require.Equal(t, c.status, r.status, r.out+r.errors)
			for _, s := range c.says {
				require.Contains(t, r.out+r.errors, s)
			}
		})
	}
	t.Run("standard input", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), binary, "--data-dir", p.dataDir, "ingest", "codehost-person", "-")
		cmd.Env = environment()
		cmd.Stdin = strings.NewReader(
			`{"user_id":1,"codehost_username":"from-a-pipe","last_updated":"2026-01-01T00:00:00Z"}`)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	})
	p.muster(t, "status", "--wait", "--timeout", "30s")
	for webset, names := range map[string][]string{"network": {"first-one", "second"}, "codehost": {"from-a-pipe"}} {
		for _, name := range names {
			got := p.api().mustGet(t, "/v1/webset/"+webset+"/person", map[string][]string{webset: {name}})
			require.Contains(t, string(got.body), name)
		}
	}
}

func TestHelp_EveryCommandHasADescription(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	root := help(ctx, t)
	require.Contains(t, root, "muster up")
	var walk func(path []string)
	seen := 0
	walk = func(path []string) {
		seen++
		text := help(ctx, t, path...)
		require.Contains(t, text, "Usage:", path)
		first, _, _ := strings.Cut(text, "\n")
		require.NotEmpty(t, strings.TrimSpace(first), "muster %s has no description", strings.Join(path, " "))
		require.NotContains(t, first, "Usage:", "muster %s has no description", strings.Join(path, " "))
		for _, name := range subcommands(text) {
			if name != "help" && name != "completion" {
				walk(append(path[:len(path):len(path)], name))
			}
		}
	}
	walk(nil)
	require.Greater(t, seen, 10)
	for _, name := range []string{"up", "status", "generate", "ingest", "migrate", "account", "engine"} {
		require.Contains(t, subcommands(root), name)
	}
	for _, name := range []string{"up", "ingest", "generate", "account", "migrate"} {
		require.Contains(t, help(ctx, t, name), "Examples:", name)
	}
}

func help(ctx context.Context, t *testing.T, path ...string) string {
	t.Helper()
	r, err := muster(ctx, "unused", append(path, "--help")...)
	require.NoError(t, err)
	require.Zero(t, r.status, r.errors)
	return r.out
}

// subcommands returns the commands in a help text: indented lines in sections that end in a colon, before the flags.
func subcommands(text string) []string {
	var names []string
	_, text, _ = strings.Cut(text, "\nUsage:")
	listing := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
			listing = line != "Examples:" && !strings.Contains(line, "Flags")
		case listing && strings.HasPrefix(line, "  "):
			if fields := strings.Fields(line); len(fields) > 1 {
				names = append(names, fields[0])
			}
		case line == "":
		default:
			listing = false
		}
	}
	return names
}
