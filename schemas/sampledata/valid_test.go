package sampledata

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// required returns the identity, required and version fields of each kind (records.md), in this order, with their
// types.
func required() map[string][][2]string {
	return map[string][][2]string{
		NetworkPerson:   {{"profile_id", "string"}, {"username", "string"}, {"last_updated", "time"}},
		NetworkCompany:  {{"company_id", "string"}, {"last_updated", "time"}},
		CodehostPerson:  {{"user_id", "integer"}, {"codehost_username", "string"}, {"last_updated", "time"}},
		CodehostRepo:    {{"user_id", "integer"}, {"id", "integer"}, {"updated_at", "time"}},
		CodehostCommit:  {{"user_id", "integer"}, {"sha", "string"}, {"author_date", "time"}},
		MicroblogPerson: {{"user_id", "string"}, {"username", "string"}, {"last_updated", "time"}},
		AccountLink:     {{"source", "string"}, {"observed_at", "time"}},
	}
}

// fieldTypes returns the types of the remaining fields at any depth; null is allowed for all of them.
func fieldTypes() map[string]string {
	types := map[string]string{}
	for kind, names := range map[string]string{
		"string": `first_name middle_name last_name full_name username url photo headline summary city state country
			continent start end name network_url credential_id credential_url issuer proficiency language skill
			personal_email raw_address country_code title description company_id school_id field_of_study
			issue_date codehost_username network_username microblog_username tagline industry company_size
			website phone region postal_code line1 line2 logo cover network_slug network_id avatar_url bio blog
			school_email personal_website sha message author_name author_email author_login account_type type
			label timezone source platform`,
		"integer": `connections followers following employees founded public_repos public_gists ` +
			`stargazers_count forks_count id`,
		"number":  `latitude longitude confidence`,
		"boolean": `current hireable deleted repos_complete commits_complete fork archived`,
		"array": `experience education certifications languages skills degrees majors minors emails social_accounts
			specialties repos commits topics additional_emails starred_repos follower_accounts followed_accounts`,
		"object": `current_position school location_canonical profile headquarters images repo a b`,
		"time":   `created_at updated_at last_updated author_date observed_at`,
	} {
		for _, n := range strings.Fields(names) {
			types[n] = kind
		}
	}
	return types
}

func isType(tb testing.TB, v any, kind string) bool {
	tb.Helper()
	switch x := v.(type) {
	case string:
		if kind == "time" {
			instant(tb, x)
			return true
		}
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && x == float64(int64(x))
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return v == nil
}

// Decodes strictly: duplicate names and invalid UTF-8 are errors. Checks required fields, types, dates and hosts.
func TestRecords_AreValid(t *testing.T) {
	m := generate(t, Options{People: 2500, Seed: 41})
	partial := regexp.MustCompile(`^\d{4}(-\d{2}(-\d{2})?)?$`)
	host := regexp.MustCompile(`(?i)https?://([^/?"#\s]+)`)
	mail := regexp.MustCompile(`(?i)[^\s"@<>]+@([a-z0-9.-]+)`)
	reserved := func(h string) bool {
		h = strings.ToLower(h)
		for _, s := range []string{"example.com", "example.net", "example.org"} {
			if h == s || strings.HasSuffix(h, "."+s) {
				return true
			}
		}
		return strings.HasSuffix(h, ".example")
	}
	types, needs := fieldTypes(), required()
	var walk func(rec, v any, key string)
	walk = func(rec, v any, key string) {
		if kind, ok := types[key]; ok {
			require.True(t, isType(t, v, kind), "%s: %v is not a %s in %v", key, v, kind, rec)
		}
		switch x := v.(type) {
		case map[string]any:
			for k, e := range x {
				walk(rec, e, k)
			}
		case []any:
			for _, e := range x {
				walk(rec, e, "")
			}
		case string:
			if key == "start" || key == "end" || key == "issue_date" {
				require.Regexp(t, partial, x)
			}
			for _, u := range host.FindAllStringSubmatch(x, -1) {
				require.True(t, reserved(u[1]), "%s in %s", u[1], x)
			}
			if strings.Contains(key, "email") {
				u := mail.FindStringSubmatch(x)
				require.True(t, x == "" || len(u) == 2 && reserved(u[1]), "%s %q", key, x)
			}
		}
	}
	for _, kind := range Kinds() {
		require.NotEmpty(t, m.lines[kind], kind)
		for _, l := range m.lines[kind] {
			require.NotContains(t, string(l), "\n")
			rec := decode(t, l)
			deleted := rec["deleted"] == true
			for _, need := range needs[kind] {
				if deleted && (need[0] == "username" || need[0] == "codehost_username") {
					continue
				}
				require.NotNil(t, rec[need[0]], "%s: %s", need[0], l)
				require.True(t, isType(t, rec[need[0]], need[1]), "%s: %s", need[0], l)
				require.NotEmpty(t, rec[need[0]])
			}
			// Fields of the kind whose shape differs from the same name elsewhere.
			if loc := rec["location"]; loc != nil {
				want := map[string]string{NetworkPerson: "object", CodehostPerson: "string",
					MicroblogPerson: "string"}[kind]
				require.True(t, isType(t, loc, want), "%s", l)
			}
			if kind == MicroblogPerson {
				require.True(t, isType(t, rec["name"], "string"))
			}
			if kind == AccountLink {
				for _, end := range []string{"a", "b"} {
					x := rec[end].(map[string]any)
					require.NotEmpty(t, x["username"])
					require.Contains(t, []any{"network", "codehost", "microblog"}, x["platform"])
				}
			}
			if !deleted && kind != AccountLink {
				walk(rec, rec, "")
			}
		}
	}
}
