package ingest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/event"
	"muster/schemas/record"
)

// A table with other column names: every row reports all missing fields, and every column that is
// not in the schema is listed with a suggestion, although no row is valid.
func TestDryRun_ReportsAllDefectsAndUnknownColumnsOfRejectedRows(t *testing.T) {
	file := write(t, "people.csv", []byte(`id,name,email,company,job,changed
17,Solveig Hamre,solveig@hamre.example,Hamre Lys,Electrician,2026-02-03
18,Trygve Nes,trygve@nes.example,Nes Tak,Roofer,03/02/2026
`))
	var mu sync.Mutex
	rejected := map[int64]event.Rejected{}
	s, err := ingest.Files(t.Context(), ingest.Config{DryRun: true}, ingest.Deps{Rejected: func(r event.Rejected) {
		mu.Lock()
		defer mu.Unlock()
		rejected[r.Source.Line] = r
	}}, record.KindNetworkPerson, []string{file})
	requireExit(t, ingest.ExitRejected, err)
	require.Len(t, rejected, 2)
	for line, r := range rejected {
		require.Equal(t, []record.FieldError{
			{Path: "profile_id", Code: record.CodeMissingIdentity,
				Reason: `is missing; the record has "id": did you mean "profile_id"?`},
			{Path: "last_updated", Code: record.CodeMissingVersion,
				Reason: `is missing; the record has "changed": did you mean "last_updated"?`},
			{Path: "username", Code: record.CodeMissingField, Reason: "is missing"},
		}, r.Defects, line)
		require.Equal(t, r.Defects[0], record.FieldError{Path: r.Path, Code: r.Code, Reason: r.Reason})
	}
	suggestion := map[string]string{}
	for _, u := range s.Unknown {
		require.Equal(t, int64(2), u.Records)
		suggestion[u.Path] = u.DidYouMean
	}
	require.Equal(t, map[string]string{
		"id": "profile_id", "name": "full_name", "email": "emails", "company": "current_position.company.name",
		"job": "headline", "changed": "last_updated",
	}, suggestion)
	require.Contains(t, s.String(), "did you mean")
}

func TestResubmit_CorrectedMappingReadsTheOriginalObject(t *testing.T) {
	const before = `record("network-person"; {profile_id: .uid, username: .nick, full_name: .name, last_updated: ` +
		`.seen})`
	const mended = `record("network-person"; {profile_id: .uid, username: .nick, full_name: .name,
		last_updated: (.seen | if test("/") then split("/") | reverse | join("-") else . end)})`
	objects := []string{
		`{"uid":"bd-1","nick":"bad-date-one","name":"Rolf Dag","seen":"03/02/2026"}`,
		`{"uid":"bd-2","nick":"bad-date-two","name":"Siri Dag","seen":"2026-02-04"}`,
	}
	cfg := withStateDir(t)
	cfg.Mapping = write(t, "before.jq", []byte(before))
	_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "",
		[]string{write(t, "people.ndjson", []byte(strings.Join(objects, "\n")))})
	requireExit(t, ingest.ExitRejected, err)
	badDates := ingest.DeadLetterFilter{Code: record.CodeBadDate}
	one := func() ingest.DeadLetter {
		t.Helper()
		found := find(t, cfg, false, badDates)
		require.Len(t, found, 1)
		for _, l := range found {
			require.Equal(t, record.KindNetworkPerson, l.Rejected.Kind)
			require.True(t, l.Rejected.Mapped)
			require.Equal(t, "last_updated", l.Rejected.Path)
			require.JSONEq(t, objects[0], string(l.Rejected.Raw))
			return l
		}
		panic("unreachable")
	}
	first := one()

	cfg.Mapping = ""
	res, err := ingest.ResubmitRejected(t.Context(), cfg, ingest.Deps{}, badDates, "")
	require.NoError(t, err)
	require.Zero(t, res.Resubmitted)
	require.Len(t, res.Skipped, 1)
	for reason := range res.Skipped {
		require.Contains(t, reason, "--map")
	}
	require.Equal(t, first.ID(), one().ID(), "no further entry")

	cfg.Mapping = write(t, "before.jq", []byte(before))
	res, err = ingest.ResubmitRejected(t.Context(), cfg, ingest.Deps{}, badDates, "")
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Resubmitted)
	require.NotEqual(t, first.ID(), one().ID(), "still invalid: a new entry replaces the old one")

	cfg.Mapping = write(t, "mended.jq", []byte(mended))
	res, err = ingest.ResubmitRejected(t.Context(), cfg, ingest.Deps{}, badDates, "")
	require.NoError(t, err)
	require.Equal(t, int64(1), res.Resubmitted)
	require.Contains(t, values(t, cfg.Bus, record.KindNetworkPerson)["bd-1"], `"2026-02-03"`)
	require.Empty(t, find(t, cfg, false, badDates))
}

// The first of several rejected records of an object stores it, and all of them are resubmitted
// with it. An object that maps to an erasure is never stored.
func TestResubmit_ObjectOfManyRecordsIsStoredOnce(t *testing.T) {
	cfg := withStateDir(t)
	cfg.Mapping = write(
		t,
		"many.jq",
		[]byte(
			`. as $o | range(.n) | record("network-person"; {profile_id: "p_\(.)", username: "u", last_updated: `+
				`$o.at})`,
		),
	)
	_, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, "",
		[]string{write(t, "x", []byte(`{"n":50,"at":"soon","at2":"2026"}`))})
	requireExit(t, ingest.ExitRejected, err)
	stored := 0
	for _, l := range find(t, cfg, false, ingest.DeadLetterFilter{}) {
		if len(l.Rejected.Raw) > 0 {
			stored++
		}
	}
	require.Equal(t, 1, stored)
	cfg.Mapping = write(
		t,
		"mended.jq",
		[]byte(
			`. as $o | range(.n) | record("network-person"; {profile_id: "p_\(.)", username: "u", last_updated: `+
				`$o.at2})`,
		),
	)
	res, err := ingest.ResubmitRejected(t.Context(), cfg, ingest.Deps{}, ingest.DeadLetterFilter{}, "")
	require.NoError(t, err)
	require.Equal(t, int64(50), res.Resubmitted)
	require.Empty(t, res.Skipped)
	require.Len(t, values(t, cfg.Bus, record.KindNetworkPerson), 50)

	cfg.Mapping = write(
		t,
		"erasure.jq",
		[]byte(
			`{kind: "erasure", record: {identifiers: [{type: "email", value: .mail}]}}, record("network-person"; `+
				`{profile_id: .mail})`,
		),
	)
	_, err = ingest.Files(t.Context(), cfg, ingest.Deps{}, "",
		[]string{write(t, "y", []byte(`{"mail":"ada@x.example"}`))})
	requireExit(t, ingest.ExitRejected, err)
	for _, m := range topic(t, cfg.Bus, event.TopicRejected) {
		require.NotContains(t, string(m.Value), "ada@x.example")
		require.NotContains(t, string(m.Value), "YWRhQHguZXhhbXBsZ") // in base64
	}
	for _, l := range find(t, cfg, false, ingest.DeadLetterFilter{}) {
		require.Empty(t, l.Rejected.Raw)
	}
}

func TestPush_ReportsAllDefectsOfARecord(t *testing.T) {
	s := serve(t, withStateDir(t), ingest.Deps{})
	a := push(t, s, pushPath, strings.NewReader(`{"usrname":"u","profile_id":5,"last_updated":"soon"}`))
	require.Equal(t, http.StatusOK, a.status)
	require.Len(t, a.Rejected, 1)
	var reported []string
	for _, d := range a.Rejected[0].Defects {
		reported = append(reported, fmt.Sprint(d.Path, " ", d.Reason))
	}
	require.Equal(t, []string{
		"profile_id is a number where a string is needed",
		"last_updated must be a year (2006), a month (2006-01), a day (2006-01-02) or a timestamp " +
			"(2006-01-02T15:04:05Z)",
		`username is missing; the record has "usrname": did you mean "username"?`,
	}, reported)
}
