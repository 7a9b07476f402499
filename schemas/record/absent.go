package record

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// dropAbsent removes values from a decoded record that count as absent but do not decode to zero values: null
// or empty array elements, and objects without content. It is called only for records in which the scanner
// found some.
func dropAbsent(b body) { dropFrom(reflect.ValueOf(b).Elem()) }

func dropFrom(v reflect.Value) {
	for _, field := range v.Fields() {
		switch {
		case field.Type() == reflect.TypeFor[jsontext.Value]():
			// Unknown fields and raw arrays are served unchanged.
		case field.Kind() == reflect.Slice:
			dropElements(field)
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct && !field.IsNil():
			dropFrom(field.Elem())
			if field.Elem().IsZero() {
				field.SetZero()
			}
		case field.Kind() == reflect.Struct:
			dropFrom(field)
		}
	}
}

func dropElements(list reflect.Value) {
	kept := 0
	for i := range list.Len() {
		element := list.Index(i)
		if element.Kind() == reflect.Struct {
			dropFrom(element)
		}
		if element.IsZero() || isAbsentValue(element) {
			continue
		}
		if kept != i {
			list.Index(kept).Set(element)
		}
		kept++
	}
	if kept < list.Len() {
		list.Slice(kept, list.Len()).Clear()
		list.SetLen(kept)
	}
}

// isAbsentValue reports whether an element of an array of arbitrary JSON values is null or empty.
func isAbsentValue(element reflect.Value) bool {
	if element.Type() != reflect.TypeFor[jsontext.Value]() {
		return false
	}
	switch string(element.Bytes()) {
	case "null", `""`, "[]", "{}":
		return true
	}
	return false
}
