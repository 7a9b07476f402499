package search

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
)

// sourceFilter selects fields of a document (_source filtering).
type sourceFilter struct {
	algebra.Source
	id string // path of the ID
}

// apply returns the selected fields of a document, always with the ID.
func (s sourceFilter) apply(document []byte) ([]byte, error) {
	if !s.None && len(s.Includes) == 0 && len(s.Excludes) == 0 {
		return document, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(document))
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out)
	if err := s.object(d, e, "", len(s.Includes) == 0); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// element returns the selected fields of an element of a nested path. Names are paths from the root of the document.
func (s sourceFilter) element(path string, element jsontext.Value) ([]byte, error) {
	switch {
	case s.None || anyMatches(s.Excludes, path):
		return []byte("{}"), nil
	case len(s.Includes) == 0 && len(s.Excludes) == 0:
		return element, nil
	}
	return s.value(jsontext.NewDecoder(bytes.NewReader(element)), path, len(s.Includes) == 0)
}

// object copies the selected fields of an object. whole reports whether an object around it is included.
func (s sourceFilter) object(d *jsontext.Decoder, e *jsontext.Encoder, path string, whole bool) error {
	if err := copyToken(d, e); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		if err := s.field(d, e, path, whole); err != nil {
			return err
		}
	}
	return copyToken(d, e)
}

// field copies the selected part of the next field of the object at a path.
func (s sourceFilter) field(d *jsontext.Decoder, e *jsontext.Encoder, path string, whole bool) error {
	name, err := d.ReadToken()
	if err != nil {
		return err
	}
	key := name.String()
	if path != "" {
		path += "."
	}
	path += key
	always := path == s.id
	if !always && (s.None || anyMatches(s.Excludes, path)) {
		return d.SkipValue()
	}
	shown := always || whole || anyMatches(s.Includes, path)
	partly := !shown && anyBelow(s.Includes, path) || shown && anyBelow(s.Excludes, path)
	var text jsontext.Value
	switch k := d.PeekKind(); {
	case partly && (k == '{' || k == '['):
		if text, err = s.value(d, path, shown); err == nil && !shown && isEmpty(text) {
			return nil
		}
	case shown:
		text, err = d.ReadValue()
	default:
		return d.SkipValue()
	}
	if err != nil {
		return err
	}
	if err := e.WriteToken(jsontext.String(key)); err != nil {
		return err
	}
	return e.WriteValue(text)
}

// value returns the selected part of an object or an array. Elements of an array without a selected field are dropped.
func (s sourceFilter) value(d *jsontext.Decoder, path string, whole bool) (jsontext.Value, error) {
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out)
	err := s.copyValue(d, e, path, whole)
	return bytes.TrimSpace(out.Bytes()), err
}

func (s sourceFilter) copyValue(d *jsontext.Decoder, e *jsontext.Encoder, path string, whole bool) error {
	if d.PeekKind() == '{' {
		return s.object(d, e, path, whole)
	}
	if err := copyToken(d, e); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		var v jsontext.Value
		var err error
		if k := d.PeekKind(); k == '{' || k == '[' {
			if v, err = s.value(d, path, whole); err == nil && isEmpty(v) {
				continue
			}
		} else if v, err = d.ReadValue(); err == nil && !whole {
			continue
		}
		if err != nil {
			return err
		}
		if err := e.WriteValue(v); err != nil {
			return err
		}
	}
	return copyToken(d, e)
}

func isEmpty(v jsontext.Value) bool { return string(v) == "{}" || string(v) == "[]" }

func copyToken(d *jsontext.Decoder, e *jsontext.Encoder) error {
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	return e.WriteToken(t)
}

// anyMatches reports whether a pattern matches the path or an object around it.
func anyMatches(patterns []string, path string) bool {
	for _, p := range patterns {
		for prefix := path; ; {
			if matchStar(p, prefix) {
				return true
			}
			i := strings.LastIndexByte(prefix, '.')
			if i < 0 {
				break
			}
			prefix = prefix[:i]
		}
	}
	return false
}

// anyBelow reports whether a pattern may match a field inside the path.
func anyBelow(patterns []string, path string) bool {
	for _, p := range patterns {
		if star := strings.IndexByte(p, '*'); star >= 0 {
			fixed := p[:star]
			if strings.HasPrefix(path+".", fixed) || strings.HasPrefix(fixed, path+".") {
				return true
			}
			continue
		}
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

// matchStar reports whether a pattern, in which * matches any characters, matches text.
func matchStar(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
