package suppress

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
)

// Addresses reports whether a JSON text has, in a field whose name ends in "email" or "emails", the address
// of a person erased in all scopes, or of a commit author erased from the code host's records. Use it for
// cached responses: the record that contains an address may belong to another person, as with commits. Free
// text, such as a biography, is not searched: it belongs to its author. Invalid JSON is read as far as
// possible.
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

// value reads the value of a field. It returns false on a match or if it cannot continue.
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
		if !isAddressField(name) {
			break
		}
		t, err := a.dec.ReadToken()
		if err != nil {
			return false
		}
		a.lookUp(name, t.String())
		return !a.hit
	}
	return a.dec.SkipValue() == nil
}

// isAddressField reports whether a field, in lower case, has e-mail addresses.
func isAddressField(name string) bool {
	return strings.HasSuffix(name, "email") || strings.HasSuffix(name, "emails")
}

// lenient returns a decoder that accepts as much invalid JSON as possible.
func lenient(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
}

// each calls member for the contents of an object or array, up to its end.
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

func (a *addresses) lookUp(name, value string) {
	key, err := identity.NormalizeEmail(value)
	if err != nil {
		return
	}
	for _, form := range append(identity.EmailForms(key), key) {
		if h, ok := a.set.find(Email, Sum(form)); ok {
			a.hit = a.hit || a.set.InAllScopes(h) || name == "author_email" && a.set.matches(h, bitCodehost)
		}
	}
}
