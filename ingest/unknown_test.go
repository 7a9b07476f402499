package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/record"
)

func dryRun(t *testing.T, cfg ingest.Config, kind record.Kind, paths ...string) ingest.Summary {
	t.Helper()
	cfg.DryRun = true
	s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, kind, paths)
	require.NoError(t, err)
	return s
}

func TestDryRun_CountsUnknownFields(t *testing.T) {
	var lines strings.Builder
	for i := range 3000 { // more than one chunk, decoded concurrently
		jobs := ""
		if i%3 == 1 {
			jobs = `,"experience":[{"title":"a","company_name":"Kora"},{"company_name":"Tide"}]`
		}
		fmt.Fprintf(&lines, `{"profile_id":"p_%d","last_updated":"2026","username":"u","fullname":"%s"%s}`+"\n", i,
			strings.Repeat("x", 400), jobs)
	}
	people := write(t, "people.ndjson", []byte(lines.String()))
	s := dryRun(t, ingest.Config{Workers: 4}, record.KindNetworkPerson, people)
	require.Equal(t, []ingest.UnknownField{
		{Kind: record.KindNetworkPerson, Path: "fullname", Records: 3000, Example: people + ":1",
			DidYouMean: "full_name"},
		{Kind: record.KindNetworkPerson, Path: "experience[].company_name", Records: 1000, Example: people + ":2",
			DidYouMean: "experience[].company.name"},
	}, s.Unknown, "%s", s)
	require.False(t, s.MoreUnknown)

	clean := write(t, "clean.ndjson",
		[]byte(`{"profile_id":"p_1","last_updated":"2026","username":"u","full_name":"x"}`))
	s = dryRun(t, ingest.Config{}, record.KindNetworkPerson, clean)
	require.Empty(t, s.Unknown)
	require.NotContains(t, s.String(), "members")
}

func TestDryRun_CountsUnknownFieldsOfMappedAndExtractedRecords(t *testing.T) {
	owner := write(
		t,
		"owner.ndjson",
		[]byte(
			`{"user_id":7,"last_updated":"2026","codehost_username":"u","repos":[{"id":1,"updated_at":"2025",`+
				`"stars":1},{"id":2,"updated_at":"2025","stars":2}]}`,
		),
	)
	require.Equal(
		t,
		[]ingest.UnknownField{
			{Kind: record.KindCodehostPerson, Path: "repos[].stars", Records: 1, Example: owner + ":1",
				DidYouMean: "repos[].stargazers_count"},
		},
		dryRun(t, ingest.Config{}, record.KindCodehostPerson, owner).Unknown,
	)

	program := write(t, "mine.jq",
		[]byte(`{kind: "microblog-person", record: {user_id: .id, last_updated: "2026", handle: .name}}`))
	objects := write(t, "foreign.ndjson", []byte("\n"+`{"id":"1","name":"ada","more":1}`))
	require.Equal(
		t,
		[]ingest.UnknownField{
			{Kind: record.KindMicroblogPerson, Path: "handle", Records: 1, Example: objects + ":2",
				DidYouMean: "username"},
		},
		dryRun(t, ingest.Config{Mapping: program}, "", objects).Unknown,
	)
}

// Every record has a different name, of any length.
func TestDryRun_LimitsUnknownFields(t *testing.T) {
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, `{"profile_id":"p_%d","last_updated":"2026","username":"u"`, i)
		for j := range 30 {
			fmt.Fprintf(&lines, `,"name %d %d %s":1`, i, j, strings.Repeat("ä", 150))
		}
		lines.WriteString("}\n")
	}
	s := dryRun(t, ingest.Config{}, record.KindNetworkPerson, write(t, "people.ndjson", []byte(lines.String())))
	require.Len(t, s.Unknown, 1000)
	for _, u := range s.Unknown {
		require.LessOrEqual(t, len(u.Path), 203)
		require.True(t, strings.HasSuffix(u.Path, "ä..."), u.Path)
	}
	require.True(t, s.MoreUnknown)
	require.Contains(t, s.String(), "and 980 more, see --json\nfurther unknown fields were not counted\n")
}
