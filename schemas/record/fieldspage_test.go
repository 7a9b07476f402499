package record_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// fieldsPage is the page of operators that this file generates.
const fieldsPage = "../../deploy/docs/record-fields.md"

//go:generate go test -count=1 -run ^TestFieldsPage_IsCurrent$ . -update

func TestFieldsPage_IsCurrent(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# Record fields

The fields of each kind of record, for operators who prepare files to [import](sources.md). Generated from the
[JSON Schemas](../../schemas/record/jsonschema) by ` + "`make generate`" + `.

- Unknown fields are kept and returned by the API, and are not searched. In optional fields, ` + "`null`" + ` counts as
  absent.
- A *date* is a year, a month, a day or a timestamp (ISO 8601). The newest version of an identity wins.
- ` + "`x[].y`" + ` is the field ` + "`y`" + ` of each entry of the list ` + "`x`" + `. A record has at most 1 MiB.
- [MAPPING.md](../../schemas/MAPPING.md) has the source of every field of a response.

| kind | contents | identity | version |
|---|---|---|---|
`)
	definitions := slices.DeleteFunc(allDefinitions(), func(d record.Definition) bool { return d.Internal })
	for _, d := range definitions {
		fmt.Fprintf(
			&page,
			"| [`%s`](#%[1]s) | %s | `%s` | `%s` |\n",
			d.Kind,
			strings.ToLower(kindSchemas()[d.Kind].title),
			strings.Join(d.IdentityFields, "`, `"),
			d.VersionField,
		)
	}
	for _, d := range definitions {
		var schema fieldSchema
		require.NoError(t, json.Unmarshal(d.Schema, &schema))
		if schema.Else != nil {
			for _, name := range schema.Else.Required {
				schema.Properties[name].unlessDeleted = true
			}
		}
		fmt.Fprintf(&page, "\n## %s\n\n| field | type | required | limits | description | example |\n"+
			"|---|---|---|---|---|---|\n", d.Kind)
		writeFields(&page, "", &schema, exampleValues(t, d.Kind))
	}
	if *update {
		require.NoError(t, os.WriteFile(fieldsPage, []byte(page.String()), 0o644))
	}
	current, err := os.ReadFile(fieldsPage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(current), "run make generate")
}

// fieldSchema is what the page shows of a JSON Schema.
type fieldSchema struct {
	Type        any                     `json:"type"`
	Description string                  `json:"description"`
	Pattern     string                  `json:"pattern"`
	Enum        []any                   `json:"enum"`
	Minimum     *float64                `json:"minimum"`
	Maximum     *float64                `json:"maximum"`
	MaxLength   int                     `json:"maxLength"`
	MaxItems    int                     `json:"maxItems"`
	MinItems    int                     `json:"minItems"`
	Properties  map[string]*fieldSchema `json:"properties"`
	Items       *fieldSchema            `json:"items"`
	Required    []string                `json:"required"`
	Else        *fieldSchema            `json:"else"`

	unlessDeleted bool
}

// writeFields writes a row for each field, required ones first.
func writeFields(page *strings.Builder, prefix string, s *fieldSchema, examples map[string]string) {
	rank := func(name string) int {
		switch {
		case slices.Contains(s.Required, name):
			return 0
		case s.Properties[name].unlessDeleted:
			return 1
		}
		return 2
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		field := s.Properties[name]
		path := prefix + name
		required := []string{"yes", "unless deleted", ""}[rank(name)]
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s | %s |\n", path, field.typeName(), required, field.limits(),
			field.Description, examples[path])
		writeFields(page, path+".", field, examples)
		if field.Items != nil {
			writeFields(page, path+"[].", field.Items, examples)
		}
	}
}

func (s *fieldSchema) typeName() string {
	var names []string
	switch t := s.Type.(type) {
	case string:
		names = append(names, t)
	case []any:
		for _, name := range t {
			if name != "null" {
				names = append(names, name.(string))
			}
		}
	}
	switch name := strings.Join(names, " or "); {
	case strings.Contains(s.Pattern, "[Tt ]"):
		return "date"
	case name == "array" && s.Items != nil && s.Items.typeName() != "":
		return "list of " + s.Items.typeName() + "s"
	case name == "array":
		return "list"
	case name == "" && len(s.Enum) > 0:
		return "string"
	default:
		return name
	}
}

func (s *fieldSchema) limits() string {
	var out []string
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		out = append(out, fmt.Sprintf("%g to %g", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		out = append(out, fmt.Sprintf("at least %g", *s.Minimum))
	}
	switch s.Pattern {
	case notBlank:
		out = append(out, "not blank")
	case "^[0-9A-Fa-f]{64}$":
		out = append(out, "64 hexadecimal digits")
	}
	if s.MaxLength > 0 {
		out = append(out, fmt.Sprintf("at most %d characters", s.MaxLength))
	}
	if s.MaxItems > 0 {
		out = append(out, fmt.Sprintf("%d to %d entries", s.MinItems, s.MaxItems))
	}
	var values []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok && text != "" {
			values = append(values, "`"+text+"`")
		}
	}
	if len(values) > 0 {
		out = append(out, strings.Join(values, ", "))
	}
	return strings.Join(out, "; ")
}

// exampleValues returns the first value of each field in the example records of a kind, in Markdown.
func exampleValues(t *testing.T, kind record.Kind) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, file := range examples(t, kind) {
		raw, err := os.ReadFile(filepath.Clean(file))
		require.NoError(t, err)
		var value any
		require.NoError(t, json.Unmarshal(raw, &value))
		collectExamples(t, out, "", value)
	}
	return out
}

func collectExamples(t *testing.T, out map[string]string, path string, value any) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			collectExamples(t, out, strings.TrimPrefix(path+"."+name, "."), member)
		}
	case []any:
		for i, entry := range v {
			if _, nested := entry.(map[string]any); nested {
				collectExamples(t, out, path+"[]", entry)
			} else if i == 0 && out[path] == "" {
				out[path] = exampleText(t, v[:1])
			}
		}
	case nil:
	default:
		if out[path] == "" {
			out[path] = exampleText(t, v)
		}
	}
}

// exampleText returns a value as code of at most 60 characters.
func exampleText(t *testing.T, value any) string {
	t.Helper()
	if number, ok := value.(float64); ok && number == float64(int64(number)) {
		return fmt.Sprintf("`%d`", int64(number))
	}
	raw, err := json.Marshal(value, jsontext.EscapeForHTML(false))
	require.NoError(t, err)
	text := []rune(strings.NewReplacer("|", "/", "`", "'").Replace(string(raw)))
	if len(text) > 60 {
		text = append(text[:59], '…')
	}
	return "`" + string(text) + "`"
}
