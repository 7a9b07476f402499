package oracle

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Number is a JSON number as written.
type Number string

// Object is a JSON object.
type Object = map[string]any

// Decode reads one JSON value. Objects become [Object], arrays []any, numbers [Number]. Duplicate fields and invalid
// UTF-8 are errors.
func Decode(raw []byte) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	v, err := decode(dec)
	if err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := dec.ReadToken(); err != io.EOF { //nolint:errorlint // ReadToken documents io.EOF itself
		return nil, fmt.Errorf("decode JSON: trailing data after the value at byte %d", dec.InputOffset())
	}
	return v, nil
}

func decode(dec *jsontext.Decoder) (any, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return tok.String(), nil
	case '0':
		return Number(tok.String()), nil
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := decode(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.ReadToken()
		return list, err
	default: // '{'
		object := Object{}
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if object[key], err = decode(dec); err != nil {
				return nil, err
			}
		}
		_, err = dec.ReadToken()
		return object, err
	}
}

func decodeObject(raw []byte) Object {
	v, err := Decode(raw)
	if err != nil {
		panic(err) // Add has read the record
	}
	o, ok := v.(Object)
	if !ok {
		panic("oracle: a record is not an object")
	}
	return o
}

// absent reports whether a value counts as absent (MAPPING.md, section 1, "Absent").
func absent(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case Object:
		return len(v) == 0
	}
	return false
}

// pick copies the named members that are present, unchanged.
func pick(dst, src Object, names ...string) {
	for _, n := range names {
		if v := src[n]; !absent(v) {
			dst[n] = v
		}
	}
}

func put(dst Object, name string, v any) {
	if !absent(v) {
		dst[name] = v
	}
}

func str(src Object, name string) string {
	s, _ := src[name].(string)
	return s
}

func object(v any) Object {
	o, _ := v.(Object)
	return o
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

const maxEntries = 100

// putList adds a list that is a direct member of a record: at most 100 entries, and always its count.
func putList(dst Object, name string, entries []any) {
	if len(entries) == 0 {
		return
	}
	dst[name+"_count"] = number(len(entries))
	dst[name] = entries[:min(len(entries), maxEntries)]
}

// putDeepList adds a list at a deeper level, with its count only if it was truncated.
func putDeepList(dst Object, name string, entries []any) {
	if len(entries) > maxEntries {
		dst[name+"_count"] = number(len(entries))
	}
	put(dst, name, entries[:min(len(entries), maxEntries)])
}

func number(n int) Number { return Number(fmt.Sprint(n)) }

func numberOf(f float64) Number { return Number(strconv.FormatFloat(f, 'g', -1, 64)) }

// present drops the absent entries of a list of plain values.
func present(v any) []any {
	var out []any
	for _, e := range list(v) {
		if !absent(e) {
			out = append(out, e)
		}
	}
	return out
}

// presentStrings is present for a list of strings.
func presentStrings(v any) []string {
	var out []string
	for _, e := range present(v) {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func anys(list []string) []any {
	out := make([]any, 0, len(list))
	for _, s := range list {
		out = append(out, s)
	}
	return out
}
