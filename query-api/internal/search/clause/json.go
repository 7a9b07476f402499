package clause

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says what is wrong with a query, and where.
type Error struct {
	Path   string
	Reason string
}

func (e *Error) Error() string { return e.Path + ": " + e.Reason }

// value is a JSON value that knows its path.
type value struct {
	path    string
	kind    jsontext.Kind
	text    string // of strings and numbers, the latter as they are written
	members []member
	items   []value
}

type member struct {
	name string
	value
}

// maxJSONDepth bounds the depth of the JSON text, above what any query needs.
const maxJSONDepth = 200

// parse reads a JSON text that is known to be valid.
func parse(text []byte, path string) (value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	return parseValue(d, path, 0)
}

func parseValue(d *jsontext.Decoder, path string, depth int) (value, error) {
	if depth > maxJSONDepth {
		return value{}, &Error{shorten(path), fmt.Sprintf("is nested deeper than %d levels", maxJSONDepth)}
	}
	t, err := d.ReadToken()
	if err != nil {
		return value{}, &Error{shorten(path), "is not valid JSON"}
	}
	v := value{path: path, kind: t.Kind()}
	switch t.Kind() {
	case '"', '0':
		v.text = t.String()
	case '{':
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return value{}, &Error{shorten(path), "is not valid JSON"}
			}
			key := name.String()
			child, err := parseValue(d, join(path, key), depth+1)
			if err != nil {
				return value{}, err
			}
			v.members = append(v.members, member{key, child})
		}
		if _, err := d.ReadToken(); err != nil {
			return value{}, &Error{shorten(path), "is not valid JSON"}
		}
	case '[':
		for i := 0; d.PeekKind() != ']'; i++ {
			child, err := parseValue(d, path+"["+strconv.Itoa(i)+"]", depth+1)
			if err != nil {
				return value{}, err
			}
			v.items = append(v.items, child)
		}
		if _, err := d.ReadToken(); err != nil {
			return value{}, &Error{shorten(path), "is not valid JSON"}
		}
	}
	return v, nil
}

const maxName = 64

func join(path, name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "..."
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// shorten keeps the two ends of a path that is too long to be read.
func shorten(path string) string {
	const most = 300
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most/2], "") + " ... " + strings.ToValidUTF8(path[len(path)-most/2:], "")
}

func (v value) errorf(format string, args ...any) error {
	return &Error{shorten(v.path), fmt.Sprintf(format, args...)}
}

func (v value) what() string {
	switch v.kind {
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
	return "this"
}

// scalar is the text of a string, number or boolean.
func (v value) scalar() (string, error) {
	switch v.kind {
	case '"', '0':
		return v.text, nil
	case 't':
		return "true", nil
	case 'f':
		return "false", nil
	}
	return "", v.errorf("must be a string, a number or a boolean, not %s", v.what())
}

// quote repeats a caller's word within bounds.
func quote(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "..."
	}
	return strconv.Quote(s)
}
