package extract

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// scalarPaths are the paths that must be empty in a strict case, unless a value is expected.
var scalarPaths = []string{
	"full_name", "personal_email", "codehost.username", "network.username", "microblog.username",
	"location.city", "location.state", "location.country",
	"current_position.summary", "current_position.start", "current_position.company.name",
}

// reportedCase is an input with its required and forbidden values.
type reportedCase struct {
	name      string
	in        Input
	right     map[string]string
	optional  map[string][]string // allowed values
	forbidden map[string][]string
	strict    bool // other values at scalarPaths are wrong
}

// issueCases reads the cases of the bug report.
func issueCases(t *testing.T) []reportedCase {
	raw, err := os.ReadFile(filepath.Join("testdata", "ways", "context.json"))
	require.NoError(t, err)
	var list []struct {
		Case    string `json:"case"`
		Request struct {
			Person jsontext.Value `json:"person"`
		} `json:"request"`
		Right map[string]string   `json:"right"`
		Never map[string][]string `json:"never"`
	}
	require.NoError(t, json.Unmarshal(raw, &list))
	var all []reportedCase
	for _, c := range list {
		w := reportedCase{name: c.Case, in: Input{Object: c.Request.Person}, right: c.Right, forbidden: c.Never}
		if c.Request.Person.Kind() == '"' {
			w.in = Input{}
			require.NoError(t, json.Unmarshal(c.Request.Person, &w.in.Text))
		}
		all = append(all, w)
	}
	return all
}

// secondSetCases reads the second set, whose answers were committed before the extractor was
// changed for either set.
func secondSetCases(t *testing.T) []reportedCase {
	files, err := filepath.Glob(filepath.Join("testdata", "ways", "*.txtar"))
	require.NoError(t, err)
	var all []reportedCase
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, part := range archive.Files {
			name, what, _ := strings.Cut(part.Name, "/")
			text := string(part.Data)
			switch what {
			case "input.txt":
				all = append(all, reportedCase{name: name, in: Input{Text: text}, strict: true})
			case "input.json":
				all = append(all, reportedCase{name: name, in: Input{Object: jsontext.Value(text)}, strict: true})
			default:
				w := &all[len(all)-1]
				w.right, w.optional = map[string]string{}, map[string][]string{}
				for line := range strings.Lines(text) {
					path, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
					require.True(t, ok, line)
					if optional, ok := strings.CutPrefix(path, "?"); ok {
						w.optional[optional] = append(w.optional[optional], value)
					} else {
						w.right[path] = value
					}
				}
			}
		}
	}
	return all
}

// confidentValues returns the values of a profile with at least the default confidence, by path.
func confidentValues(t *testing.T, p Profile) map[string]string {
	all := map[string]string{}
	var add func(path string, v any)
	add = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				add(path+"."+name, inner)
			}
		case []any:
			for i, inner := range v {
				add(path+"."+strconv.Itoa(i), inner)
			}
		case string:
			all[path] = v
		}
	}
	for path, f := range p.Fields {
		if f.Confidence >= defaultConfidence {
			var v any
			require.NoError(t, json.Unmarshal(f.Value, &v))
			add(path, v)
		}
	}
	return all
}

// score counts the values of a case and writes the differences to out.
func (w reportedCase) score(got map[string]string, out *strings.Builder) score {
	var s score
	wrong := func(path string) {
		s.wrong++
		out.WriteString("    + " + path + ": " + got[path] + "\n")
	}
	for path, value := range w.right {
		if got[path] == value {
			s.right++
			continue
		}
		s.missing++
		out.WriteString("    - " + path + ": " + value + "\n")
		if got[path] != "" {
			wrong(path)
		}
	}
	for path, values := range w.forbidden {
		if w.right[path] == "" && slices.Contains(values, got[path]) {
			wrong(path)
		}
	}
	for _, path := range scalarPaths {
		if w.strict && w.right[path] == "" && got[path] != "" && !slices.Contains(w.optional[path], got[path]) {
			wrong(path)
		}
	}
	return s
}

// Both sets are scored at the default confidence.
func TestExtractor_ReportedCasesReachPrecisionAndRecall(t *testing.T) {
	e := newExtractor(t)
	for set, cases := range map[string][]reportedCase{"context.json": issueCases(t), "second set": secondSetCases(t)} {
		var total score
		for _, c := range cases {
			p, err := e.Extract(t.Context(), c.in)
			require.NoError(t, err, c.name)
			var out strings.Builder
			total.add(c.score(confidentValues(t, p), &out))
			if out.Len() > 0 {
				t.Logf("%s\n%s", c.name, out.String())
			}
		}
		require.GreaterOrEqual(t, total.precision(), 0.95, set)
		require.GreaterOrEqual(t, total.recall(), 0.8, set)
		t.Logf("%s: %d inputs, fields precision %.3f recall %.3f %+v", set, len(cases), total.precision(),
			total.recall(), total)
	}
}

// This holds in any language and letter case. The name below the heading is found.
func TestExtract_HeadingsAreNotNames(t *testing.T) {
	e := newExtractor(t)
	raw, err := os.ReadFile(filepath.Join("testdata", "ways", "headings.txt"))
	require.NoError(t, err)
	for heading := range strings.Lines(string(raw)) {
		heading = strings.TrimSpace(heading)
		for _, form := range []string{heading, strings.ToUpper(heading), "## " + heading, heading + ":"} {
			p, err := e.Extract(t.Context(),
				Input{Text: form + "\n\nWanda Sowa\nSoftware Engineer\nwanda@sowa.example"})
			require.NoError(t, err)
			got := confidentValues(t, p)
			require.Equal(t, "Wanda Sowa", got["full_name"], form)
			require.Equal(t, "wanda@sowa.example", got["personal_email"], form)
		}
	}
}
