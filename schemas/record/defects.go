package record

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDefects is the maximum number of validation errors reported per record.
const maxDefects = 10

// FieldError is one validation error of a record, as in [ValidationError].
type FieldError struct {
	Path   string `json:"path,omitempty"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// FieldErrors returns the error itself and those in Also.
func (e *ValidationError) FieldErrors() []FieldError {
	return append([]FieldError{{e.Path, e.Code, e.Reason}}, e.Also...)
}

// findOthers returns the validation errors of a record other than the first one. It replaces each invalid
// value by a valid one and decodes again, until the record is valid or an error has no replacement, as with
// invalid JSON.
func (c codec) findOthers(raw []byte, first *ValidationError) (others []FieldError) {
	if !isFixable(first) {
		return nil
	}
	object := jsontext.Value(bytes.Clone(raw))
	if object.Compact() != nil || object.Kind() != '{' {
		return nil
	}
	fixed := map[string]int{} // how often, by path
	for bad, step := first, 0; len(others)+1 < maxDefects; step++ {
		if _, again := fixed[bad.Path]; !again && bad != first {
			others = append(others, FieldError{bad.Path, bad.Code, bad.Reason})
		}
		value, ok := placeholder(bad, fixed[bad.Path], step)
		if !ok {
			return others
		}
		fixed[bad.Path]++
		if object, ok = setMember(object, bad.Path, value); !ok {
			return others
		}
		if _, bad = c.decode(bytes.Clone(object)); bad == nil || !isFixable(bad) {
			return others
		}
	}
	return others
}

// isFixable reports whether another value in the same location can be valid.
func isFixable(bad *ValidationError) bool {
	switch bad.Code {
	case CodeWrongType, CodeOutOfRange, CodeMissingIdentity, CodeMissingVersion, CodeMissingField, CodeBadIdentity,
		CodeBadDate, CodeBadValue:
		return bad.Path != ""
	}
	return false
}

// placeholder returns the next value to try in place of an invalid one: null, which counts as absent, then
// values that are valid for an identity, a version or a name. ok is false if all were tried. step makes
// identities in one record differ.
func placeholder(bad *ValidationError, tried, step int) (value string, ok bool) {
	year := strconv.Itoa(2000 + step)
	values := [...]string{"null", `"` + year + `"`, year, `"codehost"`}
	switch bad.Code {
	case CodeMissingIdentity, CodeMissingVersion, CodeMissingField:
		tried = max(tried, 1) // it is null already
	}
	if tried >= len(values) {
		return "", false
	}
	return values[tried], true
}

// setMember returns a compact JSON object with another value at a path such as "experience[3].start". ok is
// false if the path leads through a value that is not an object or array.
func setMember(object []byte, path, value string) (out []byte, ok bool) {
	if path == "" {
		return []byte(value), true
	}
	if path[0] == '[' {
		return setElement(object, path, value)
	}
	if len(object) == 0 {
		object = []byte("{}")
	}
	if object[0] != '{' {
		return nil, false
	}
	name, rest := path, ""
	if i := strings.IndexAny(path, ".["); i >= 0 {
		name, rest = path[:i], strings.TrimPrefix(path[i:], ".")
	}
	out = append(make([]byte, 0, len(object)+len(path)+len(value)+4), '{')
	ok = true
	found := false
	eachMember(object, func(m member) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		if string(m.name) != name {
			out = append(out, m.whole...)
			return
		}
		found = true
		below, set := setMember(m.value, rest, value)
		ok = ok && set
		out = append(append(out, m.whole[:len(m.whole)-len(m.value)]...), below...)
	})
	if !found {
		below, set := setMember(nil, rest, value)
		ok = ok && set
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, name), ':')
		out = append(out, below...)
	}
	return append(out, '}'), ok
}

// setElement is setMember for an array, whose path begins with an index.
func setElement(list []byte, path, value string) (out []byte, ok bool) {
	end := strings.IndexByte(path, ']')
	if end < 0 || len(list) == 0 || list[0] != '[' {
		return nil, false
	}
	index, err := strconv.Atoi(path[1:end])
	if err != nil {
		return nil, false
	}
	rest := strings.TrimPrefix(path[end+1:], ".")
	out = append(make([]byte, 0, len(list)+len(value)), '[')
	i := -1
	eachElement(list, func(element []byte) {
		if i++; i > 0 {
			out = append(out, ',')
		}
		if i != index {
			out = append(out, element...)
			return
		}
		var below []byte
		below, ok = setMember(element, rest, value)
		out = append(out, below...)
	})
	return append(out, ']'), ok
}
