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

	"muster/deploy/instance"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Welcome is what a started platform says of itself.
type Welcome struct {
	Instance instance.Instance
	DataDir  string
	// Person is a username on Platform, "codehost" or "network", that answers with records of
	// both websets, or of one if there is none such; empty when there are no people.
	Person, Platform string
	// Company is a slug that answers; empty when there is none.
	Company string
	// Untried says that there may be people, and the API did not answer with one.
	Untried bool
	// KeepKey leaves the API key out of the text, which says where it is instead: what is no
	// terminal may be a log.
	KeepKey bool
}

// findExamples finds a person and a company that the API answers.
func (w *Welcome) findExamples(ctx context.Context, conn driver.Conn) error {
	best := 0
	for _, e := range []struct{ platform, query string }{
		{identity.Codehost, examplesQuery("codehost_people", "user_id", "codehost_username", " AND notEmpty(network_username_keys)")},
		{identity.Codehost, examplesQuery("codehost_people", "user_id", "codehost_username", "")},
		{identity.Network, examplesQuery("network_people", "profile_hash", "username", "")},
	} {
		if best > 0 {
			break
		}
		people, err := names(ctx, conn, e.query)
		if err != nil {
			return fmt.Errorf("look for an example person: %w", err)
		}
		for _, username := range people {
			matched, err := askEnrich(ctx, w.Instance, e.platform, username)
			if err != nil {
				return fmt.Errorf("try the API: %w", err)
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
		return fmt.Errorf("look for an example company: %w", err)
	}
	if len(companies) > 0 {
		w.Company = companies[0]
	}
	return nil
}

// examplesQuery reads some names of a table, of rows that are current. It finds them in the first that come, since
// going through a whole table takes the first calls' time.
func examplesQuery(table, key, name, also string) string {
	where := "deleted = 0 AND " + name + " != ''" + also
	return "SELECT " + name + " FROM " + table + " FINAL WHERE " + key + " IN (SELECT " + key + " FROM " + table + " WHERE " + where + " LIMIT 20) AND " + where
}

func names(ctx context.Context, conn driver.Conn, query string) (list []string, err error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, rows.Err()
}

// askEnrich returns how many websets answer for a username on a platform.
func askEnrich(ctx context.Context, in instance.Instance, platform, username string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(map[string]any{enrichField(platform): username, "websets": []string{"codehost", "network"}}, json.Deterministic(true))
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.BaseURL+"/v1/person/enrich", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+in.APIKey)
	req.Header.Set("Content-Type", "application/json")
	// Without a proxy, whatever the environment says: it would be handed the key.
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

// enrichField is the member of an enrichment that takes a username on a platform.
func enrichField(platform string) string {
	if platform == identity.Network {
		return "network_username"
	}
	return platform
}

// WriteText prints where everything answers, and curl lines that work as they
// stand.
func (w Welcome) WriteText(out io.Writer) error {
	in := w.Instance
	var b strings.Builder
	key := in.APIKey
	if w.KeepKey {
		key = `"api_key" in ` + filepath.Join(w.DataDir, instance.FileName)
	}
	login := ""
	if in.KafkaUser != "" {
		login = `  (SCRAM-SHA-256; "kafka_user" and "kafka_password" in ` + filepath.Join(w.DataDir, instance.FileName) + ")"
	}
	fmt.Fprintf(&b, `
muster is running; Ctrl-C stops it. Its data stays in %s.

  API         %s
  To read     %s/docs
  API key     %s
  Ingest      %s
  Admin       %s  (status page; /metrics /healthz /readyz)
  ClickHouse  %s  (SQL; without a password: read-only)
  Kafka       %s%s

Try:

`, w.DataDir, in.BaseURL, in.BaseURL, key, in.IngestURL, in.AdminURL, withoutUser(in.ClickHouseURL), in.Kafka, login)
	for _, line := range w.Curl() {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if w.Person == "" && !w.Untried {
		b.WriteString("\nThere are no people yet: `muster generate` invents some, `muster ingest` streams records in.\n")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(out, b.String())
	return err
}

// Curl returns command lines that show the platform at work.
func (w Welcome) Curl() []string {
	in := w.Instance
	auth := fmt.Sprintf("-H 'Authorization: Bearer %s'", in.APIKey)
	if w.KeepKey {
		file := filepath.Join(w.DataDir, instance.FileName)
		if absolute, err := filepath.Abs(file); err == nil {
			file = absolute
		}
		auth = fmt.Sprintf(`-H "Authorization: Bearer $(sed -n 's/^ *"api_key": "\(.*\)".*/\1/p' %s)"`, shellQuote(file))
	}
	post := func(path string, body any) string {
		raw, err := json.Marshal(body, json.Deterministic(true))
		if err != nil {
			panic(err) // maps of strings always encode
		}
		return fmt.Sprintf("curl -s %s/v1%s %s -H 'Content-Type: application/json' -d %s", in.BaseURL, path, auth, shellQuote(string(raw)))
	}
	lines := []string{}
	other, profile := "network", "https://codehost.example/"
	if w.Platform == identity.Network {
		other, profile = "codehost", "https://network.example/in/"
	}
	if w.Person != "" {
		lines = append(lines,
			post("/person/enrich", map[string]any{enrichField(w.Platform): w.Person, "websets": []string{"codehost", "network"}}),
			fmt.Sprintf("curl -sG %s/v1/webset/%s/person %s --data-urlencode %s -d addons=%s",
				in.BaseURL, w.Platform, auth, shellQuote(w.Platform+"="+w.Person), other),
			post("/context", map[string]any{
				"person": "met at a meetup, " + profile + w.Person,
				"schema": map[string]any{"skills": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
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

// shellQuote makes a string one word of a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
