package sampledata

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

func decode(tb testing.TB, line []byte) map[string]any {
	tb.Helper()
	var v map[string]any
	require.NoError(tb, json.Unmarshal(line, &v), "%s", line)
	return v
}

func instant(tb testing.TB, v any) time.Time {
	tb.Helper()
	s, ok := v.(string)
	require.True(tb, ok, "%v is no timestamp", v)
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(tb, err)
	require.True(tb, strings.HasSuffix(s, "Z"), s)
	return at
}

func identityOf(tb testing.TB, p platform, rec map[string]any) string {
	tb.Helper()
	switch p {
	case onNetwork:
		return rec["profile_id"].(string)
	case onCodehost:
		return number(rec["user_id"].(float64))
	case onMicroblog:
		return rec["user_id"].(string)
	}
	return rec["company_id"].(string)
}

func number(f float64) string {
	b, err := json.Marshal(int64(f))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func handleOf(p platform, rec map[string]any) string {
	key := map[platform]string{onNetwork: "username", onCodehost: "codehost_username", onMicroblog: "username",
		onCompany: "network_slug"}[p]
	s, _ := rec[key].(string)
	return strings.ToLower(s)
}

// newestRecords returns the newest version of each identity of a kind (records.md), in any order.
func newestRecords(
	tb testing.TB, m *memory, p platform,
) (newest map[string]map[string]any, at map[string]time.Time, ever map[string]map[string]bool) {
	tb.Helper()
	newest, at, ever = map[string]map[string]any{}, map[string]time.Time{}, map[string]map[string]bool{}
	for _, l := range m.lines[p.kind()] {
		rec := decode(tb, l)
		id, when := identityOf(tb, p, rec), instant(tb, rec["last_updated"])
		if old, ok := at[id]; ok && old.Equal(when) {
			require.Equal(tb, newest[id], rec, "one version with two contents")
		}
		if old, ok := at[id]; !ok || when.After(old) {
			newest[id], at[id] = rec, when
		}
		if h := handleOf(p, rec); h != "" {
			if ever[h] == nil {
				ever[h] = map[string]bool{}
			}
			ever[h][id] = true
		}
	}
	return newest, at, ever
}

// Recomputes the owner of each handle and e-mail address from the records alone.
func TestTruth_AgreesWithRecords(t *testing.T) {
	m := generate(t, Options{People: 9000, Seed: 11})
	handles, emails := map[string]map[string]any{}, map[string]map[string]any{}
	accounts := map[string]map[string]any{}
	for _, l := range m.truth {
		v := decode(t, l)
		switch v["type"] {
		case "handle":
			key := v["platform"].(string) + " " + v["handle"].(string)
			require.Nil(t, handles[key])
			handles[key] = v
		case "email":
			require.Nil(t, emails[v["email"].(string)])
			emails[v["email"].(string)] = v
		case "entity":
			for _, a := range v["accounts"].([]any) {
				acc := a.(map[string]any)
				key := acc["platform"].(string) + " " + acc["identity"].(string)
				require.Nil(t, accounts[key], "identities are unique")
				accounts[key] = acc
			}
		default:
			t.Fatalf("unknown truth line %s", l)
		}
	}
	var recycled, staleHolders, unowned, numbers, lines int
	for p := range platforms {
		newest, at, ever := newestRecords(t, m, p)
		holder, when := map[string]string{}, map[string]time.Time{}
		for id, rec := range newest {
			acc := accounts[p.String()+" "+id]
			require.NotNil(t, acc, "no account %s %s in the truth", p, id)
			withdrawn := rec["deleted"] == true
			require.Equal(t, withdrawn, acc["withdrawn"])
			require.True(t, instant(t, acc["last_updated"]).Equal(at[id]))
			if withdrawn || handleOf(p, rec) == "" {
				require.Nil(t, acc["username"])
				continue
			}
			h := handleOf(p, rec)
			require.Equal(t, h, strings.ToLower(acc["username"].(string)))
			require.False(t, when[h].Equal(at[id]), "two identities hold %q at the same instant", h)
			if at[id].After(when[h]) {
				holder[h], when[h] = id, at[id]
			}
		}
		for h, ids := range ever {
			lines++
			v := handles[p.String()+" "+h]
			require.NotNil(t, v, "no line for %s %s", p, h)
			if want, ok := holder[h]; ok {
				require.Equal(t, want, v["holder"], "%s %s", p, h)
			} else {
				require.Nil(t, v["holder"], "%s %s", p, h)
				unowned++
			}
			require.Len(t, v["claimants"], len(ids))
			_, isNumber := at[h]
			if isNumber = isNumber && p == onCodehost; isNumber {
				numbers++
				require.Equal(t, h, v["numeric_user_id"])
			} else {
				require.NotContains(t, v, "numeric_user_id")
			}
			for _, c := range v["claimants"].([]any) {
				require.True(t, ids[c.(string)])
			}
			if len(ids) > 1 {
				recycled++
				carrying := 0
				for id := range ids {
					if handleOf(p, newest[id]) == h {
						carrying++
					}
				}
				if carrying > 1 {
					staleHolders++
				}
			}
		}
	}
	require.Len(t, handles, lines)
	t.Logf("%d handles: %d recycled, of them %d on two newest records; %d unowned", lines, recycled, staleHolders,
		unowned)
	require.Positive(t, numbers, "handles that equal a user id")
	require.Greater(t, recycled, 10)
	require.Greater(t, staleHolders, 3)
	require.Greater(t, unowned, 100)

	type stated struct {
		id string
		at time.Time
	}
	found := map[string]map[platform][]stated{}
	for p := onNetwork; p <= onCodehost; p++ {
		newest, at, _ := newestRecords(t, m, p)
		for id, rec := range newest {
			list, _ := rec["emails"].([]any)
			seen := map[string]bool{}
			for _, e := range list {
				s := strings.ToLower(e.(string))
				if seen[s] {
					continue
				}
				seen[s] = true
				if found[s] == nil {
					found[s] = map[platform][]stated{}
				}
				found[s][p] = append(found[s][p], stated{id, at[id]})
			}
			for _, key := range []string{"personal_email", "school_email"} {
				if s, ok := rec[key].(string); ok && s != "" {
					require.True(t, seen[strings.ToLower(s)], "%s %q is in emails, too", key, s)
				}
			}
		}
	}
	require.Len(t, emails, len(found))
	several := 0
	for s, by := range found {
		v := emails[s]
		require.NotNil(t, v, s)
		var best [2]stated
		for p := onNetwork; p <= onCodehost; p++ {
			for _, c := range by[p] {
				if c.at.After(best[p].at) {
					best[p] = c
				}
			}
			if best[p].id == "" {
				require.Nil(t, v[p.String()])
			} else {
				require.Equal(t, best[p].id, v[p.String()], s)
			}
			if len(by[p]) > 1 {
				several++
				require.Equal(t, true, v["shared"])
			}
		}
		newer := "network"
		if best[1].at.After(best[0].at) {
			newer = "codehost"
		}
		require.Equal(t, newer, v["newest"], s)
	}
	t.Logf("%d e-mail addresses, %d stated by several people of one webset", len(found), several)
	require.Greater(t, several, 15)
}

// Compares the declared links with the fields of the newest records.
func TestTruth_LinksAgreeWithRecords(t *testing.T) {
	m := generate(t, Options{People: 3000, Seed: 12})
	newest := map[platform]map[string]map[string]any{}
	for p := onNetwork; p <= onMicroblog; p++ {
		newest[p], _, _ = newestRecords(t, m, p)
	}
	byName := map[string]platform{"network": onNetwork, "codehost": onCodehost, "microblog": onMicroblog}
	type stats struct{ own, foreign, unheld int }
	via := map[string]*stats{}
	fields := 0
	for _, l := range m.truth {
		v := decode(t, l)
		if v["type"] != "entity" {
			continue
		}
		ids := map[string]string{}
		for _, a := range v["accounts"].([]any) {
			acc := a.(map[string]any)
			ids[acc["platform"].(string)] = acc["identity"].(string)
		}
		for _, x := range v["links"].([]any) {
			link := x.(map[string]any)
			kind := link["via"].(string)
			if via[kind] == nil {
				via[kind] = &stats{}
			}
			if link["own"] == true {
				via[kind].own++
			} else {
				via[kind].foreign++
			}
			to := link["to"].(map[string]any)
			from := link["from"].(map[string]any)
			if kind == AccountLink {
				require.True(t, ids[from["platform"].(string)] != "" || ids[to["platform"].(string)] != "",
					"one end is the person's account")
				continue
			}
			p := byName[from["platform"].(string)]
			rec := newest[p][ids[p.String()]]
			require.NotNil(t, rec)
			if h, ok := link["holder"]; ok && h == nil {
				via[kind].unheld++
			}
			if kind == fieldUsername {
				fields++
				require.Equal(t, to["username"], rec[to["platform"].(string)+"_username"])
			}
			if kind == fieldSocial {
				list := rec["social_accounts"].([]any)
				require.True(t, slices.ContainsFunc(list, func(u any) bool {
					return strings.Contains(strings.ToLower(u.(string)),
						strings.ToLower(escapePath(to["username"].(string))))
				}), "%v in %v", to, list)
			}
			if kind == fieldBio {
				require.Contains(t, strings.ToLower(rec["bio"].(string)), strings.ToLower(to["username"].(string)))
			}
		}
	}
	for k, s := range via {
		t.Logf("%s: %d own, %d of others or misspelled, %d to an unowned handle", k, s.own, s.foreign, s.unheld)
	}
	require.Greater(t, fields, 300)
	for _, k := range []string{fieldUsername, fieldSocial, fieldBio, AccountLink} {
		require.NotNil(t, via[k])
		require.Greater(t, via[k].own, 20, k)
	}
	require.Positive(t, via[fieldUsername].foreign)
	require.Positive(t, via[fieldUsername].unheld)

	declared := 0
	for p := onNetwork; p <= onCodehost; p++ {
		for _, rec := range newest[p] {
			for _, key := range []string{"codehost_username", "network_username", "microblog_username"} {
				if _, ok := rec[key]; ok && (p != onCodehost || key != "codehost_username") {
					declared++
				}
			}
		}
	}
	require.Equal(t, fields, declared, "every declared username is in the truth")
}
