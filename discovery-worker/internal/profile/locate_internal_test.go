package profile

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestLocateJSON_FindsQuotes(t *testing.T) {
	object := jsontext.Value(`{"bio":["Ada \n LOVELACE","\u212aelvin 7"],"a/b":{"n":42}}`)
	for quote, want := range map[string]string{"ada lovelace": "/bio/0", `"Ada`: "/bio/0", "kelvin  7": "/bio/1",
		"42": "/a~1b/n", "bio": "", "Ada Byron": "", "": ""} {
		path, _, _, found := locateJSON(t.Context(), object, quote)
		require.Equal(t, want != "", found, quote)
		require.Equal(t, want, path, quote)
	}
}

// A quote that does not exist costs one pass over the object, which stops at the deadline.
func TestLocateJSON_ObservesDeadline(t *testing.T) {
	object := jsontext.Value(`{"a":[` + strings.Repeat(`"wordy wordless",`, 50_000) + `"x"]}`)
	quote := strings.TrimSpace(strings.Repeat("wordy ", 150))
	allocs := testing.AllocsPerRun(1, func() {
		_, _, _, found := locateJSON(t.Context(), object, quote)
		require.False(t, found)
	})
	require.Less(t, allocs, 100_000., "one regular expression for each string would have thousands")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _, found := locateJSON(ctx, object, "x")
	require.False(t, found)
}
