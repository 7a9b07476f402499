package model

import (
	"encoding/json" //nolint:depguard // jsonschema-go reads schemas with it
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	jsonv2 "github.com/go-json-experiment/json"
)

// validator validates answers against a schema.
type validator struct{ schema *jsonschema.Resolved }

func compile(schema jsontext.Value) (*validator, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("answer schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("answer schema: %w", err)
	}
	return &validator{resolved}, nil
}

// invalidError describes why an answer is invalid. Its Error omits the answer, which may contain
// personal data; toModel includes it.
type invalidError struct{ text, detail string }

func (e *invalidError) Error() string { return e.text }

// toModel returns the full description, for the repair by the model.
func (e *invalidError) toModel() string {
	if e.detail == "" {
		return e.text
	}
	return e.text + " (" + e.detail + ")"
}

func (v *validator) check(value jsontext.Value) *invalidError {
	var instance any
	if err := jsonv2.Unmarshal(value, &instance); err != nil {
		return &invalidError{text: "it is not JSON"}
	}
	if err := v.schema.Validate(instance); err != nil {
		return &invalidError{text: "it is not valid under the schema" + keyword(err),
			detail: truncate(err.Error(), maxReasonBytes)}
	}
	return nil
}

// keyword returns the schema keyword that a validation error starts with, in parentheses. The rest
// of the error contains values and names.
func keyword(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	name, _, _ := strings.Cut(err.Error(), ":")
	switch name {
	case "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"minLength", "maxLength", "pattern", "anyOf", "oneOf", "not", "contains",
		"minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
		"minProperties", "maxProperties", "required":
		return " (" + name + ")"
	}
	return ""
}

// maxReasonBytes limits a validation error.
const maxReasonBytes = 500

// parseAnswer finds and validates the JSON object of an answer. Some models wrap it in a code fence
// or in prose; anything but exactly one valid object is rejected.
func (v *validator) parseAnswer(text string) (jsontext.Value, *invalidError) {
	text = strings.TrimSpace(text)
	value := jsontext.Value(text)
	if !value.IsValid() || value.Kind() != '{' {
		var ok bool
		if value, ok = findObject(text); !ok {
			return nil, &invalidError{text: "it is not one JSON object"}
		}
	}
	if err := v.check(value); err != nil {
		return nil, err
	}
	return value, nil
}

// findObject returns the only JSON object in a text.
func findObject(text string) (jsontext.Value, bool) {
	var found jsontext.Value
	for {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			return found, found != nil
		}
		text = text[at:]
		d := jsontext.NewDecoder(strings.NewReader(text))
		value, err := d.ReadValue()
		if err != nil || found != nil {
			return nil, false
		}
		found, text = value.Clone(), text[d.InputOffset():]
	}
}
