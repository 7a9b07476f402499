package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
)

// subject is a person to erase: the accounts by platform, and their identifiers.
type subject struct {
	ids     map[string]string
	handles map[string][]string
	emails  []string
}

// identifiers returns the subject's identifiers as arguments of `muster erase`.
func (s subject) identifiers() (out [][2]string) {
	names := map[string]string{"network": "profile_id", "codehost": "user_id"}
	for platform, id := range s.ids {
		if names[platform] != "" {
			out = append(out, [2]string{names[platform], id})
		}
	}
	for platform, handles := range s.handles {
		for _, h := range handles {
			out = append(out, [2]string{platform + "_username", h})
		}
	}
	for _, e := range s.emails {
		out = append(out, [2]string{"email", e})
	}
	return out
}

// subjects returns the first people with accounts on both websets and unshared addresses.
func subjects(t *testing.T, dir string, n int) []subject {
	t.Helper()
	tr := readTruth(t, dir)
	var out []subject
	require.NoError(t, lines(filepath.Join(dir, "truth.ndjson"), func(raw []byte) error {
		var l struct {
			Type     string `json:"type"`
			Accounts []struct {
				Platform  string `json:"platform"`
				Identity  string `json:"identity"`
				Withdrawn bool   `json:"withdrawn"`
			} `json:"accounts"`
		}
		if err := json.Unmarshal(raw, &l); err != nil || l.Type != "entity" || len(out) == n {
			return err
		}
		s := subject{ids: map[string]string{}, handles: map[string][]string{}}
		for _, a := range l.Accounts {
			if !a.Withdrawn {
				s.ids[a.Platform] = a.Identity
			}
		}
		network, codehost := s.ids["network"], s.ids["codehost"]
		if network == "" || codehost == "" {
			return nil
		}
		for platform := range s.ids {
			for _, h := range tr.handles[platform] {
				if h.holder != "" && h.holder == s.ids[platform] {
					s.handles[platform] = append(s.handles[platform], h.name)
				}
			}
		}
		for _, e := range tr.emails {
			if !e.shared && (e.network == network || e.codehost == codehost) &&
				(e.network == network || e.network == "") && (e.codehost == codehost || e.codehost == "") {
				s.emails = append(s.emails, e.address)
			}
		}
		out = append(out, s)
		return nil
	}))
	require.Len(t, out, n)
	return out
}

// ask posts to the API and returns the response. It retries a search that exceeds its time limit on a busy machine.
func ask(t *testing.T, p *platform, path string, body any, header ...string) string {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	for attempt := 1; ; attempt++ {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.BaseURL+path, bytes.NewReader(raw))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+p.APIKey)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if attempt < 5 && resp.StatusCode == http.StatusBadRequest &&
			bytes.Contains(answer, []byte("the query takes longer than")) {
			continue
		}
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, answer)
		return string(answer)
	}
}

// shownBy returns which endpoint returns a record of the subject, or "".
func shownBy(t *testing.T, p *platform, s subject) string {
	t.Helper()
	network, codehost := s.ids["network"], s.ids["codehost"]
	var answers []string
	for _, h := range s.handles["network"] {
		answers = append(answers,
			ask(t, p, "/v1/person/enrich", map[string]any{"network_username": h, "websets": both}),
			ask(t, p, "/v1/webset/network/person",
				map[string]any{"network": h, "addons": []string{"codehost", "personal_email"}}))
		if len(ask(t, p, "/v1/person/discover", map[string]any{"network": h})) > 400 {
			return "discovery by " + h
		}
	}
	for _, h := range s.handles["codehost"] {
		answers = append(answers, ask(t, p, "/v1/person/enrich", map[string]any{"codehost": h, "websets": both}),
			ask(t, p, "/v1/webset/codehost/person", map[string]any{"codehost": h, "addons": []string{"network"}}))
	}
	for _, e := range s.emails {
		answers = append(answers, ask(t, p, "/v1/person/enrich", map[string]any{"email": e, "websets": both}))
	}
	// Digits are first an ID, then a username that another person may have.
	if a := ask(t, p, "/v1/webset/codehost/person", map[string]any{"codehost": codehost}); strings.HasPrefix(a,
		`{"user_id":`+codehost+",") {
		answers = append(answers, a)
	}
	for _, a := range answers {
		if a != "{}" && !strings.HasPrefix(a, `{"websets_matched":[]`) {
			return a[:min(len(a), 300)]
		}
	}
	found := ask(t, p, "/v1/person/search",
		map[string]any{"query": map[string]any{"match_all": map[string]any{}}, "size": 100})
	if strings.Contains(found, `"`+network+`"`) {
		return "search"
	}
	return ""
}

// searchPage returns a page of all people by connections, and the next cursor.
func searchPage(t *testing.T, p *platform, cursor *string) (ids []string, next *string) {
	t.Helper()
	var answer struct {
		Results []struct {
			ProfileID string `json:"profile_id"`
		} `json:"results"`
		NextCursor *string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal([]byte(ask(t, p, "/v1/person/search", map[string]any{
		"query": map[string]any{"match_all": map[string]any{}},
		"sort":  []any{map[string]any{"profile.connections": "desc"}}, "size": 60, "cursor": cursor,
	})), &answer))
	for _, r := range answer.Results {
		ids = append(ids, r.ProfileID)
	}
	return ids, answer.NextCursor
}

// stored counts the rows of the subjects, and checksums those of others.
func stored(t *testing.T, p *platform, all []subject, not erasureTargets) (theirs, othersRows string) {
	t.Helper()
	var profiles, users []string
	for _, s := range all {
		profiles, users = append(profiles, "'"+s.ids["network"]+"'"), append(users, s.ids["codehost"])
	}
	in, of := strings.Join(profiles, ","), strings.Join(users, ",")
	q := "SELECT 0"
	for _, w := range []string{
		"network_people WHERE profile_id IN (" + in + ")", "search_people WHERE profile_id IN (" + in + ")",
		"codehost_people WHERE user_id IN (" + of + ")",
		"codehost_repos WHERE user_id IN (" + of + ")", "codehost_commits WHERE user_id IN (" + of + ")",
		"codehost_lists WHERE user_id IN (" + of + ")",
		"lookups WHERE target_kind IN ('network-person') AND target IN (" + in + ")",
		"lookups WHERE target_kind = 'codehost-person' AND toUInt64OrZero(target) IN (" + of + ")",
	} {
		q += " + (SELECT count() FROM " + w + ")"
	}
	return query(t, p, q), checksumOthers(t, p, not)
}

func query(t *testing.T, p *platform, sql string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.ClickHouseURL, strings.NewReader(sql))
	require.NoError(t, err)
	req.URL.Path, req.URL.RawQuery = "/", "database=muster"
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", sql, answer)
	return strings.TrimSpace(string(answer))
}

// Erased people, by any way of requesting it, are on no endpoint, in no table, and after the rewrite in no file.
// Ingesting the same records again and a replay do not bring them back. Other people are unchanged.
func TestErase_RemovesPeopleEverywhere(t *testing.T) {
	t.Parallel()
	people, n := 5000, 200
	if testing.Short() {
		people, n = 150, 9
	} else {
		t.Run("within the time", erasedWithinDeadline)
	}
	world := generate(t, people, 5)
	all := subjects(t, world, n+20)
	listed := slices.DeleteFunc(slices.Clone(all[n:]), func(s subject) bool { return len(s.emails) == 0 })
	all = all[:n]
	p := start(t, newDataDir(t), "--no-sample")
	ingestAll(t, p, world)
	for _, s := range all[:3] {
		require.NotEmpty(t, shownBy(t, p, s))
	}
	before := ask(t, p, "/v1/person/enrich", map[string]any{"codehost": all[0].handles["codehost"][0]},
		"Idempotency-Key", "k")
	require.Contains(t, before, `"user_id":`)
	_, cursor := searchPage(t, p, nil)
	require.NotNil(t, cursor)
	first, _ := searchPage(t, p, cursor)
	not := erasureTargetsOf(t, p, all)
	_, want := stored(t, p, all, not)
	shows(t, p, all[0])

	var fileLines bytes.Buffer
	for i, s := range all {
		switch i % 3 {
		case 0:
			args := []string{"erase", "--now", "--timeout", "0"} // gone waits for all of them
			for _, id := range s.identifiers() {
				args = append(args, id[0]+"="+id[1])
			}
			p.muster(t, args...)
		case 1:
			fileLines.Write(erasureOf(t, s))
		default:
			push(t, p, erasureOf(t, s))
		}
	}
	path := filepath.Join(t.TempDir(), "erasures.ndjson")
	require.NoError(t, os.WriteFile(path, fileLines.Bytes(), 0o600))
	p.muster(t, "ingest", "erasure", path)

	gone := func(what string) {
		t.Helper()
		for i, s := range all {
			eventually(t, 5*time.Minute, func() (bool, string) {
				where := shownBy(t, p, s)
				return where == "", fmt.Sprintf("%s: subject %d is shown: %s", what, i, where)
			})
		}
		require.NotContains(t,
			ask(t, p, "/v1/person/enrich", map[string]any{"codehost": all[0].handles["codehost"][0]}, "Idempotency-Key",
				"k"), `"user_id":`)
		eventually(t, 5*time.Minute, func() (bool, string) {
			theirs, othersRows := stored(t, p, all, not)
			return theirs == "0" && othersRows == want,
				fmt.Sprintf("%s: %s rows of the subjects, %s of others, want 0 and %s", what, theirs, othersRows, want)
		})
	}
	gone("erased")
	// A walk that started before continues without them.
	second, _ := searchPage(t, p, cursor)
	erased := make(map[string]bool)
	for _, s := range all {
		erased[s.ids["network"]] = true
	}
	kept := slices.DeleteFunc(first,
		func(id string) bool { return erased[id] || strings.Contains(not.profiles, "'"+id+"'") })
	require.NotEmpty(t, kept)
	require.Subset(t, second, kept)
	require.False(t, slices.ContainsFunc(second, func(id string) bool { return erased[id] }),
		"an erased person on the next page")
	for _, kind := range kinds {
		p.muster(t, "ingest", "--again", kind, file(world, kind))
	}
	p.muster(t, "status", "--wait", "--timeout", "3m")
	gone("ingested again")
	p.muster(t, "replay")
	p.muster(t, "replay", "--drop-old")
	gone("replayed")
	attested(t, p)
	if !testing.Short() {
		eventuallyEvery(t, 10*time.Minute, time.Second, func() (bool, string) {
			var status struct {
				Requests int            `json:"requests"`
				States   map[string]int `json:"states"`
			}
			p.musterJSON(t, &status, "erase", "status", "--json")
			return status.Requests == n && status.States["deleted"] == n, fmt.Sprint(status)
		})
		inTables(t, p, all)
		inTopics(t, p, all)
		inFiles(t, p.dataDir, all)
	}
	// After a withdrawal, the next ingest brings the records back.
	args := []string{"erase", "withdraw"}
	for _, id := range all[0].identifiers() {
		args = append(args, id[0]+"="+id[1])
	}
	p.muster(t, args...)
	for _, kind := range []string{oracle.CodehostPerson, oracle.NetworkPerson} {
		p.muster(t, "ingest", "--again", kind, file(world, kind))
	}
	p.muster(t, "status", "--wait", "--timeout", "3m")
	require.NotEmpty(t, shownBy(t, p, all[0]))
	require.Empty(t, shownBy(t, p, all[1]))
	require.GreaterOrEqual(t, len(listed), 2)
	imports(t, p, listed[0], listed[1])
	p.stop(t)
}

func erasureOf(t *testing.T, s subject) []byte {
	t.Helper()
	type identifier struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	var list []identifier
	for _, id := range s.identifiers() {
		list = append(list, identifier{id[0], id[1]})
	}
	raw, err := json.Marshal(map[string]any{"identifiers": list, "requested_at": "2026-11-21", "requested_by": "a test",
		"urgent": true})
	require.NoError(t, err)
	return append(raw, '\n')
}

func push(t *testing.T, p *platform, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.IngestURL+"/ingest/v1/erasure",
		bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+p.OperatorToken)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
}
