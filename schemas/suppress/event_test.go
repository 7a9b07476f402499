package suppress_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/suppress"
)

func TestSet_RedactDiscoveryLeavesTheOriginalUnchanged(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	entry, err := json.Marshal(suppress.Entry{
		Type: suppress.CodehostUsername, Scope: suppress.All, RequestedAt: "2026", Key: set.Key().ID(),
	})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.CodehostUsername, "ghost").String()), entry))
	social := func(platform, username string) event.Social {
		return event.Social{Account: event.Account{Platform: platform, Username: username}, Confidence: 0.5}
	}
	alive, ghost, other := social("network", "alive"), social("codehost", "Ghost"), social("codehost", "other")

	found := event.Discovery{Input: alive.Account, Socials: []event.Social{alive, ghost, other}}
	require.True(t, set.Discovery(&found))
	redacted := found
	set.RedactDiscovery(&redacted)
	require.Equal(t, []event.Social{alive, other}, redacted.Socials)
	require.Equal(t, []event.Social{alive, ghost, other}, found.Socials)
	require.False(t, set.Discovery(&redacted))

	input := event.Discovery{Input: ghost.Account, Socials: []event.Social{ghost, alive}}
	set.RedactDiscovery(&input)
	require.Equal(t, []event.Social{{Account: ghost.Account, Confidence: 1}}, input.Socials)

	require.False(t, (*suppress.Set)(nil).Discovery(&found), "a nil set suppresses nothing")
}
