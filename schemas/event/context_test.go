package event_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

func TestCheckPerson(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + `0` + strings.Repeat(`]}`, n/2) }
	many := func(n int) string { return `{"a":[` + strings.Repeat(`"x",`, n-3) + `{}]}` }
	for _, ok := range []string{`"text"`, `{}`, deep(event.MaxPersonDepth), many(event.MaxPersonValues)} {
		require.NoError(t, event.CheckPerson(jsontext.Value(ok)))
	}
	for bad, why := range map[string]string{
		deep(event.MaxPersonDepth + 2):  "is nested more than 32 levels deep",
		many(event.MaxPersonValues + 1): "has more than 200000 values",
	} {
		require.ErrorContains(t, event.CheckPerson(jsontext.Value(bad)), why)
	}
}
