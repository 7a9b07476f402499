package readmodel

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
)

// unknownSmall is the size in bytes below which no list has more than MaxEntries entries: each needs a byte
// and a comma.
const unknownSmall = 2 * MaxEntries

// walker walks the fields of raw JSON.
type walker struct {
	names []string // stack of names of counts that replace fields
}

// reserved are the names that unknown fields of a shape must not have.
type reserved map[string]struct{}

func reserve(names ...string) reserved {
	set := make(reserved, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

// lists adds lists and their counts.
func (r reserved) lists(names ...string) reserved {
	for _, name := range names {
		r[name] = struct{}{}
		r[name+"_count"] = struct{}{}
	}
	return r
}

func (r reserved) has(name string) bool {
	_, ok := r[name]
	return ok
}

// unknown writes the unknown fields of an object (schemas/MAPPING.md, "Unknown fields").
func (w *writer) unknown(object jsontext.Value, known reserved) {
	if len(object) <= len("{}") {
		return
	}
	w.members(object, known, true)
}

// members writes the fields of an object. Absent ones are dropped only at the top of an unknown value.
func (w *writer) members(object jsontext.Value, known reserved, dropAbsent bool) {
	// Decoding bounds the depth of the recursion.
	base := len(w.walker.names)
	if len(object) > unknownSmall {
		eachMember(object, func(name string, value jsontext.Value) {
			if value.Kind() == '[' && len(value) > unknownSmall && countElements(value) > MaxEntries &&
				!(known.has(name)) {
				w.walker.names = append(w.walker.names, name+"_count")
			}
		})
	}
	counts := slices.Clone(w.walker.names[base:])
	w.walker.names = w.walker.names[:base]
	eachMember(object, func(name string, value jsontext.Value) {
		switch {
		case known.has(name), slices.Contains(counts, name), dropAbsent && isAbsent(value):
			return
		case w.noMail && isMailName(name):
			w.changed = true
			return
		}
		w.quoteAsIs(name)
		w.buf = append(w.buf, ':')
		n := w.value(value)
		w.buf = append(w.buf, ',')
		if n > MaxEntries {
			w.quoteAsIs(name + "_count")
			w.buf = append(w.buf, ':')
			w.buf = strconv.AppendInt(w.buf, int64(n), 10)
			w.buf = append(w.buf, ',')
		}
	})
}

// value writes a raw JSON value, with lists cut and e-mail addresses removed if requested. It returns the
// number of all elements if it is a list that was cut.
func (w *writer) value(value jsontext.Value) (n int) {
	if len(value) <= unknownSmall && !(w.noMail && mayNeedWalk(value)) {
		w.buf = append(w.buf, value...)
		return 0
	}
	switch value.Kind() {
	case '{':
		w.buf = append(w.buf, '{')
		w.members(value, nil, false)
		w.closeEntry()
		w.buf = w.buf[:len(w.buf)-1] // The caller writes the comma.
		return 0
	case '[':
		w.buf = append(w.buf, '[')
		eachElement(value, func(element jsontext.Value) {
			if n++; n <= MaxEntries {
				w.value(element)
				w.buf = append(w.buf, ',')
			}
		})
		if w.buf[len(w.buf)-1] == ',' {
			w.buf = w.buf[:len(w.buf)-1]
		}
		w.buf = append(w.buf, ']')
		return n
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			w.quote(string(text))
			return 0
		}
	}
	w.buf = append(w.buf, value...)
	return 0
}

// values writes a list of raw JSON values and its count (schemas/MAPPING.md, 7.4).
func (w *writer) values(key string, list []jsontext.Value, when counted) {
	if len(list) == 0 {
		return
	}
	n := 0
	mark := w.open(key, '[')
	for _, value := range list {
		if isAbsent(value) {
			continue
		}
		if n++; n <= MaxEntries {
			w.value(value)
			w.buf = append(w.buf, ',')
		}
	}
	w.close(mark, ']')
	w.count(key, n, when)
}

// mayNeedWalk reports quickly whether e-mail removal could change a raw value: it has a possible at sign, an
// escape that may hide one, or a name that may contain "mail".
func mayNeedWalk(value jsontext.Value) bool {
	for i, c := range value {
		switch c {
		case '@', '%', 0xef, '\\':
			return true
		case 'm', 'M':
			if i+len("mail") <= len(value) && bytes.EqualFold(value[i:i+len("mail")], []byte("mail")) {
				return true
			}
		}
	}
	return false
}

// isAbsent reports whether a raw value counts as absent: null, "", [] or {}.
func isAbsent(value jsontext.Value) bool {
	switch value.Kind() {
	case 'n':
		return true
	case '"':
		return len(value) == len(`""`)
	case '[', '{':
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	}
	return len(value) == 0
}

// anyPresent reports whether an object has a field that is not absent.
func anyPresent(object jsontext.Value) bool {
	present := false
	if len(object) > len("{}") {
		eachMember(object, func(_ string, value jsontext.Value) { present = present || !isAbsent(value) })
	}
	return present
}

func countElements(list jsontext.Value) (n int) {
	eachElement(list, func(jsontext.Value) { n++ })
	return n
}

// eachMember calls visit for the fields of a raw object. Records contain valid JSON only, so reading cannot
// fail; if it does, the rest is skipped.
func eachMember(object jsontext.Value, visit func(name string, value jsontext.Value)) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return
		}
		key := strings.Clone(name.String())
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		visit(key, value)
	}
}

// unknownEmail returns the unknown field "email" of a person, which person enrichment serves under that name.
// It is empty if missing or not an address.
func unknownEmail(object jsontext.Value) (email string) {
	if !bytes.Contains(object, []byte(`"email"`)) {
		return ""
	}
	eachMember(object, func(name string, value jsontext.Value) {
		if name == "email" && value.Kind() == '"' {
			unquoted, _ := jsontext.AppendUnquote(nil, value) // Validated by decoding.
			if _, err := identity.NormalizeEmail(string(unquoted)); err == nil {
				email = string(unquoted)
			}
		}
	})
	return email
}

// eachElement calls visit for the elements of a raw list.
func eachElement(list jsontext.Value, visit func(jsontext.Value)) {
	d := jsontext.NewDecoder(bytes.NewBuffer(list), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for {
		if kind := d.PeekKind(); kind == ']' || kind == 0 {
			return
		}
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		visit(value)
	}
}
