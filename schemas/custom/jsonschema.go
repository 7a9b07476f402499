package custom

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSONSchema writes the type as JSON Schema 2020-12, in the part of it that
// structured output of language models knows: every property is required, and
// those that may be left out may be null. loose reports that the type holds an
// array or object of anything, which strict structured output does not know.
func (t *Type) JSONSchema() (schema map[string]any, loose bool) {
	return t.jsonSchema(false)
}

func (t *Type) jsonSchema(nullable bool) (map[string]any, bool) {
	out := map[string]any{"type": t.Kind}
	if nullable {
		out["type"] = []string{t.Kind, "null"}
	}
	if t.Description != "" {
		out["description"] = t.Description
	}
	if len(t.Enum) > 0 {
		values := t.Enum
		if nullable {
			values = append(values[:len(values):len(values)], jsontext.Value("null"))
		}
		out["enum"] = values
	}
	loose := false
	switch {
	case t.Kind == Array && t.Items == nil:
		loose = true
	case t.Kind == Array:
		out["items"], loose = t.Items.jsonSchema(false)
	case t.Kind == Object && len(t.Properties) == 0:
		loose = true
	case t.Kind == Object:
		properties, names := make(map[string]any, len(t.Properties)), make([]string, len(t.Properties))
		for i, f := range t.Properties {
			p, l := f.Type.jsonSchema(!f.Required)
			properties[f.Name], names[i] = p, f.Name
			loose = loose || l
		}
		out["properties"], out["required"], out["additionalProperties"] = properties, names, false
	}
	return out, loose
}

// Encode writes a JSON Schema, always in the same way.
func Encode(schema map[string]any) (jsontext.Value, error) {
	return json.Marshal(schema, json.Deterministic(true))
}
