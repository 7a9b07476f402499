package customfield_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/customfield"
)

func TestParse_KeepsOrderOfFields(t *testing.T) {
	t.Parallel()
	s, err := customfield.Parse("schema", jsontext.Value(`{
		"z": {"type": "number", "description": "how many"},
		"a": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
		"o": {"type": "object", "properties": {"p": {"type": "boolean"}, "q": {"type": "integer"}}, "required": ["q"]},
		"n": {"type": "string", "description": null}
	}`))
	require.NoError(t, err)
	require.Len(t, s, 4)
	require.Equal(t, []string{"z", "a", "o", "n"}, []string{s[0].Name, s[1].Name, s[2].Name, s[3].Name})
	require.Equal(t, "how many", s[0].Type.Description)
	require.Equal(t, customfield.String, s[1].Type.Items.Kind)
	require.True(t, s[2].Type.Properties[1].Required)
	none, err := customfield.Parse("schema", jsontext.Value("null"))
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestParse_NamesErrorAndPath(t *testing.T) {
	t.Parallel()
	deep := `{"type":"string"}`
	for range customfield.MaxDepth {
		deep = `{"type":"array","items":` + deep + `}`
	}
	var wide []string
	for i := range customfield.MaxFields + 1 {
		wide = append(wide, fmt.Sprintf(`"k%d":{"type":"string"}`, i))
	}
	for raw, want := range map[string]string{
		`[]`:                        `schema must be an object, not a list`,
		`{"a":"string"}`:            `schema.a must be an object, not a string`,
		`{"a":{}}`:                  `schema.a.type is missing: it must be one of string, number, integer, `,
		`{"a":{"type":"text"}}`:     `schema.a.type is "text": it must be one of`,
		`{"a":{"type":["string"]}}`: `schema.a.type must be a string: one of`,
		`{"a":{"type":"string","description":1}}`:     `schema.a.description must be a string, not a number`,
		`{"a":{"type":"string","items":{}}}`:          `schema.a.items applies to type array, but the type here is `,
		`{"a":{"type":"array","items":{"type":"x"}}}`: `schema.a.items.type is "x"`,
		`{"a":{"type":"array","enum":["x"]}}`:         `schema.a.enum does not belong to an array: put it into items`,
		`{"a":{"type":"number","enum":[1,"2"]}}`:      `schema.a.enum[1] must be a number, like the type`,
		`{"a":{"type":"integer","enum":[1.5]}}`:       `schema.a.enum[0] must be an integer`,
		`{"a":{"type":"string","enum":[]}}`:           `schema.a.enum must be a non-empty array`,
		`{"a":{"type":"object","required":["x"]}}`:    `schema.a.required lists "x", which is not a property`,
		`{"":{"type":"string"}}`:                      `schema has an empty key`,
		`{"a\u0000":{"type":"string"}}`:               `schema has a key with control characters`,
		`{"a":` + deep + `}`:                          `is nested too deeply: the limit is 5 levels`,
		`{` + strings.Join(wide, ",") + `}`:           `schema has 101 keys: request at most 100`,
	} {
		_, err := customfield.Parse("schema", jsontext.Value(raw))
		require.ErrorContains(t, err, want, raw)
		var e *customfield.Error
		require.ErrorAs(t, err, &e)
	}
	_, err := customfield.Parse("schema", jsontext.Value(`{"a":{"type":"string","typo":"x"}}`))
	var e *customfield.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "typo", e.Unknown)
	require.Contains(t, e.Known, "description")
}

func TestCheck_AcceptsValuesOfTheTypeOnly(t *testing.T) {
	t.Parallel()
	for schema, values := range map[string]struct{ good, bad []string }{
		`{"type":"string"}`:                  {[]string{`"x"`, `""`}, []string{`1`, `null`, `["x"]`, `tru`}},
		`{"type":"number"}`:                  {[]string{`1`, `-1.5e3`}, []string{`"1"`, `true`}},
		`{"type":"integer"}`:                 {[]string{`1`, `1.0`, `1e3`}, []string{`1.5`, `"1"`}},
		`{"type":"boolean"}`:                 {[]string{`true`, `false`}, []string{`"true"`, `0`}},
		`{"type":"array"}`:                   {[]string{`[]`, `[1,"x",{}]`}, []string{`{}`, `"x"`}},
		`{"type":"object"}`:                  {[]string{`{}`, `{"any":1}`}, []string{`[]`}},
		`{"type":"string","enum":["a","b"]}`: {[]string{`"a"`, `"\u0062"`}, []string{`"c"`, `"A"`}},
		`{"type":"number","enum":[1]}`:       {[]string{`1`, `1.0`}, []string{`2`}},
		`{"type":"array","items":{"type":"string"}}`: {
			[]string{`[]`, `["x"]`}, []string{`[1]`, `["x",null]`},
		},
		`{"type":"object","properties":{"p":{"type":"string"},"q":{"type":"integer"}},"required":["q"]}`: {
			[]string{`{"q":1}`, `{"p":"x","q":1}`, `{"p":null,"q":1}`}, []string{`{}`, `{"q":null}`, `{"p":1,"q":1}`,
				`{"q":1,"r":1}`, `{"q":1,"q":2}`},
		},
	} {
		s, err := customfield.Parse("schema", jsontext.Value(`{"f":`+schema+`}`))
		require.NoError(t, err)
		for _, v := range values.good {
			require.NoError(t, s[0].Type.Check(jsontext.Value(v)), "%s %s", schema, v)
		}
		for _, v := range values.bad {
			require.Error(t, s[0].Type.Check(jsontext.Value(v)), "%s %s", schema, v)
		}
	}
}

func TestJSONSchema_IsStrictExceptForUntypedValues(t *testing.T) {
	t.Parallel()
	s, err := customfield.Parse("schema", jsontext.Value(`{
		"o": {"type": "object", "description": "d", "properties": {"p": {"type": "string", "enum": ["a"]}, "q": `+
		`{"type": "integer"}}, "required": ["q"]},
		"a": {"type": "array"}
	}`))
	require.NoError(t, err)
	schema, loose := s[0].Type.JSONSchema()
	require.False(t, loose)
	text, err := customfield.Encode(schema)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","description":"d","additionalProperties":false,"required":["p","q"],
		"properties":{"p":{"type":["string","null"],"enum":["a",null]},"q":{"type":"integer"}}}`, string(text))
	_, loose = s[1].Type.JSONSchema()
	require.True(t, loose)
}

func FuzzParse(f *testing.F) {
	f.Add(`{"a":{"type":"object","properties":{"p":{"type":"array","items":{"type":"number","enum":[1]}}},`+
		`"required":["p"]}}`, `{"p":[1]}`)
	f.Add(`{"a":{"type":"string"}}`, `"x"`)
	f.Fuzz(func(t *testing.T, raw, value string) {
		s, err := customfield.Parse("schema", jsontext.Value(raw))
		if err != nil {
			return
		}
		for _, field := range s {
			schema, _ := field.Type.JSONSchema()
			_, err := customfield.Encode(schema)
			require.NoError(t, err)
			if field.Type.Check(jsontext.Value(value)) == nil {
				var v any
				require.NoError(t, json.Unmarshal([]byte(value), &v))
			}
		}
	})
}
