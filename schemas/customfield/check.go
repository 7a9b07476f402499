package customfield

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Check returns an error if a value is not valid for the type. null is never valid: callers that allow it
// check first.
func (t *Type) Check(value jsontext.Value) error {
	if !value.IsValid() {
		return errors.New("is not valid JSON")
	}
	if err := t.kind(value); err != nil {
		return err
	}
	if len(t.Enum) > 0 && !slices.ContainsFunc(t.Enum, func(e jsontext.Value) bool { return equal(e, value) }) {
		return errors.New("is not in the enumeration")
	}
	return nil
}

func (t *Type) kind(value jsontext.Value) error {
	ok := false
	switch k := value.Kind(); t.Kind {
	case String:
		ok = k == '"'
	case Number:
		ok = k == '0' && finite(value)
	case Integer:
		ok = k == '0' && isWhole(value)
	case Boolean:
		ok = k == 't' || k == 'f'
	case Array:
		if k == '[' {
			return t.elements(value)
		}
	case Object:
		if k == '{' {
			return t.properties(value)
		}
	}
	if !ok {
		return errors.New("is not " + article(t.Kind))
	}
	return nil
}

func (t *Type) elements(value jsontext.Value) error {
	if t.Items == nil {
		return nil
	}
	var list []jsontext.Value
	if err := json.Unmarshal(value, &list); err != nil {
		return errors.New("is not an array")
	}
	for i, v := range list {
		if err := t.Items.Check(v); err != nil {
			return fmt.Errorf("[%d] %w", i, err)
		}
	}
	return nil
}

func (t *Type) properties(value jsontext.Value) error {
	members, err := object("value", value)
	if err != nil {
		return errors.New("is not an object")
	}
	if len(t.Properties) == 0 {
		return nil
	}
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		i := slices.IndexFunc(t.Properties, func(f Field) bool { return f.Name == m.name })
		if i < 0 {
			return errors.New("has a property that is not in the schema")
		}
		f := t.Properties[i]
		if m.value.Kind() == 'n' && !f.Required {
			continue
		}
		seen[m.name] = true
		if err := f.Type.Check(m.value); err != nil {
			return fmt.Errorf(".%s %w", shorten(f.Name), err)
		}
	}
	for _, f := range t.Properties {
		if f.Required && !seen[f.Name] {
			return fmt.Errorf("is missing the property %s", shorten(f.Name))
		}
	}
	return nil
}

func finite(value jsontext.Value) bool {
	var f float64
	return json.Unmarshal(value, &f) == nil && !math.IsInf(f, 0)
}

// isWhole reports whether a number has no fraction, however it is written.
func isWhole(value jsontext.Value) bool {
	var f float64
	return json.Unmarshal(value, &f) == nil && f == math.Trunc(f)
}

// equal compares scalars by value.
func equal(a, b jsontext.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case '"':
		var x, y string
		return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
	case '0':
		var x, y float64
		return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
	default:
		return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
	}
}
