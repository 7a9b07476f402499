package mcptools

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// minValueBytes is the space that a member of an object gets at least, or the object has fewer members.
	minValueBytes = 48
	// minItemBytes is the space that an element of a list gets at least, or the list has fewer elements.
	minItemBytes = 240
	// maxCuts is how many truncated values are reported by path, maxPathBytes how much of a path.
	maxCuts      = 20
	maxPathBytes = 120
	ellipsis     = "…"
)

// truncate returns a JSON value of at most limit bytes, and a description of what it lacks. The space is shared fairly:
// short values stay complete, long ones are cut to equal lengths. Lists lose elements at their end.
func truncate(value []byte, limit int) (jsontext.Value, []string, error) {
	compact := jsontext.Value(bytes.Clone(value))
	if err := compact.Compact(); err != nil {
		return nil, nil, fmt.Errorf("read a response: %w", err)
	}
	if len(compact) <= limit {
		return compact, nil, nil
	}
	var out bytes.Buffer
	t := truncation{to: jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))}
	if err := t.write(compact, limit, ""); err != nil {
		return nil, nil, fmt.Errorf("shorten a response: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), t.report(), nil
}

// truncation writes a shortened copy of a JSON value.
type truncation struct {
	to   *jsontext.Encoder
	cuts []cut
	more int // cuts that are not in the list
}

// cut is a place where something is missing. Places in different elements of a list are one.
type cut struct {
	path      string
	kind      jsontext.Kind
	shown, of int // of the place that lost most
}

func (t *truncation) note(path string, kind jsontext.Kind, shown, of int) {
	if len(path) > maxPathBytes {
		path = cutText(path, maxPathBytes-len(ellipsis)) + ellipsis
	}
	for i, c := range t.cuts {
		if c.path == path && c.kind == kind {
			if of-shown > c.of-c.shown {
				t.cuts[i].shown, t.cuts[i].of = shown, of
			}
			return
		}
	}
	if len(t.cuts) == maxCuts {
		t.more++
		return
	}
	t.cuts = append(t.cuts, cut{path, kind, shown, of})
}

func (t *truncation) report() []string {
	var out []string
	for _, c := range t.cuts {
		what := map[jsontext.Kind]string{'[': "entries", '{': "members", '"': "bytes"}[c.kind]
		name := strings.TrimPrefix(c.path, ".")
		if name == "" {
			name = "data"
		}
		out = append(out, fmt.Sprintf("%s: %d of %d %s shown", name, c.shown, c.of, what))
	}
	if t.more > 0 {
		out = append(out, fmt.Sprintf("%d more places", t.more))
	}
	return out
}

// write writes a compact value with at most budget bytes.
func (t *truncation) write(v jsontext.Value, budget int, path string) error {
	if len(v) <= budget {
		return t.to.WriteValue(v)
	}
	switch v.Kind() {
	case '[', '{':
		return t.writeParts(v, budget, path)
	case '"':
		return t.writeString(v, budget, path)
	}
	t.note(path, '"', 0, len(v)) // a number with very many digits
	return t.to.WriteToken(jsontext.Null)
}

// writeString writes the beginning of a string.
func (t *truncation) writeString(v jsontext.Value, budget int, path string) error {
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return err
	}
	keep := len(text)
	var quoted []byte
	for {
		keep = min(keep-1, budget-len(`""`)-len(ellipsis))
		if keep <= 0 {
			quoted, keep = []byte(`""`), 0
			break
		}
		begin := cutText(string(text), keep)
		keep = len(begin)
		if quoted, err = jsontext.AppendQuote(nil, begin+ellipsis); err != nil {
			return err
		}
		over := len(quoted) - budget
		if over <= 0 {
			break
		}
		keep -= over / 6 // an escape has at most 6 bytes for one
	}
	t.note(path, '"', keep, len(text))
	return t.to.WriteValue(quoted)
}

// cutText returns the first n bytes of a text, without a part of a character.
func cutText(text string, n int) string {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:min(n, len(text))]
}

// part is an element of a list, or a member of an object with the quoted name.
type part struct{ name, value jsontext.Value }

// writeParts writes as many elements or members as there is room for, from the first.
func (t *truncation) writeParts(v jsontext.Value, budget int, path string) error {
	parts, err := partsOf(v)
	if err != nil {
		return err
	}
	least := minItemBytes
	if v.Kind() == '{' {
		least = minValueBytes
	}
	room, needed, shown := budget-len("[]")+len(","), 0, 0 // the first part has no comma
	for _, p := range parts {
		overhead := len(",")
		if p.name != nil {
			overhead += len(p.name) + len(":")
		}
		room -= overhead
		if needed += min(len(p.value), least); needed > room {
			room += overhead
			break
		}
		shown++
	}
	if shown < len(parts) {
		t.note(path, v.Kind(), shown, len(parts))
	}
	parts = parts[:shown]
	budgets := share(parts, room)
	begin, end := jsontext.BeginArray, jsontext.EndArray
	if v.Kind() == '{' {
		begin, end = jsontext.BeginObject, jsontext.EndObject
	}
	if err := t.to.WriteToken(begin); err != nil {
		return err
	}
	for i, p := range parts {
		at := path + "[]"
		if p.name != nil {
			if err := t.to.WriteValue(p.name); err != nil {
				return err
			}
			name, err := jsontext.AppendUnquote(nil, p.name)
			if err != nil {
				return err
			}
			at = path + "." + string(name)
		}
		if err := t.write(p.value, budgets[i], at); err != nil {
			return err
		}
	}
	return t.to.WriteToken(end)
}

// share divides room among parts: each gets what it needs, or the same as the others that need more.
func share(parts []part, room int) []int {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return len(parts[a].value) - len(parts[b].value) })
	out := make([]int, len(parts))
	for n, i := range order {
		out[i] = min(len(parts[i].value), room/(len(order)-n))
		room -= out[i]
	}
	return out
}

// partsOf returns the elements or members of a value as slices of it.
func partsOf(v jsontext.Value) ([]part, error) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	read := func() (jsontext.Value, error) {
		value, err := d.ReadValue()
		end := int(d.InputOffset())
		return v[end-len(value) : end], err
	}
	var out []part
	for {
		switch kind := d.PeekKind(); kind {
		case ']', '}':
			return out, nil
		case 0:
			_, err := d.ReadToken()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		var p part
		var err error
		if v.Kind() == '{' {
			if p.name, err = read(); err != nil {
				return nil, err
			}
		}
		if p.value, err = read(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
}
