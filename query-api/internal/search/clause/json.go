package clause

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/jsonname"
)

// Error describes a problem of a query and its position.
type Error struct {
	Path   string
	Reason string
}

func (e *Error) Error() string { return e.Path + ": " + e.Reason }

// value is a JSON value with its position.
type value struct {
	place
	kind    jsontext.Kind
	text    string // of strings, and of numbers as written
	members []member
	items   []value
}

type member struct {
	name string
	value
}

// place is the position of a value. Its path is built for errors only: the paths of all values would take many times
// the length of the query.
type place struct {
	in    *place // nil: the root
	key   string // name in an object
	index int    // position in an array, from 1; 0: not in one
}

// path returns the JSON path of the position.
func (p *place) path() string {
	var steps []string
	for ; p != nil; p = p.in {
		switch {
		case p.index > 0:
			steps = append(steps, "["+strconv.Itoa(p.index-1)+"]")
		case p.in == nil || p.in.key == "" && p.in.in == nil:
			steps = append(steps, cut(p.key))
		default:
			steps = append(steps, "."+cut(p.key))
		}
	}
	slices.Reverse(steps)
	return strings.Join(steps, "")
}

const (
	// maxJSONDepth is the maximum depth of the JSON text, above what any valid query needs.
	maxJSONDepth = 200
	// MaxValues is the maximum number of values of a query, or of its sort keys, above what the other limits allow.
	MaxValues = 100_000
)

// parse parses a JSON text that is known to be valid.
func parse(text []byte, path string) (value, error) {
	r := jsonReader{decoder: jsontext.NewDecoder(bytes.NewReader(text))}
	return r.value(place{key: path}, 0)
}

type jsonReader struct {
	decoder *jsontext.Decoder
	values  int
}

func (r *jsonReader) value(at place, depth int) (value, error) {
	v := value{place: at}
	if depth > maxJSONDepth {
		return v, v.errorf("is nested deeper than %d levels", maxJSONDepth)
	}
	if r.values++; r.values > MaxValues {
		return v, v.errorf("has more than %d values", MaxValues)
	}
	t, err := r.decoder.ReadToken()
	if err != nil {
		return v, v.errorf("is not valid JSON")
	}
	v.kind = t.Kind()
	switch v.kind {
	case '"', '0':
		v.text = t.String()
		return v, nil
	case '{', '[':
	default:
		return v, nil
	}
	here := &place{at.in, at.key, at.index} // for all values in it
	for i := 1; ; i++ {
		switch r.decoder.PeekKind() {
		case '}', ']':
			if _, err := r.decoder.ReadToken(); err != nil {
				return v, v.errorf("is not valid JSON")
			}
			return v, nil
		}
		if v.kind == '[' {
			child, err := r.value(place{in: here, index: i}, depth+1)
			if err != nil {
				return v, err
			}
			v.items = append(v.items, child)
			continue
		}
		name, err := r.decoder.ReadToken()
		if err != nil {
			return v, v.errorf("is not valid JSON")
		}
		key := name.String()
		child, err := r.value(place{in: here, key: key}, depth+1)
		if err != nil {
			return v, err
		}
		v.members = append(v.members, member{key, child})
	}
}

const maxName = 64

// cut truncates a long name.
func cut(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "..."
	}
	return name
}

// shorten drops the middle of a path that is too long to read.
func shorten(path string) string {
	const most = 300
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most/2], "") + " ... " + strings.ToValidUTF8(path[len(path)-most/2:], "")
}

func (v value) errorf(format string, args ...any) error {
	return &Error{shorten(v.path()), fmt.Sprintf(format, args...)}
}

func (v value) what() string { return jsonname.OfKind(v.kind) }

// scalar returns the text of a string, number or boolean.
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

// number returns the value of a number, or of a string that is one. The integer -0, which is not a string, has no
// sign.
func (v value) number() (x float64, ok bool) {
	if v.kind == '0' && v.text == "-0" {
		return 0, true
	}
	x, ok = javaFloat(v.text, 64)
	return x, ok && (v.kind == '0' || v.kind == '"')
}

// javaFloat parses a finite number of the given bits as Java does: with surrounding spaces and a suffix f or d, but
// without _ between digits.
func javaFloat(text string, bits int) (x float64, ok bool) {
	text = javaTrim(text)
	if last := len(text) - 1; last > 0 && strings.IndexByte("fFdD", text[last]) >= 0 {
		text = text[:last]
	}
	x, err := strconv.ParseFloat(text, bits)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) && !strings.Contains(text, "_")
}

// javaTrim trims what Java's String.trim does.
func javaTrim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
}

// quote returns a name from the request, truncated and quoted.
func quote(s string) string { return strconv.Quote(cut(s)) }
