package suppress

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
)

// maxDocument bounds how many bytes of a document's strings are read for addresses
// and links.
const maxDocument = 4 << 20

// address finds what may be an e-mail address in a text.
var address = regexp.MustCompile(`[^\s<>()\[\]{}"',;:|]+@[^\s<>()\[\]{}"',;:|@?]+`)

// Document reports whether a JSON text of any shape tells of somebody who was
// erased, and by which hash: it holds one of their e-mail addresses anywhere, the URL
// of one of their profiles, or an id or username in a member that is named for it. A
// text that is no JSON is searched for addresses and URLs alone. It is for what is
// about to leave and was made of anything, such as a webhook's body.
func (s *Set) Document(platforms *identity.Platforms, raw []byte) (Hash, bool) {
	return s.DocumentOf(platforms, "", raw)
}

// DocumentOf is Document for a record of a person on a platform, or what was to be one:
// its id and username are looked up as theirs.
func (s *Set) DocumentOf(platforms *identity.Platforms, platform string, raw []byte) (Hash, bool) {
	if !s.active() {
		return Hash{}, false
	}
	d := document{set: s, raw: raw, platforms: platforms}
	decoder := lenient(raw)
	if !d.value(decoder, "", platform) && !d.hit {
		d.text(string(raw[:min(len(raw), maxDocument)]))
	}
	return d.hash, d.hit
}

type document struct {
	set       *Set
	raw       []byte
	platforms *identity.Platforms
	// others is the account type of a platform among the members of an object of one of its
	// accounts whose id is not suppressed: its name is not that of the account which bore it before.
	others   Type
	accounts int // objects of accounts, one in the other
	read     int
	hash     Hash
	hit      bool
}

// value reads one value, which stands in the member name of an object that stands in
// the member parent. It returns false when it has found somebody, or cannot read on.
func (d *document) value(dec *jsontext.Decoder, parent, name string) bool {
	switch dec.PeekKind() {
	case '{':
		others, accounts := d.others, d.accounts
		d.others = ""
		if types, ok := typesOf(name); ok && accounts < maxAccounts {
			d.accounts++
			if d.isOthers(types, d.raw[dec.InputOffset():]) {
				d.others = types.account
			}
		}
		whole := d.object(dec, name)
		d.others, d.accounts = others, accounts
		return whole
	case '[':
		if _, err := dec.ReadToken(); err != nil {
			return false
		}
		for dec.PeekKind() != ']' {
			if !d.value(dec, parent, name) {
				return false
			}
		}
		_, err := dec.ReadToken()
		return err == nil
	case '"', '0':
		t, err := dec.ReadToken()
		if err != nil {
			return false
		}
		text := t.String()
		if !d.named(parent, name, text) {
			d.text(text)
		}
		return !d.hit
	case 0:
		return false
	}
	return dec.SkipValue() == nil
}

// maxAccounts bounds how many objects of accounts, one in the other, are read ahead for their ids.
const maxAccounts = 4

// object reads the members of an object that stands in the member name.
func (d *document) object(dec *jsontext.Decoder, name string) bool {
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if !d.value(dec, name, strings.ToLower(key.String())) {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil
}

// isOthers reports whether the object that comes next in a text, of an account, has an id that
// is not suppressed.
func (d *document) isOthers(types platformTypes, text []byte) bool {
	dec := lenient(text[max(0, bytes.IndexByte(text, '{')):])
	others := false
	each(dec, '}', func() bool {
		key, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if name := key.String(); name != "id" && name != "user_id" && name != string(types.id) || dec.PeekKind() != '"' && dec.PeekKind() != '0' {
			return dec.SkipValue() == nil
		}
		id, err := dec.ReadToken()
		if err != nil {
			return false
		}
		standard, err := Standard(types.id, id.String())
		others = err == nil && standard != "0" && !d.knows(types.id, standard)
		return others
	})
	return others
}

// named looks up a value whose member says what it is.
func (d *document) named(parent, name, value string) bool {
	t := Type(name)
	switch {
	case name == "username" || name == "id" || name == "user_id":
		types, ok := typesOf(parent)
		switch {
		case ok && name == "username":
			t = types.username
		case ok:
			t = types.id
		case name != "user_id":
			return false
		}
	case strings.Contains(name, "phone") || strings.Contains(name, "mobile"):
		for _, form := range phoneForms(value) {
			d.look(Phone, form)
		}
		if digits := DropPhoneNumber(value); len(digits) >= 7 {
			d.look(DropPhone, digits)
		}
		return d.hit
	case t == ProfileID, t == NetworkUsername, t == CodehostUsername, t == MicroblogUsername:
	default:
		return false
	}
	standard, err := Standard(t, value)
	if err != nil {
		return false
	}
	d.look(t, standard)
	var account Type
	switch t {
	case NetworkUsername:
		account = NetworkAccount
	case CodehostUsername:
		account = CodehostAccount
	case MicroblogUsername:
		account = MicroblogAccount
	}
	if account != "" && account != d.others {
		d.look(account, standard)
	}
	return d.hit
}

// text looks for addresses and profile URLs.
func (d *document) text(text string) {
	if d.read += len(text); d.read > maxDocument {
		return
	}
	if strings.Contains(text, "@") {
		for _, a := range address.FindAllString(text, -1) {
			if key, err := identity.EmailKey(strings.TrimRight(a, ".!?")); err == nil {
				for _, form := range append(identity.EmailForms(key), key) {
					d.look(Email, form)
				}
			}
		}
	}
	if strings.Contains(text, "/") {
		for _, a := range d.platforms.FindMentions(text) {
			if h, ok := d.set.Account(a.Platform, identity.UsernameKey(a.Username)); ok {
				d.hash, d.hit = h, true
			}
		}
	}
}

// look looks an identifier up, whatever scope it was erased in.
func (d *document) look(t Type, standard string) {
	if !d.hit && d.knows(t, standard) {
		d.hash, d.hit = d.set.key.Of(t, standard), true
	}
}

// knows reports whether an identifier is suppressed, in whatever scope.
func (d *document) knows(t Type, standard string) bool {
	if !d.set.ofTypes(t.bit()) {
		return false
	}
	h, ok := d.set.find(t, Sum(standard))
	return ok && d.set.Suppressed(h)
}
