package jcs_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/jcs"
)

func TestJSON_IsCanonicalUpToMaxDepth(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"b":`, n) + `"]}\"[{"` + strings.Repeat(`,"a":0}`, n) }
	for name, c := range map[string]struct{ in, want string }{
		"members and white space": {`{ "b" : 1, "a":"\u0065" }`, `{"a":"e","b":1}`},
		"brackets in a string": {`["\"` + strings.Repeat("[", 300) + `" ]`, `["\"` + strings.Repeat("[", 300) +
			`"]`},
		"as deep as may be": {nested(200), strings.Repeat(`{"a":0,"b":`, 200) + `"]}\"[{"` +
			strings.Repeat(`}`, 200)},
		"deeper": {nested(201), ""},
		"deep and long": {strings.Repeat(`{"b":`, 9_000) + `"` + strings.Repeat("x", 900_000) + `"` +
			strings.Repeat(`,"a":0}`, 9_000), ""},
		"no JSON":                 {`{"a":`, ""},
		"a string without an end": {`"\`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := jsontext.Value(c.in)
			if err := jcs.JSON(&v); c.want == "" {
				require.Error(t, err)
				require.Equal(t, c.in, string(v))
				return
			}
			require.Equal(t, c.want, string(v))
		})
	}
}
