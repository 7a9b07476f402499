package record_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

var update = flag.Bool("update", false, "write golden files")

// This file generates the JSON Schemas from the Go types (go test ./record -run Schemas -update).

const (
	datePattern = `^[0-9]{4}(-[0-9]{2})?$|^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})([Tt ` +
		`]([01][0-9]|2[0-3])(:?[0-5][0-9](:?([0-5][0-9]|60)([.,][0-9]+)?)?)?` +
		`( ?([Zz]|UTC|GMT|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9](:?[0-5][0-9])?)?( [A-Z]{1,5})?))?)?$`
	versionText = "Version: a year, a month, a day or a timestamp (ISO 8601). The newest version of an " +
		"identity wins."
	identityText   = "Identity."
	notBlank       = `\S`
	deletedText    = "true withdraws the identity; only identity and version are needed then."
	identityLength = 512
)

type object = map[string]any

// kindSchema has what the types do not specify.
type kindSchema struct {
	title    string
	body     any
	required []string // in addition to identity and version; not for deletions
	enums    map[string][]string
	texts    map[string]string
}

func kindSchemas() map[record.Kind]kindSchema {
	return map[record.Kind]kindSchema{
		record.KindNetworkPerson: {
			title: "A profile of the professional network", body: record.NetworkPerson{},
			required: []string{"username"},
			texts: map[string]string{"username": "The profile's slug.",
				"social_accounts": "URLs of accounts elsewhere."},
		},
		record.KindNetworkCompany: {title: "A company of the professional network", body: record.NetworkCompany{}},
		record.KindCodehostPerson: {
			title: "An account of the code host", body: record.CodehostPerson{},
			required: []string{"codehost_username"},

			texts: map[string]string{
				"repos": "Repositories of this owner, without user_id; they are split off into " +
					"codehost-repo records.",
				"commits": "Commits of this author, without user_id; they are split off into " +
					"codehost-commit records.",
				"repos_complete":   "true if repos is the complete list: other repositories are withdrawn.",
				"commits_complete": "true if commits is the complete list: other commits are withdrawn.",
			},
		},
		record.KindCodehostRepo: {title: "A repository of its owner", body: record.CodehostRepo{},
			texts: map[string]string{"user_id": "Identity: the owner's account."}},
		record.KindCodehostCommit: {title: "A commit of its author", body: record.CodehostCommit{},
			texts: map[string]string{"user_id": "Identity: the author's account."}},
		record.KindMicroblogPerson: {
			title: "An account of the microblog", body: record.MicroblogPerson{},
			enums: map[string][]string{"account_type": {"personal", "business", "government"}},
		},
		record.KindAccountLink: {title: "Two accounts that belong to one person", body: record.AccountLink{},
			texts: map[string]string{"source": "Identity: the source that states it."}},
		record.KindErasure: {
			title: "An erasure request", body: record.Erasure{},
			enums: map[string][]string{"scope": {"all", "codehost", "network"}},
			texts: map[string]string{
				"scope":        "Records to erase: all, which is the default, or those of one webset.",
				"requested_by": "Requesting person or authority.", "note": "Reference to the request's file.",
			},
		},
		record.KindCodehostList: {
			title: "All of an owner's repositories or commits at one time (created by muster)",
			body:  record.CodehostList{},
			enums: map[string][]string{"list": {"repos", "commits"}},
		},
	}
}

// schemaOf derives the schema of a kind.
func schemaOf(d record.Definition, k kindSchema) object {
	properties := propertiesOf(reflect.TypeOf(k.body))
	for _, name := range d.IdentityFields {
		field := properties[name].(object)
		switch kind := reflect.TypeOf(k.body); {
		case name == "a" || name == "b":
			properties[name] = accountSchema()
			continue
		case name == "identifiers":
			properties[name] = identifiersSchema()
			continue
		case fieldOf(kind, name).Type.Kind() == reflect.String:
			field["type"] = "string"
			field["pattern"], field["maxLength"] = notBlank, identityLength
		default:
			field["type"] = "integer"
			field["minimum"] = 0
		}
		field["description"] = identityText
	}
	properties[d.VersionField] = object{"type": "string", "pattern": datePattern, "description": versionText}
	properties["deleted"].(object)["description"] = deletedText
	for name, values := range k.enums {
		field := properties[name].(object)
		all := []any{}
		for _, v := range values {
			all = append(all, v)
		}
		if _, optional := field["type"].([]any); optional {
			all = append(all, "", nil)
		}
		delete(field, "pattern")
		delete(field, "maxLength")
		field["enum"] = all
	}
	if d.Kind == record.KindCodehostPerson {
		repo, commit := propertiesOf(reflect.TypeFor[record.CodehostRepo]()),
			propertiesOf(reflect.TypeFor[record.CodehostCommit]())
		repo["id"] = object{"type": "integer", "minimum": 0, "description": "ID of the repository."}
		commit["sha"] = object{"type": "string", "pattern": notBlank, "maxLength": identityLength,
			"description": "SHA of the commit."}
		repo["updated_at"] = object{"type": "string", "pattern": datePattern,
			"description": "Version of the repository."}
		commit["author_date"] = object{"type": "string", "pattern": datePattern,
			"description": "Version of the commit."}
		properties["repos"] = object{"type": []any{"array", "null"}, "items": object{"type": "object",
			"properties": repo, "required": []any{"id", "updated_at"}}}
		properties["commits"] = object{"type": []any{"array", "null"}, "items": object{"type": "object",
			"properties": commit, "required": []any{"sha", "author_date"}}}
	}
	for name, text := range k.texts {
		properties[name].(object)["description"] = text
	}
	schema := object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"$id":         "https://muster.example/schemas/record/" + string(d.Kind) + ".v1.json",
		"title":       k.title,
		"description": "Unknown fields are kept and served back. In optional fields null counts as absent.",
		"type":        "object",
		"properties":  properties,
		"required":    append(d.IdentityFields, d.VersionField),
	}
	if len(k.required) > 0 {
		present := object{}
		for _, name := range k.required {
			present[name] = object{"type": "string", "pattern": notBlank}
		}
		schema["if"] = object{"properties": object{"deleted": object{"const": true}}, "required": []any{"deleted"}}
		schema["else"] = object{"required": k.required, "properties": present}
	}
	if d.Kind == record.KindAccountLink {
		properties["confidence"].(object)["minimum"] = 0
		properties["confidence"].(object)["maximum"] = 1
	}
	return schema
}

func identifiersSchema() object {
	return object{
		"type": "array", "minItems": 1, "maxItems": record.MaxIdentifiers,
		"description": "Identity: the identifiers of the people to erase, in any order.",
		"items": object{
			"type": "object",
			"properties": object{
				"type": object{"enum": []any{"email", "phone", "network_username", "codehost_username",
					"microblog_username", "profile_id", "user_id"}, "description": "Type of the identifier."},
				"value": object{"type": []any{"string", "number"}, "pattern": notBlank, "maxLength": identityLength,
					"description": "Value of the identifier."},
				"sha256": object{"type": "string", "pattern": "^[0-9A-Fa-f]{64}$",
					"description": "SHA-256 of the normalized form, in hexadecimal, instead of the value."},
			},
			"required": []any{"type"},
			"oneOf":    []any{object{"required": []any{"value"}}, object{"required": []any{"sha256"}}},
		},
	}
}

// allDefinitions returns the definitions of records and requests.
func allDefinitions() []record.Definition {
	erasure, _ := record.Lookup(record.KindErasure)
	return append(record.Definitions(), erasure)
}

func accountSchema() object {
	return object{
		"type": "object", "description": "Identity: one of the two accounts, in either order.",
		"properties": object{
			"platform": object{"enum": []any{"codehost", "network", "microblog"},
				"description": "Platform of the account."},
			"username": object{"type": "string", "pattern": notBlank, "description": "Username of the account."},
		},
		"required": []any{"platform", "username"},
	}
}

func fieldOf(t reflect.Type, name string) reflect.StructField {
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f
		}
	}
	panic("no field " + name)
}

func propertiesOf(t reflect.Type) object {
	properties := object{}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			field := typeSchema(f.Type)
			if text := fieldTexts()[t.Name()+"."+name]; text != "" {
				field["description"] = text
			}
			properties[name] = field
		}
	}
	return properties
}

func typeSchema(t reflect.Type) object {
	nullable := func(name string) []any { return []any{name, "null"} }
	switch {
	case t == reflect.TypeFor[record.PartialDate]():
		return object{"type": nullable("string"), "pattern": "^$|" + datePattern}
	case t == reflect.TypeFor[jsontext.Value]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.String:
		return object{"type": nullable("string")}
	case reflect.Bool:
		return object{"type": nullable("boolean")}
	case reflect.Int64:
		return object{"type": nullable("integer")}
	case reflect.Float64:
		return object{"type": nullable("number")}
	case reflect.Slice:
		return object{"type": nullable("array"), "items": typeSchema(t.Elem())}
	case reflect.Struct:
		return object{"type": nullable("object"), "properties": propertiesOf(t)}
	}
	panic("no schema for " + t.String())
}

func TestSchemas_MatchTypes(t *testing.T) {
	described := kindSchemas()
	for _, d := range allDefinitions() {
		k, ok := described[d.Kind]
		require.True(t, ok, d.Kind)
		want, err := json.Marshal(schemaOf(d, k), json.Deterministic(true), jsontext.WithIndent("  "))
		require.NoError(t, err)
		want = append(want, '\n')
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join("jsonschema", string(d.Kind)+".json"), want, 0o644))
			continue
		}
		require.Equal(t, string(want), string(d.Schema), "%s: run go test ./record -run Schemas -update", d.Kind)
	}
}

// compile returns the schema of a kind.
func compile(t testing.TB, d record.Definition) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.Schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("record.json", document))
	schema, err := compiler.Compile("record.json")
	require.NoError(t, err)
	return schema
}

func TestSchemas_AgreeWithDecode(t *testing.T) {
	for _, d := range allDefinitions() {
		schema := compile(t, d)
		for _, file := range examples(t, d.Kind) {
			t.Run(file, func(t *testing.T) {
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
				require.NoError(t, err)
				require.NoError(t, schema.Validate(value))
			})
		}
	}
	// The schema rejects the same field shapes as Decode.
	for _, c := range defects() {
		if c.schemaAccepts || c.kind == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d, ok := record.Lookup(c.kind)
			require.True(t, ok)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(c.raw))
			if err != nil {
				return // not JSON at all
			}
			require.Error(t, compile(t, d).Validate(value))
		})
	}
}

// examples returns the example files of a kind, of which there is at least one.
func examples(t testing.TB, kind record.Kind) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", string(kind), "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "kind %s has no example", kind)
	return files
}
