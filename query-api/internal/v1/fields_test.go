package v1

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// choose is an independent implementation of fieldSet.apply on decoded values.
func choose(value any, paths [][]string) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any)
		for name, member := range v {
			var below [][]string
			whole := false
			for _, path := range paths {
				if path[0] == name {
					whole = whole || len(path) == 1
					below = append(below, path[1:])
				}
			}
			_, isObject := member.(map[string]any)
			_, isList := member.([]any)
			switch {
			case whole:
				out[name] = member
			case len(below) > 0 && (isObject || isList):
				out[name] = choose(member, below)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, element := range v {
			switch element.(type) {
			case map[string]any, []any:
				out = append(out, choose(element, paths))
			}
		}
		return out
	}
	return value
}

func FuzzFieldSet_SelectsWhatAFilterOfDecodedValuesSelects(f *testing.F) {
	const record = `{"a":1,"b":{"c":[{"d":"x","e":null},{"e":2},7,[{"d":3}],[]],"f":{}},"g":[1,2],"h":"\u0022"}`
	for _, paths := range []string{"a", "b", "b.c", "b.c.d", "b.c.d,b", "b.c.e,b.f", "g", "g.x", "a.b", "h,b.f.x", "zz"} {
		f.Add(record, paths)
	}
	open := &fieldTree{open: true}
	f.Fuzz(func(t *testing.T, object, list string) {
		var decoded map[string]any
		if json.Unmarshal([]byte(object), &decoded) != nil || decoded == nil {
			return
		}
		paths := strings.Split(list, ",")
		set, err := open.parseFields(paths)
		if err != nil {
			return
		}
		split := make([][]string, len(paths))
		for i, path := range paths {
			split[i] = strings.Split(path, ".")
		}
		got, err := set.apply([]byte(object))
		require.NoError(t, err)
		want, err := json.Marshal(choose(decoded, split))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	})
}

func TestFields_UnknownNamesAreErrors(t *testing.T) {
	text := &fieldTree{}
	record := &fieldTree{members: map[string]*fieldTree{
		"headline": text, "experience": {members: map[string]*fieldTree{"title": text}}, "stars": {open: true},
	}}
	for path, detail := range map[string]string{
		"headline": "", "experience": "", "experience.title": "", "stars": "", "stars.owner.name": "",
		"headlin":          `there is no field "headlin": did you mean "headline"? Known are experience, headline, stars`,
		"experience.titel": `there is no field "titel": did you mean "title"?`,
		"headline.size":    "headline has no members",
		"shoe_size":        `there is no field "shoe_size": known are experience, headline, stars`,
		"":                 "a path is the names of fields, joined by dots",
		"experience.":      "a path is the names of fields, joined by dots",
		"stars..x":         "a path is the names of fields, joined by dots",
		".headline":        "a path is the names of fields, joined by dots",
	} {
		_, err := record.parseFields([]string{"headline", path})
		if detail == "" {
			require.NoError(t, err, path)
			continue
		}
		require.ErrorContains(t, err, "fields[1] is \""+path+"\": "+detail)
	}
	_, err := record.parseFields([]string{strings.Repeat("x", 201)})
	require.ErrorContains(t, err, "fields[0] is longer than 200 bytes")
	_, err = record.parseFields(make([]string, 101))
	require.ErrorContains(t, err, "fields has 101 elements: give at most 100")
	_, err = record.parseFields([]string{})
	require.ErrorContains(t, err, "fields is empty")
}
