package record

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// dropAbsent removes from a decoded record what counts as absent but does not
// decode to nothing: list elements that are null or empty, and objects without
// any content. It is only called for records in which the scanner saw some.
func dropAbsent(b body) { dropFrom(reflect.ValueOf(b).Elem()) }

func dropFrom(v reflect.Value) {
	for _, field := range v.Fields() {
		switch {
		case field.Type() == reflect.TypeFor[jsontext.Value]():
			// Unknown fields and raw lists are served back as they are.
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

// isAbsentValue reports whether an element of a list of any JSON values is null
// or empty.
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
