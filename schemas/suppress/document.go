package suppress

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
)

// maxDocument is the maximum number of bytes of a document's strings that are scanned for addresses and
// links.
const maxDocument = 4 << 20

// maxLocal and maxDomain are the bytes scanned before and after an @. Addresses are shorter.
const (
	maxLocal  = 128
	maxDomain = 512
)

// FindInDocument reports whether a JSON text of any structure contains data of an erased person, and the hash of
// the matching entry: one of their e-mail addresses or profile URLs anywhere, or an id, username or phone
// number in a field with a matching name (phone numbers also in nested values). A text that is not JSON is
// searched for addresses and URLs only. Punctuation around addresses, URL encoding and HTML escapes are
// handled. Use it for outgoing data from arbitrary sources, such as webhook bodies.
func (s *Set) FindInDocument(platforms *identity.Platforms, raw []byte) (Hash, bool) {
	return s.FindInDocumentOf(platforms, "", raw)
}

// FindInDocumentOf is FindInDocument for an actual or rejected record of a person on a platform: its id and username
// are looked up, too.
func (s *Set) FindInDocumentOf(platforms *identity.Platforms, platform string, raw []byte) (Hash, bool) {
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
	// others is the account type of a platform among the fields of an account object whose id is not
	// suppressed: its username is not that of the erased account.
	others   Type
	accounts int  // nesting depth of account objects
	phones   bool // inside a field for phone numbers
	read     int
	hash     Hash
	hit      bool
}

// value reads a value, the field name of an object that is in the field parent. It returns false on a match
// or if it cannot continue.
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

// maxAccounts is the maximum nesting depth at which account objects are read ahead for their ids.
const maxAccounts = 4

// object reads the fields of an object in the field name.
func (d *document) object(dec *jsontext.Decoder, name string) bool {
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return false
		}
		member, phones := strings.ToLower(key.String()), d.phones
		if strings.Contains(member, "@") {
			d.text(member)
		}
		d.phones = phones || isPhoneField(member)
		whole := !d.hit && d.value(dec, name, member)
		d.phones = phones
		if !whole {
			return false
		}
	}
	_, err := dec.ReadToken()
	return err == nil
}

// isOthers reports whether the next object in a text is an account with an id that is not suppressed.
func (d *document) isOthers(types platformTypes, text []byte) bool {
	dec := lenient(text[max(0, bytes.IndexByte(text, '{')):])
	others := false
	each(dec, '}', func() bool {
		key, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if name := key.String(); name != "id" && name != "user_id" && name != string(types.id) ||
			dec.PeekKind() != '"' && dec.PeekKind() != '0' {
			return dec.SkipValue() == nil
		}
		id, err := dec.ReadToken()
		if err != nil {
			return false
		}
		standard, err := Normalize(types.id, id.String())
		others = err == nil && standard != "0" && !d.knows(types.id, standard)
		return others
	})
	return others
}

// named looks up a value whose field name gives its type.
func (d *document) named(parent, name, value string) bool {
	if d.phones {
		for _, form := range PhoneForms(value) {
			d.lookUp(Phone, form)
		}
		if digits := DropPhoneNumber(value); len(digits) >= 7 {
			d.lookUp(DropPhone, digits)
		}
	}
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
	case t == ProfileID, t == NetworkUsername, t == CodehostUsername, t == MicroblogUsername:
	default:
		return false
	}
	standard, err := Normalize(t, value)
	if err != nil {
		return false
	}
	d.lookUp(t, standard)
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
		d.lookUp(account, standard)
	}
	return d.hit
}

// text searches for addresses and profile URLs, as written and unescaped.
func (d *document) text(text string) {
	if d.read += len(text); d.read > maxDocument {
		return
	}
	d.written(text)
	if plain := html.UnescapeString(identity.PercentDecode(text)); plain != text {
		d.written(plain)
	}
}

func (d *document) written(text string) {
	if d.set.ofTypes(Email.bit()) {
		d.addresses(text)
	}
	if strings.Contains(text, "/") {
		for _, a := range d.platforms.FindMentions(text) {
			if h, ok := d.set.Account(a.Platform, identity.NormalizeUsername(a.Username)); ok {
				d.hash, d.hit = h, true
			}
		}
	}
}

// addresses searches for addresses: the text around each @ up to characters that no address has, also cut at
// the first punctuation mark, which few addresses have, and at the first non-Latin letter, as Chinese has no
// spaces.
func (d *document) addresses(text string) {
	for from := 0; !d.hit; {
		next := strings.IndexByte(text[from:], '@')
		if next < 0 {
			return
		}
		at := from + next
		local := strings.TrimLeft(tail(text[max(from, at-maxLocal):at], endsAddress), "'")
		word := strings.TrimLeft(tail(local, isMark), "._+-")
		locals := [...]string{word, tail(word, isForeign), local}
		domain := strings.TrimRight(head(text[at+1:min(len(text), at+1+maxDomain)], endsDomain), ".!'")
		word = strings.TrimRight(head(domain, isMark), "._+-")
		domains := [...]string{word, strings.TrimRight(head(word, isForeign), "._-"), domain}
		for i, local := range locals {
			for j, domain := range domains {
				if local != "" && domain != "" && !slices.Contains(locals[:i], local) && !slices.Contains(domains[:j],
					domain) {
					d.address(text[at-len(local) : at+1+len(domain)])
				}
			}
		}
		from = at + 1
	}
}

func (d *document) address(written string) {
	key, err := identity.NormalizeEmail(written)
	if err != nil {
		return
	}
	for _, form := range append(identity.EmailForms(key), key) {
		d.lookUp(Email, form)
	}
}

// endsAddress reports whether a rune cannot be part of an address.
func endsAddress(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`<>()[]{}",;:|@`, r)
}

func endsDomain(r rune) bool { return endsAddress(r) || r == '?' }

// isMark reports whether a rune is unusual in addresses.
func isMark(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune("._+-", r)
}

func isForeign(r rune) bool { return r >= utf8.RuneSelf && !unicode.Is(unicode.Latin, r) }

// tail returns the text after the last rune for which is holds; head returns the text before the first.
func tail(s string, of func(rune) bool) string {
	at := strings.LastIndexFunc(s, of)
	if at < 0 {
		return s
	}
	_, size := utf8.DecodeRuneInString(s[at:])
	return s[at+size:]
}

func head(s string, of func(rune) bool) string {
	if at := strings.IndexFunc(s, of); at >= 0 {
		return s[:at]
	}
	return s
}

// lookUp looks up an identifier in any scope.
func (d *document) lookUp(t Type, standard string) {
	if !d.hit && d.knows(t, standard) {
		d.hash, d.hit = d.set.key.Of(t, standard), true
	}
}

// knows reports whether an identifier is suppressed in any scope.
func (d *document) knows(t Type, standard string) bool {
	if !d.set.ofTypes(t.bit()) {
		return false
	}
	h, ok := d.set.find(t, Sum(standard))
	return ok && d.set.Suppressed(h)
}
