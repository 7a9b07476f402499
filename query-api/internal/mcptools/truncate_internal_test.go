package mcptools

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestTruncate_KeepsShortValuesAndReportsCuts(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	list := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	long := `"` + x(1000) + `"`
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
		cuts  []string
	}{
		"fits": {`{"a": [1, 2]}`, 13, `{"a":[1,2]}`, nil},
		"text": {
			`{"a":1,"b":` + long + `}`, 100, `{"a":1,"b":"` + x(83) + `…"}`, []string{"b: 83 of 1000 bytes shown"},
		},
		"short beside": {
			`["short",` + long + `]`, 500, `["short","` + x(485) + `…"]`, []string{"[]: 485 of 1000 bytes shown"},
		},
		"list": {list(100, "12345"), 63, list(10, "12345"), []string{"data: 10 of 100 entries shown"}},
		"members": {
			`{"a":` + long + `,"b":` + long + `,"c":` + long + `}`, 120,
			`{"a":"` + x(49) + `…","b":"` + x(50) + `…"}`,
			[]string{"data: 2 of 3 members shown", "a: 49 of 1000 bytes shown", "b: 50 of 1000 bytes shown"},
		},
		"one place in many entries": {
			`{"r":[{"t":` + long + `},{"t":"` + x(2000) + `"}]}`, 600,
			`{"r":[{"t":"` + x(284) + `…"},{"t":"` + x(285) + `…"}]}`,
			[]string{"r[].t: 285 of 2000 bytes shown"},
		},
		"character": {
			`"` + strings.Repeat("é", 100) + `"`, 20, `"` + strings.Repeat("é", 7) + `…"`,
			[]string{"data: 14 of 200 bytes shown"},
		},
		"escapes": {
			`"` + strings.Repeat(`\u0001`, 100) + `"`, 30, `"` + strings.Repeat(`\u0001`, 4) + `…"`,
			[]string{"data: 4 of 100 bytes shown"},
		},
		"long number": {
			`[` + strings.Repeat("1", 1000) + `]`, 300, `[null]`, []string{"[]: 0 of 1000 bytes shown"},
		},
		"no room": {`{"a":[[` + long + `]]}`, 12, `{}`, []string{"data: 0 of 1 members shown"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, cuts, err := truncate([]byte(c.in), c.limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(got), c.limit)
			require.Equal(t, c.want, string(got))
			require.Equal(t, c.cuts, cuts)
		})
	}
}

// A hostile record has many members with long names, so that the report itself must be bounded.
func TestTruncate_BoundsItsReport(t *testing.T) {
	var in strings.Builder
	in.WriteString("{")
	for i := range 200 {
		fmt.Fprintf(&in, `"%d-%0300d":"%01000d",`, i, 0, 0)
	}
	in.WriteString(`"end":0}`)
	got, cuts, err := truncate([]byte(in.String()), MaxResultBytes)
	require.NoError(t, err)
	require.True(t, got.IsValid())
	require.Len(t, cuts, maxCuts+1)
	require.Less(t, len(strings.Join(cuts, "\n")), maxCuts*(maxPathBytes+60))
	require.Regexp(t, `^\d+ more places$`, cuts[maxCuts])
}

func FuzzTruncate(f *testing.F) {
	f.Add([]byte(`{"a":["x",{"b":"\u00e9\ud83d\ude00"}],"c":1e400}`), 10)
	f.Add([]byte(strings.Repeat("[", 500)+strings.Repeat("]", 500)), 100)
	f.Add([]byte(`{"a":1,"a":[[[[["long long long"]]]]]}`), 7)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < len(`{}`) || !jsontext.Value(in).IsValid() {
			return
		}
		got, cuts, err := truncate(in, limit)
		if err != nil {
			t.Fatalf("valid JSON: %v", err)
		}
		if !got.IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("not JSON: %s", got)
		}
		// null, in place of a number, may have more bytes than there are.
		if len(got) > max(limit, len("null")) {
			t.Fatalf("%d bytes, want at most %d: %s", len(got), limit, got)
		}
		whole := jsontext.Value(bytes.Clone(in))
		if err := whole.Compact(); err != nil {
			t.Fatal(err)
		}
		if (cuts == nil) != bytes.Equal(whole, got) {
			t.Fatalf("cuts %q of %s: %s", cuts, whole, got)
		}
	})
}
