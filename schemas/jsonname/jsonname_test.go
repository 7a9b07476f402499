package jsonname_test

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/jsonname"
)

func TestOfKind_NamesEveryKindOfValue(t *testing.T) {
	for text, want := range map[string]string{
		`"x"`: "a string", `1`: "a number", `true`: "a boolean", `false`: "a boolean", `null`: "null",
		`{}`: "an object", `[]`: "a list",
	} {
		if got := jsonname.OfKind(jsontext.Value(text).Kind()); got != want {
			t.Errorf("OfKind of %s is %q, want %q", text, got, want)
		}
	}
	if got := jsonname.OfKind(0); got != "a value" {
		t.Errorf("OfKind of no value is %q", got)
	}
}

func TestOfType_NamesWhatATypeIsDecodedFrom(t *testing.T) {
	var pointer **int64
	for want, v := range map[string]any{
		"a string": "", "a boolean": false, "a number": 1.5, "a list": []string(nil), "an object": struct{}{},
		"an integer": pointer, "another type": make(chan int),
	} {
		if got := jsonname.OfType(reflect.TypeOf(v)); got != want {
			t.Errorf("OfType of %T is %q, want %q", v, got, want)
		}
	}
	if got := jsonname.OfType(nil); got != "another type" {
		t.Errorf("OfType of no type is %q", got)
	}
}
