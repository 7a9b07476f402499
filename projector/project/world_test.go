package project_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/projector/internal/projectortest"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// The read models equal a recomputation from all generated records.
func TestProjector_ReadModelsEqualRecomputation(t *testing.T) {
	recs := projectortest.WorldRecords(t, 300, 42)
	h := projectortest.New(t)
	h.Start(nil)
	h.PublishRecords(recs...)
	h.CaughtUp()
	require.Empty(t, h.RejectedRecords())
	want := projectortest.Newest(recs)

	tables := map[string]record.Kind{
		"network_people": record.KindNetworkPerson, "network_companies": record.KindNetworkCompany,
		"codehost_people": record.KindCodehostPerson,
		"codehost_repos":  record.KindCodehostRepo, "codehost_commits": record.KindCodehostCommit,
		"codehost_lists":   record.KindCodehostList,
		"microblog_people": record.KindMicroblogPerson, "account_links": record.KindAccountLink,
	}
	for table, kind := range tables {
		require.EqualValues(t, len(want[kind]), h.Count("SELECT count() FROM "+table+" FINAL WHERE NOT deleted"), table)
	}
	t.Run("lookups agree with main rows", func(t *testing.T) { requireLookups(t, h.Store, want) })
	t.Run("repositories and commits", func(t *testing.T) { requireEntries(t, h.Store, want) })
	t.Run("no e-mail without the add-on", func(t *testing.T) { requireNoMail(t, h.Store, want) })

	// Repeating the records, as a replay does, changes nothing.
	before := h.Count("SELECT sum(cityHash64(profile_id, version, content)) FROM network_people FINAL")
	h.PublishRecords(recs...)
	h.CaughtUp()
	require.Equal(t, before, h.Count("SELECT sum(cityHash64(profile_id, version, content)) FROM network_people FINAL"))
	for table, kind := range tables {
		require.EqualValues(t, len(want[kind]), h.Count("SELECT count() FROM "+table+" FINAL WHERE NOT deleted"), table)
	}
}

// requireLookups checks that every identifying value of every current record has a candidate for it.
func requireLookups(t *testing.T, s *projectortest.Store, want map[record.Kind]map[string]*record.Record) {
	type target struct {
		lookup readmodel.LookupType
		value  string
		target string
	}
	var wanted []target
	for _, r := range want[record.KindNetworkPerson] {
		p := r.Body.(*record.NetworkPerson)
		wanted = append(wanted, target{readmodel.LookupNetworkUsername, identity.NormalizeUsername(p.Username), r.Key})
		for _, e := range append(p.Emails, p.PersonalEmail) {
			if key, err := identity.NormalizeEmail(e); err == nil {
				wanted = append(wanted, target{readmodel.LookupNetworkEmail, key, r.Key})
			}
		}
		if key := identity.NormalizeUsername(p.CodehostUsername); key != "" {
			wanted = append(wanted, target{readmodel.LookupNetworkCodehostUsername, key, r.Key})
		}
	}
	for _, r := range want[record.KindCodehostPerson] {
		p := r.Body.(*record.CodehostPerson)
		wanted = append(wanted, target{readmodel.LookupCodehostUsername, identity.NormalizeUsername(p.CodehostUsername),
			r.Key})
		for _, e := range append(slices.Concat(p.Emails, p.AdditionalEmails), p.PersonalEmail, p.SchoolEmail) {
			if key, err := identity.NormalizeEmail(e); err == nil {
				wanted = append(wanted, target{readmodel.LookupCodehostEmail, key, r.Key})
			}
		}
	}
	for _, r := range want[record.KindNetworkCompany] {
		if key := identity.NormalizeUsername(r.Body.(*record.NetworkCompany).NetworkSlug); key != "" {
			wanted = append(wanted, target{readmodel.LookupCompanySlug, key, r.Key})
		}
	}
	for _, r := range want[record.KindAccountLink] {
		l := r.Body.(*record.AccountLink)
		a, b := identity.NormalizeUsername(l.A.Username), identity.NormalizeUsername(l.B.Username)
		wanted = append(wanted, target{readmodel.LookupLink(l.A.Platform), a, l.B.Platform + ":" + b},
			target{readmodel.LookupLink(l.B.Platform), b, l.A.Platform + ":" + a})
	}
	require.NotEmpty(t, wanted)
	for chunk := range slices.Chunk(wanted, readmodel.MaxKeys) {
		keys := make([]uint64, len(chunk))
		for i, w := range chunk {
			keys[i] = readmodel.KeyHash(w.lookup, w.value)
		}
		found := map[target]bool{}
		for _, rows := range s.Lookups(keys...) {
			for _, r := range rows {
				found[target{readmodel.LookupType(r.Type), r.Value, r.Target}] = true
			}
		}
		for _, w := range chunk {
			require.True(t, found[w], "%+v", w)
		}
	}
}

// requireEntries recomputes the visible entries of every account.
func requireEntries(t *testing.T, s *projectortest.Store, want map[record.Kind]map[string]*record.Record) {
	type entry struct {
		version record.Version
		id      int64
	}
	visible := map[int64][]entry{}
	commits := map[int64]int{}
	listed := func(user int64, list, item string, version record.Version) bool {
		l := want[record.KindCodehostList][fmt.Sprintf("%d/%s", user, list)]
		return l == nil || version > l.Version || slices.Contains(l.Body.(*record.CodehostList).Items, item)
	}
	for _, r := range want[record.KindCodehostRepo] {
		p := r.Body.(*record.CodehostRepo)
		if listed(*p.UserID, "repos", fmt.Sprint(*p.ID), r.Version) {
			visible[*p.UserID] = append(visible[*p.UserID], entry{r.Version, *p.ID})
		}
	}
	for _, r := range want[record.KindCodehostCommit] {
		p := r.Body.(*record.CodehostCommit)
		if listed(*p.UserID, "commits", p.SHA, r.Version) {
			commits[*p.UserID]++
		}
	}
	require.NotEmpty(t, visible)
	var users []int64
	for user := range visible {
		users = append(users, user)
	}
	seen := 0
	for chunk := range slices.Chunk(users, readmodel.MaxKeys) {
		for _, row := range s.Answers(chunk...) {
			if seen++; row.Deleted {
				continue
			}
			require.EqualValues(t, commits[row.UserID], row.Commits)
			entries := visible[row.UserID]
			slices.SortFunc(entries, func(a, b entry) int {
				if a.version != b.version {
					return int(b.version - a.version)
				}
				return int(a.id - b.id)
			})
			var wantIDs []string
			for _, e := range entries[:min(len(entries), readmodel.MaxEntries)] {
				wantIDs = append(wantIDs, fmt.Sprint(e.id))
			}
			require.EqualValues(t, len(entries), row.Repos)
			require.Equal(
				t,
				strings.Join(wantIDs, " "),
				projectortest.IDs(s.Entries("repos", readmodel.ShapeWebset, row)),
			)
		}
	}
	require.Equal(t, len(visible), seen)
}

// requireNoMail checks that the network webset contains no address of any record without its add-on.
func requireNoMail(t *testing.T, s *projectortest.Store, want map[record.Kind]map[string]*record.Record) {
	addresses := map[string]bool{}
	add := func(list ...string) {
		for _, a := range list {
			if strings.Contains(a, "@") {
				addresses[strings.ToLower(strings.TrimSpace(a))] = true
			}
		}
	}
	for _, r := range want[record.KindNetworkPerson] {
		p := r.Body.(*record.NetworkPerson)
		add(p.Emails...)
		add(p.PersonalEmail)
	}
	for _, r := range want[record.KindCodehostPerson] {
		p := r.Body.(*record.CodehostPerson)
		add(p.Emails...)
		add(p.AdditionalEmails...)
		add(p.PersonalEmail, p.SchoolEmail)
	}
	for _, r := range want[record.KindCodehostCommit] {
		add(r.Body.(*record.CodehostCommit).AuthorEmail)
	}
	require.NotEmpty(t, addresses)
	check := func(shown string) {
		if !strings.Contains(shown, "@") {
			return
		}
		shown = strings.ToLower(shown)
		for a := range addresses {
			require.NotContains(t, shown, a)
		}
	}
	people := slices.Collect(maps.Keys(want[record.KindNetworkPerson]))
	rows := s.NetworkPeople(people...)
	require.NotEmpty(t, rows)
	for _, r := range rows {
		check(projectortest.Members(r, readmodel.ShapeWebset))
		check(projectortest.Members(r, readmodel.ShapeAddon))
	}
	addon := readmodel.Members(readmodel.ShapeAddon)
	for _, sql := range []string{
		"SELECT " + addon + " FROM codehost_people FINAL",
		"SELECT " + addon + " FROM codehost_repos FINAL",
		"SELECT " + addon + " FROM codehost_commits FINAL",
	} {
		rows, err := s.Conn.Query(t.Context(), sql)
		require.NoError(t, err)
		for rows.Next() {
			var shown string
			require.NoError(t, rows.Scan(&shown))
			check(shown)
		}
		require.NoError(t, rows.Close())
	}
}
