package standalone

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/deploy/internal/instance"
	"muster/platform/clickhouse"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// StartupSummary is what a started platform reports about itself.
type StartupSummary struct {
	Instance instance.Instance
	DataDir  string
	// Person is a username on Platform, "codehost" or "network", that the API finds in both websets, or in one if no
	// person is in both; empty if there are no people.
	Person, Platform string
	// Company is a slug that the API finds; empty if there is none.
	Company string
	// Untried reports that there may be people, but the API found none of the examples.
	Untried bool
	// KeepKey replaces the API key in the text with the file that contains it: an output that is not a terminal may be
	// a log.
	KeepKey bool
}

// findExamples finds a person and a company that the API returns.
func (w *StartupSummary) findExamples(ctx context.Context, conn driver.Conn) error {
	best := 0
	for _, e := range []struct{ platform, query string }{
		{identity.Codehost,
			examplesQuery("codehost_people", "user_id", "codehost_username", " AND notEmpty(network_username_keys)")},
		{identity.Codehost, examplesQuery("codehost_people", "user_id", "codehost_username", "")},
		{identity.Network, examplesQuery("network_people", "profile_hash", "username", "")},
	} {
		if best > 0 {
			break
		}
		people, err := names(ctx, conn, e.query)
		if err != nil {
			return fmt.Errorf("find an example person: %w", err)
		}
		for _, username := range people {
			matched, err := askEnrich(ctx, w.Instance, e.platform, username)
			if err != nil {
				return fmt.Errorf("call the API: %w", err)
			}
			if matched > best {
				w.Person, w.Platform, best = username, e.platform, matched
			}
			if best == 2 {
				break
			}
		}
	}
	companies, err := names(ctx, conn, examplesQuery("network_companies", "company_hash", "slug_key", ""))
	if err != nil {
		return fmt.Errorf("find an example company: %w", err)
	}
	if len(companies) > 0 {
		w.Company = companies[0]
	}
	return nil
}

// examplesQuery reads some names from current rows of a table. It reads only the first rows, since a scan of a whole
// table would slow down the first calls.
func examplesQuery(table, key, name, also string) string {
	where := "deleted = 0 AND " + name + " != ''" + also
	return "SELECT " + name + " FROM " + table + " FINAL WHERE " + key + " IN (SELECT " + key + " FROM " + table +
		" WHERE " + where + " LIMIT 20) AND " + where
}

func names(ctx context.Context, conn driver.Conn, query string) (list []string, err error) {
	err = clickhouse.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var name string
		err := rows.Scan(&name)
		list = append(list, name)
		return err
	})
	return list, err
}

// askEnrich returns the number of websets that match a username on a platform.
func askEnrich(ctx context.Context, in instance.Instance, platform, username string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]any{enrichField(platform): username,
		"websets": []string{"codehost", "network"}}, json.Deterministic(true))
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.BaseURL+"/v1/person/enrich", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+in.APIKey)
	req.Header.Set("Content-Type", "application/json")
	// No proxy, whatever the environment: it would receive the key.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", resp.Status)
	}
	var answer struct {
		Matched []string `json:"websets_matched"`
	}
	if err := json.UnmarshalRead(io.LimitReader(resp.Body, 64<<20), &answer); err != nil {
		return 0, err
	}
	return len(answer.Matched), nil
}

// enrichField returns the field of an enrichment request for a username on a platform.
func enrichField(platform string) string {
	if platform == identity.Network {
		return "network_username"
	}
	return platform
}

// WriteText prints the addresses, and curl commands that work as they are.
func (w StartupSummary) WriteText(out io.Writer) error {
	in := w.Instance
	var b strings.Builder
	key := in.APIKey
	if w.KeepKey {
		key = `"api_key" in ` + filepath.Join(w.DataDir, instance.FileName)
	}
	login := ""
	if in.KafkaUser != "" {
		login = `  (SCRAM-SHA-256; "kafka_user" and "kafka_password" in ` +
			filepath.Join(w.DataDir, instance.FileName) + ")"
	}
	fmt.Fprintf(&b, `
muster is running; Ctrl-C stops it. Data directory: %s

  API         %s
  Docs        %s/docs
  Explore     %s/explore
  API key     %s
  Ingest      %s
  Admin       %s  (status page; /metrics /healthz /readyz)
  ClickHouse  %s  (SQL; without a password: read-only)
  Kafka       %s%s

Try:

`, w.DataDir, in.BaseURL, in.BaseURL, in.BaseURL, key, in.IngestURL, in.AdminURL, withoutUser(in.ClickHouseURL), in.Kafka, login)
	for _, line := range w.Curl() {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if w.Person == "" && !w.Untried {
		b.WriteString(
			"\nThere are no people yet: create some with `muster generate`, and import records with `muster ingest`.\n")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(out, b.String())
	return err
}

// Curl returns example command lines.
func (w StartupSummary) Curl() []string {
	in := w.Instance
	auth := fmt.Sprintf("-H 'Authorization: Bearer %s'", in.APIKey)
	if w.KeepKey {
		file := filepath.Join(w.DataDir, instance.FileName)
		if absolute, err := filepath.Abs(file); err == nil {
			file = absolute
		}
		auth = fmt.Sprintf(`-H "Authorization: Bearer $(sed -n 's/^ *"api_key": "\(.*\)".*/\1/p' %s)"`,
			shellQuote(file))
	}
	post := func(path string, body any) string {
		raw, err := json.Marshal(body, json.Deterministic(true))
		if err != nil {
			panic(err) // maps of strings always encode
		}
		return fmt.Sprintf("curl -s %s/v1%s %s -H 'Content-Type: application/json' -d %s", in.BaseURL, path, auth,
			shellQuote(string(raw)))
	}
	lines := []string{}
	other, profile := "network", "https://codehost.example/"
	if w.Platform == identity.Network {
		other, profile = "codehost", "https://network.example/in/"
	}
	if w.Person != "" {
		lines = append(lines,
			post("/person/enrich",
				map[string]any{enrichField(w.Platform): w.Person, "websets": []string{"codehost", "network"}}),
			fmt.Sprintf("curl -sG %s/v1/webset/%s/person %s --data-urlencode %s -d addons=%s",
				in.BaseURL, w.Platform, auth, shellQuote(w.Platform+"="+w.Person), other),
			post("/context", map[string]any{
				"person": "met at a meetup, " + profile + w.Person,
				"schema": map[string]any{"skills": map[string]any{"type": "array",
					"items": map[string]any{"type": "string"}}},
			}))
	}
	if w.Company != "" {
		lines = append(lines, post("/company/enrich", map[string]any{"network_slug": w.Company}))
	}
	if w.Person != "" {
		lines = append(lines,
			post("/person/search", map[string]any{
				"query": map[string]any{"match": map[string]any{"profile.headline": "engineer"}}, "size": 3,
				"_source": []string{"profile.full_name", "profile.headline"},
			}),
			post("/person/discover", map[string]any{w.Platform: w.Person}))
	}
	lines = append(lines, fmt.Sprintf("curl -s %s/ -d %s", withoutUser(in.ClickHouseURL),
		shellQuote("SELECT count() FROM "+readmodel.ViewsDatabase(database)+".people")))
	return lines
}

// shellQuote quotes a string for a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
