package suppress

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Contacts are the e-mail addresses and telephone numbers in a record's members, as they
// are written there.
type Contacts struct{ Emails, Phones []string }

// ContactsIn returns what an object has, at any depth, under names that say so: addresses
// under one that ends in "email" or "emails", numbers under one that has "phone" or
// "mobile" in it, in whatever case, be they alone, in lists, or in objects. A text is not
// searched: it stays with who wrote it. Nor are the lists that a codehost-person may embed,
// which tell of others. An object that cannot be read is read as far as it goes, and no more
// than [maxContacts] of each are returned.
func ContactsIn(raw jsontext.Value) Contacts {
	return contactsWanted{emails: true, phones: true}.read(raw)
}

// maxContacts bounds how many addresses, and how many numbers, of one record are looked at.
const maxContacts = 1024

// contactsWanted says what is looked for.
type contactsWanted struct{ emails, phones bool }

// mayBeIn is false when an object has nothing of what is wanted beside addresses that muster has
// a field for, of which signs are the at signs: most need not be read a second time.
func (c contactsWanted) mayBeIn(raw []byte, signs int) bool {
	if c.emails && (bytes.Count(raw, []byte{'@'}) > signs || bytes.Contains(raw, []byte(`\u0040`))) {
		return true
	}
	if !c.phones {
		return false
	}
	for _, piece := range []string{"hone", "obile", "HONE", "OBILE", `\u`} { // a name may be written in escapes
		if bytes.Contains(raw, []byte(piece)) {
			return true
		}
	}
	return false
}

// signs counts the at signs of addresses.
func signs(addresses ...string) int {
	n := 0
	for _, a := range addresses {
		n += strings.Count(a, "@")
	}
	return n
}

func (c contactsWanted) read(raw []byte) Contacts {
	r := contactsReader{want: c, dec: jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	r.value(contactsWanted{}, 0)
	return r.found
}

// tellsOfOthers says that a member of a person's record is a list of what others made or are.
func tellsOfOthers(name string) bool {
	switch name {
	case "repos", "commits", "starred_repos", "issues", "follower_accounts", "followed_accounts":
		return true
	}
	return false
}

type contactsReader struct {
	want  contactsWanted
	dec   *jsontext.Decoder
	found Contacts
}

// value reads a value, which is what the names above it say; false when it cannot be read on.
func (r *contactsReader) value(is contactsWanted, depth int) bool {
	switch r.dec.PeekKind() {
	case '{':
		return each(r.dec, '}', func() bool {
			key, err := r.dec.ReadToken()
			if err != nil {
				return false
			}
			name, is := strings.ToLower(key.String()), is
			if depth == 0 && tellsOfOthers(name) {
				return r.dec.SkipValue() == nil
			}
			is.emails = is.emails || r.want.emails && (strings.HasSuffix(name, "email") || strings.HasSuffix(name, "emails"))
			is.phones = is.phones || r.want.phones && (strings.Contains(name, "phone") || strings.Contains(name, "mobile"))
			return r.value(is, depth+1)
		})
	case '[':
		return each(r.dec, ']', func() bool { return r.value(is, depth+1) })
	case '"', '0':
		if is == (contactsWanted{}) {
			break
		}
		t, err := r.dec.ReadToken()
		if err != nil {
			return false
		}
		if is.emails && strings.Contains(t.String(), "@") {
			r.found.Emails = add(r.found.Emails, t.String())
		}
		if is.phones {
			r.found.Phones = add(r.found.Phones, t.String())
		}
		return true
	}
	return r.dec.SkipValue() == nil
}

func add(list []string, value string) []string {
	if len(list) >= maxContacts || slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}
