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

// Valid reports why a value is not valid under a JSON Schema; nil when it is.
func Valid(schema, value jsontext.Value) error {
	v, err := compile(schema)
	if err != nil {
		return err
	}
	return v.check(value)
}

func (v *validator) check(value jsontext.Value) error {
	var instance any
	if err := jsonv2.Unmarshal(value, &instance); err != nil {
		return errors.New("it is not JSON")
	}
	if err := v.schema.Validate(instance); err != nil {
		return fmt.Errorf("it is not valid under the schema (%s)", cut(err.Error(), maxReason))
	}
	return nil
}

// maxReason bounds what a validator says, in bytes.
const maxReason = 500

// answer finds the JSON object of an answer and checks it. Some models wrap it in
// a fence or in prose; anything that is not one valid object is refused.
func (v *validator) answer(text string) (jsontext.Value, error) {
	text = strings.TrimSpace(text)
	value := jsontext.Value(text)
	if !value.IsValid() || value.Kind() != '{' {
		var ok bool
		if value, ok = within(text); !ok {
			return nil, errors.New("it is not one JSON object")
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
