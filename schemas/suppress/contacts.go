package suppress

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/record"
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
	return contactsWanted{emails: true, phones: true}.read(raw, 0)
}

// maxContacts bounds how many addresses, and how many numbers, of one record are looked at.
const maxContacts = 1024

// contactsWanted says what is looked for.
type contactsWanted struct{ emails, phones bool }

// unknown hands over, one by one, the members that muster has no field for, of a person's
// record, whose depth is 0, and of what is in it.
func unknown(r *record.Record, each func(members jsontext.Value, depth int)) {
	own := func(members jsontext.Value) {
		if len(members) > 0 {
			each(members, 0)
		}
	}
	give := func(members jsontext.Value) {
		if len(members) > 0 {
			each(members, 1)
		}
	}
	place := func(l *record.Location) {
		if l != nil {
			give(l.Unknown)
		}
	}
	position := func(p *record.Position) {
		give(p.Unknown)
		place(p.Location)
		if p.Company != nil {
			give(p.Company.Unknown)
		}
	}
	switch b := r.Body.(type) {
	case *record.NetworkPerson:
		own(b.Unknown)
		place(b.Location)
		if b.CurrentPosition != nil {
			position(b.CurrentPosition)
		}
		for i := range b.Experience {
			position(&b.Experience[i])
		}
		for i := range b.Education {
			give(b.Education[i].Unknown)
			place(b.Education[i].Location)
			if s := b.Education[i].School; s != nil {
				give(s.Unknown)
			}
		}
		for i := range b.Certifications {
			give(b.Certifications[i].Unknown)
		}
		for i := range b.Languages {
			give(b.Languages[i].Unknown)
		}
		for i := range b.Skills {
			give(b.Skills[i].Unknown)
		}
	case *record.CodehostPerson:
		own(b.Unknown)
		if b.LocationCanon != nil {
			give(b.LocationCanon.Unknown)
		}
	case *record.MicroblogPerson:
		own(b.Unknown)
	}
}

// mayBeIn is false when members have nothing of what is wanted: most need not be read. A name,
// or an address, may be written in escapes.
func (c contactsWanted) mayBeIn(members []byte) bool {
	if c.emails && bytes.IndexByte(members, '@') >= 0 || bytes.IndexByte(members, '\\') >= 0 {
		return true
	}
	if !c.phones {
		return false
	}
	for i, b := range members[:max(0, len(members)-4)] {
		if b|0x20 == 'h' && bytes.EqualFold(members[i:i+4], []byte("hone")) || b|0x20 == 'b' && bytes.EqualFold(members[i:i+4], []byte("bile")) {
			return true
		}
	}
	return false
}

// read reads an object that stands so deep in a record.
func (c contactsWanted) read(raw []byte, depth int) Contacts {
	r := contactsReader{want: c, dec: lenient(raw)}
	r.value(contactsWanted{}, depth)
	return r.found
}

// ofPhones says that a member, whose name is in lower case, has telephone numbers.
func ofPhones(name string) bool {
	return strings.Contains(name, "phone") || strings.Contains(name, "mobile")
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
			is.phones = is.phones || r.want.phones && ofPhones(name)
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
