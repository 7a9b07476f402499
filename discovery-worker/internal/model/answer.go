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

// validator checks answers.
type validator struct{ schema *jsonschema.Resolved }

func compile(schema jsontext.Value) (*validator, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("schema of the answer: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("schema of the answer: %w", err)
	}
	return &validator{resolved}, nil
}

// invalidError is why an answer is not valid. The model is told all of it; its text says
// what is wrong without what the model wrote, since that may be about a person.
type invalidError struct{ text, detail string }

func (e *invalidError) Error() string { return e.text }

// toModel says more, for the model that is to mend its answer.
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
		return &invalidError{text: "it is not valid under the schema" + keyword(err), detail: cut(err.Error(), maxReason)}
	}
	return nil
}

// keyword is the one of the schema that a validator's error begins with, in brackets.
// The rest of the error holds the value and the names of its members.
func keyword(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	name, _, _ := strings.Cut(err.Error(), ":")
	switch name {
	case "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern",
		"anyOf", "oneOf", "not", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required":
		return " (" + name + ")"
	}
	return ""
}

// maxReason bounds what a validator says, in bytes.
const maxReason = 500

// answer finds the JSON object of an answer and checks it. Some models wrap it in
// a fence or in prose; anything that is not one valid object is refused.
func (v *validator) answer(text string) (jsontext.Value, *invalidError) {
	text = strings.TrimSpace(text)
	value := jsontext.Value(text)
	if !value.IsValid() || value.Kind() != '{' {
		var ok bool
		if value, ok = within(text); !ok {
			return nil, &invalidError{text: "it is not one JSON object"}
		}
	}
	if err := v.check(value); err != nil {
		return nil, err
	}
	return value, nil
}

// within finds the only JSON object in a text.
func within(text string) (jsontext.Value, bool) {
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
