package search

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
)

// source applies which members of a document are shown.
type source algebra.Source

// apply writes the part of a document that is shown. The profile id always is.
func (s source) apply(document []byte) ([]byte, error) {
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

// element writes the part of an element of a nested path that is shown. Names are those of
// the whole document.
func (s source) element(path string, element jsontext.Value) ([]byte, error) {
	switch {
	case s.None || anyMatches(s.Excludes, path):
		return []byte("{}"), nil
	case len(s.Includes) == 0 && len(s.Excludes) == 0:
		return element, nil
	}
	return s.value(jsontext.NewDecoder(bytes.NewReader(element)), path, len(s.Includes) == 0)
}

// object copies the members of an object that are shown. whole says that an
// outer name was included.
func (s source) object(d *jsontext.Decoder, e *jsontext.Encoder, path string, whole bool) error {
	if err := copyToken(d, e); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		if err := s.member(d, e, path, whole); err != nil {
			return err
		}
	}
	return copyToken(d, e)
}

// member copies what is shown of the next member of the object at a path.
func (s source) member(d *jsontext.Decoder, e *jsontext.Encoder, path string, whole bool) error {
	name, err := d.ReadToken()
	if err != nil {
		return err
	}
	key := name.String()
	if path != "" {
		path += "."
	}
	path += key
	always := path == "profile_id"
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

// value is the part of an object, or of a list, that is shown: of a list those elements of which something is.
func (s source) value(d *jsontext.Decoder, path string, whole bool) (jsontext.Value, error) {
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out)
	err := s.copyValue(d, e, path, whole)
	return bytes.TrimSpace(out.Bytes()), err
}

func (s source) copyValue(d *jsontext.Decoder, e *jsontext.Encoder, path string, whole bool) error {
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

// anyMatches says that a pattern names the path or an object that holds it.
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

// anyBelow says that a pattern may name something inside of the path.
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

// matchStar matches a text with a pattern in which * stands for anything.
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
