package customfield

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSONSchema returns the type as JSON Schema 2020-12, limited to what structured output of language models
// supports: every property is required, and optional ones are nullable. loose reports that the type has an
// array or object of any type, which strict structured output does not support.
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

// Encode encodes a JSON Schema deterministically.
func Encode(schema map[string]any) (jsontext.Value, error) {
	return json.Marshal(schema, json.Deterministic(true))
}
