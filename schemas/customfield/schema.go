package customfield

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/jsonname"
)

// Limits of a schema.
const (
	// MaxFields is the maximum number of fields of a schema, MaxTypes of types at all levels.
	MaxFields = 100
	MaxTypes  = 300
	// MaxDepth is the maximum nesting depth of arrays and objects.
	MaxDepth = 5
	// MaxName and MaxDescription are in bytes.
	MaxName        = 128
	MaxDescription = 4000
	// MaxEnum is the maximum number of values of an enumeration.
	MaxEnum = 500
)

// Kinds of values.
const (
	String  = "string"
	Number  = "number"
	Integer = "integer"
	Boolean = "boolean"
	Array   = "array"
	Object  = "object"
)

// Kinds returns the allowed types of values.
func Kinds() []string { return []string{String, Number, Integer, Boolean, Array, Object} }

// Schema is the list of requested fields, in the order given.
type Schema []Field

// Field is a named type.
type Field struct {
	Name string
	Type Type
	// Required properties of an object are neither null nor absent. Fields of a Schema are never required:
	// null means unknown.
	Required bool
}

// Type is the type of a value.
type Type struct {
	Kind string
	// Description is the caller's description of the value.
	Description string
	// Enum are the only valid values; empty: all of the kind.
	Enum []jsontext.Value
	// Items is the type of array elements; nil: any.
	Items *Type
	// Properties are the properties of an object; empty: any.
	Properties []Field
}

// Error is a schema error and its location.
type Error struct {
	// Path is the location of the invalid field, such as schema.age.type.
	Path string
	// Reason follows the path in a sentence.
	Reason string
	// Unknown is an unknown field, Known are the known ones; both are empty for other errors.
	Unknown string
	Known   []string
}

// Error returns path and reason.
func (e *Error) Error() string { return e.Path + " " + e.Reason }

// Parse parses the value of the request field name. null is an empty schema. The error is an [*Error].
func Parse(name string, raw jsontext.Value) (Schema, error) {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return nil, nil
	}
	p := &parser{}
	members, err := object(name, raw)
	if err != nil {
		return nil, err
	}
	if len(members) > MaxFields {
		return nil, &Error{Path: name, Reason: fmt.Sprintf("has %d keys: request at most %d", len(members), MaxFields)}
	}
	return p.fields(name, members, 1)
}

type parser struct{ types int }

// member is a name and a value of an object.
type member struct {
	name  string
	value jsontext.Value
}

// object decodes an object and preserves the order.
func object(path string, raw jsontext.Value) ([]member, error) {
	if raw.Kind() != '{' {
		return nil, &Error{Path: path, Reason: "must be an object, not " + jsonname.OfKind(raw.Kind())}
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := d.ReadToken(); err != nil {
		return nil, &Error{Path: path, Reason: "is not valid JSON"}
	}
	var out []member
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, readError(path, err)
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, readError(path, err)
		}
		out = append(out, member{name, value.Clone()})
	}
	return out, nil
}

func readError(path string, err error) *Error {
	var s *jsontext.SyntacticError
	if errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &s) {
		return &Error{Path: path + "." + shorten(s.JSONPointer.LastToken()), Reason: "appears twice: send it once"}
	}
	return &Error{Path: path, Reason: "is not valid JSON"}
}

func (p *parser) fields(path string, members []member, depth int) ([]Field, error) {
	out := make([]Field, 0, len(members))
	for _, m := range members {
		switch {
		case m.name == "":
			return nil, &Error{Path: path, Reason: "has an empty key: name the field"}
		case len(m.name) > MaxName:
			return nil, &Error{Path: path + "." + shorten(m.name), Reason: fmt.Sprintf("is a key of more than %d bytes",
				MaxName)}
		case strings.ContainsFunc(m.name, unicode.IsControl):
			return nil, &Error{Path: path, Reason: "has a key with control characters"}
		}
		t, err := p.parse(path+"."+m.name, m.value, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, Field{Name: m.name, Type: *t})
	}
	return out, nil
}

// typeMembers returns the fields of a type.
func typeMembers() []string {
	return []string{"type", "description", "enum", "items", "properties", "required"}
}

func (p *parser) parse(path string, raw jsontext.Value, depth int) (*Type, error) {
	if p.types++; p.types > MaxTypes {
		return nil, &Error{Path: path, Reason: fmt.Sprintf("exceeds the limit of %d types per schema",
			MaxTypes)}
	}
	if depth > MaxDepth {
		return nil, &Error{Path: path, Reason: fmt.Sprintf("is nested too deeply: the limit is %d levels", MaxDepth)}
	}
	members, err := object(path, raw)
	if err != nil {
		return nil, err
	}
	t := new(Type)
	given := make(map[string]jsontext.Value, len(members))
	for _, m := range members {
		if !slices.Contains(typeMembers(), m.name) {
			return nil, &Error{Path: path, Reason: "has an unknown field", Unknown: m.name, Known: typeMembers()}
		}
		if m.value.Kind() != 'n' {
			given[m.name] = m.value
		}
	}
	kind, ok := given["type"]
	if !ok {
		return nil, &Error{Path: path + ".type", Reason: "is missing: it must be one of " + strings.Join(Kinds(), ", ")}
	}
	if json.Unmarshal(kind, &t.Kind) != nil {
		return nil, &Error{Path: path + ".type", Reason: "must be a string: one of " + strings.Join(Kinds(), ", ")}
	}
	if !slices.Contains(Kinds(), t.Kind) {
		return nil, &Error{Path: path + ".type", Reason: fmt.Sprintf("is %q: it must be one of %s", shorten(t.Kind),
			strings.Join(Kinds(), ", "))}
	}
	if v, ok := given["description"]; ok {
		if json.Unmarshal(v, &t.Description) != nil {
			return nil, &Error{Path: path + ".description",
				Reason: "must be a string, not " + jsonname.OfKind(v.Kind())}
		}
		if len(t.Description) > MaxDescription {
			return nil, &Error{Path: path + ".description", Reason: fmt.Sprintf("is longer than %d bytes",
				MaxDescription)}
		}
	}
	for _, only := range []struct{ member, kind string }{{"items", Array}, {"properties", Object},
		{"required", Object}} {
		if _, ok := given[only.member]; ok && t.Kind != only.kind {
			return nil, &Error{Path: path + "." + only.member,
				Reason: fmt.Sprintf("applies to type %s, but the type here is %s", only.kind, t.Kind)}
		}
	}
	return t, p.parts(path, t, given, depth)
}

// parts parses the components of a type.
func (p *parser) parts(path string, t *Type, given map[string]jsontext.Value, depth int) (err error) {
	if v, ok := given["items"]; ok {
		if t.Items, err = p.parse(path+".items", v, depth+1); err != nil {
			return err
		}
	}
	if v, ok := given["properties"]; ok {
		members, err := object(path+".properties", v)
		if err != nil {
			return err
		}
		if t.Properties, err = p.fields(path+".properties", members, depth+1); err != nil {
			return err
		}
	}
	if v, ok := given["required"]; ok {
		var names []string
		if json.Unmarshal(v, &names) != nil {
			return &Error{Path: path + ".required", Reason: "must be an array of property names"}
		}
		for _, name := range names {
			i := slices.IndexFunc(t.Properties, func(f Field) bool { return f.Name == name })
			if i < 0 {
				return &Error{Path: path + ".required",
					Reason: fmt.Sprintf("lists %q, which is not a property", shorten(name))}
			}
			t.Properties[i].Required = true
		}
	}
	v, ok := given["enum"]
	if !ok {
		return nil
	}
	switch t.Kind {
	case Array:
		return &Error{Path: path + ".enum", Reason: "does not belong to an array: put it into items"}
	case Object:
		return &Error{Path: path + ".enum", Reason: "does not belong to an object: put it into its properties"}
	}
	var values []jsontext.Value
	if json.Unmarshal(v, &values) != nil || len(values) == 0 {
		return &Error{Path: path + ".enum", Reason: "must be a non-empty array"}
	}
	if len(values) > MaxEnum {
		return &Error{Path: path + ".enum", Reason: fmt.Sprintf("has %d values: at most %d are allowed", len(values),
			MaxEnum)}
	}
	for i, value := range values {
		if err := t.Check(value); err != nil {
			return &Error{Path: fmt.Sprintf("%s.enum[%d]", path, i), Reason: "must be " + article(t.Kind) +
				", like the type"}
		}
	}
	t.Enum = values
	return nil
}

// shorten limits the length of quoted caller input.
func shorten(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

func article(kind string) string {
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}
