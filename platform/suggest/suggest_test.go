package suggest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/suggest"
)

func TestName_SuggestsTheClosestKnownName(t *testing.T) {
	identifiers := []string{"codehost", "network_username", "email", "websets"}
	fields := []string{
		"network_url", "profile.first_name", "profile.headline", "profile.headline.keyword", "profile.location.country",
	}
	for _, c := range []struct {
		name  string
		known []string
		want  string // empty: none
	}{
		{"codehst", identifiers, "codehost"},
		{"EMAIL", identifiers, "email"},
		{"e-mail", identifiers, "email"},
		{"webset", identifiers, "websets"},
		{"username", identifiers, "network_username"},
		{"MUSTER_ADR", []string{"MUSTER_ADDR"}, "MUSTER_ADDR"},
		{"codehost_username", identifiers, ""},
		{"seiz", []string{"size"}, ""},
		{"aggs", []string{"size", "sort"}, ""},
		{"profile.hedline", fields, "profile.headline"},
		{"headline", fields, "profile.headline"},
		{"hedline", fields, "profile.headline"},
		{"firstname", fields, "profile.first_name"},
		{"skills.skill", fields, ""},
		{"open_to_work", fields, ""},
		{"", identifiers, ""},
		{"codehost", nil, ""},
		{strings.Repeat("x", 1<<20), identifiers, ""},
		{strings.Repeat("é", 1<<10), identifiers, ""},
	} {
		got, ok := suggest.Closest(c.name, c.known)
		require.Equal(t, c.want, got, c.name[:min(len(c.name), 20)])
		require.Equal(t, c.want != "", ok)
	}
}

func TestHint_PrependsTheSuggestion(t *testing.T) {
	known := []string{"codehost", "email"}
	require.Equal(t, `did you mean "codehost"? Known are codehost, email`,
		suggest.Hint("codehst", known, "Known are codehost, email"))
	require.Equal(t, `known are codehost, email`, suggest.Hint("phone", known, "Known are codehost, email"))
	require.Equal(t, `/docs lists them`, suggest.Hint("phone", known, "/docs lists them"))
}
