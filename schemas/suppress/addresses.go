package suppress

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
)

// Addresses reports whether a JSON text has, in a member whose name ends in "email" or
// "emails", the address of somebody who was erased from all records, or of a commit's
// author who was erased from the code host's. It is for answers that are kept: the record
// that an address stands in may be somebody else's, as with commits. What stands in a
// text, such as a biography, is not looked at: it stays with who wrote it. A text that is
// no JSON is read as far as it is.
func (s *Set) Addresses(raw []byte) bool {
	if !s.active() || !s.ofTypes(Email.bit()) {
		return false
	}
	a := addresses{set: s, dec: lenient(raw)}
	a.value("")
	return a.hit
}

type addresses struct {
	set *Set
	dec *jsontext.Decoder
	hit bool
}

// value reads the value of a member. It returns false when it has found somebody, or
// cannot read on.
func (a *addresses) value(name string) bool {
	switch a.dec.PeekKind() {
	case '{':
		return each(a.dec, '}', func() bool {
			key, err := a.dec.ReadToken()
			return err == nil && a.value(strings.ToLower(key.String()))
		})
	case '[':
		return each(a.dec, ']', func() bool { return a.value(name) })
	case '"':
		if !strings.HasSuffix(name, "email") && !strings.HasSuffix(name, "emails") {
			break
		}
		t, err := a.dec.ReadToken()
		if err != nil {
			return false
		}
		a.look(name, t.String())
		return !a.hit
	}
	return a.dec.SkipValue() == nil
}

// lenient reads a text as far as it can be read.
func lenient(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// each reads what an object or a list has, up to its end.
func each(dec *jsontext.Decoder, end jsontext.Kind, member func() bool) bool {
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() != end {
		if !member() {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil
}

func (a *addresses) look(name, value string) {
	key, err := identity.EmailKey(value)
	if err != nil {
		return
	}
	for _, form := range append(identity.EmailForms(key), key) {
		if h, ok := a.set.find(Email, Sum(form)); ok {
			a.hit = a.hit || a.set.Everywhere(h) || name == "author_email" && a.set.hit(h, bitCodehost)
		}
	}
}
