// Package jsonname names the types of JSON values in error messages, such as "a string".
package jsonname

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// OfKind returns the name of a kind of value.
func OfKind(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "a value"
}

// OfType returns the name of the values that a Go type, or a pointer to it, is decoded from.
func OfType(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "another type"
	}
	switch t.Kind() {
	case reflect.String:
		return OfKind('"')
	case reflect.Bool:
		return OfKind('t')
	case reflect.Float32, reflect.Float64:
		return OfKind('0')
	case reflect.Slice, reflect.Array:
		return OfKind('[')
	case reflect.Struct, reflect.Map:
		return OfKind('{')
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer"
	}
	return "another type"
}
