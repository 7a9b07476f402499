package suppress

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/record"
)

// Contacts are the e-mail addresses and phone numbers in a record's fields, as given.
type Contacts struct{ Emails, Phones []string }

// ContactsIn returns the addresses and numbers of an object at any depth, by field name: addresses in fields
// whose names end in "email" or "emails", numbers in fields whose names contain "phone" or "mobile", in any
// case; single, in arrays or in objects. It does not search free text, which belongs to its author, nor the
// lists that a codehost-person may embed, which are about others. Reading stops at invalid JSON and after
// [maxContacts] of each.
func ContactsIn(raw jsontext.Value) Contacts {
	return contactsWanted{emails: true, phones: true}.read(raw, 0)
}

// RecordPhones returns the person's own phone numbers in a record, as [OwnPhones] does.
func RecordPhones(r *record.Record) (out []string) {
	unknown(r, func(members jsontext.Value, depth int) {
		if depth == 0 {
			out = OwnPhones(members)
		}
	})
	return out
}

// OwnPhones returns the normalized phone numbers ([Normalize]) of a person's record as it is stored or served, in
// fields with names as in [ContactsIn]. Those of places, positions, schools and other entries are not the person's.
func OwnPhones(raw jsontext.Value) (out []string) {
	want := contactsWanted{phones: true, own: true}
	if !want.mayBeIn(raw) {
		return nil
	}
	for _, given := range want.read(raw, 0).Phones {
		if number, err := phone(given); err == nil {
			out = add(out, number)
		}
	}
	return out
}

// maxContacts is the maximum number of addresses, and of numbers, per record.
const maxContacts = 1024

// contactsWanted are the requested kinds of contacts. With own, those of entries are left out.
type contactsWanted struct{ emails, phones, own bool }

// unknown calls each with the unmapped fields of a person's record (depth 0) and of its nested objects.
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

// mayBeIn reports whether fields may contain a requested contact; most do not and need not be parsed. Names
// and addresses may be escaped.
func (c contactsWanted) mayBeIn(members []byte) bool {
	if c.emails && bytes.IndexByte(members, '@') >= 0 || bytes.IndexByte(members, '\\') >= 0 {
		return true
	}
	if !c.phones {
		return false
	}
	for i, b := range members[:max(0, len(members)-4)] {
		if b|0x20 == 'h' && bytes.EqualFold(members[i:i+4], []byte("hone")) || b|0x20 == 'b' &&
			bytes.EqualFold(members[i:i+4], []byte("bile")) {
			return true
		}
	}
	return false
}

// read reads an object at the given depth of a record.
func (c contactsWanted) read(raw []byte, depth int) Contacts {
	r := contactsReader{want: c, dec: lenient(raw)}
	r.value(contactsWanted{}, depth)
	return r.found
}

// isPhoneField reports whether a field with this lower-case name has phone numbers.
func isPhoneField(name string) bool {
	return strings.Contains(name, "phone") || strings.Contains(name, "mobile")
}

// isAboutOthers reports whether a field of a person's record is a list about other people or their work.
func isAboutOthers(name string) bool {
	switch name {
	case "repos", "commits", "starred_repos", "issues", "follower_accounts", "followed_accounts":
		return true
	}
	return false
}

// isEntry reports whether a field of a person's record is a place, or has places, positions, schools or the like.
func isEntry(name string) bool {
	switch name {
	case "location", "location_canonical", "current_position", "experience", "education", "certifications", "languages",
		"skills":
		return true
	}
	return false
}

type contactsReader struct {
	want  contactsWanted
	dec   *jsontext.Decoder
	found Contacts
}

// value reads a value whose kind follows from the enclosing names. It returns false if it cannot continue.
func (r *contactsReader) value(is contactsWanted, depth int) bool {
	switch r.dec.PeekKind() {
	case '{':
		return each(r.dec, '}', func() bool {
			key, err := r.dec.ReadToken()
			if err != nil {
				return false
			}
			name, is := strings.ToLower(key.String()), is
			if depth == 0 && (isAboutOthers(name) || r.want.own && isEntry(name)) {
				return r.dec.SkipValue() == nil
			}
			is.emails = is.emails || r.want.emails && (strings.HasSuffix(name, "email") ||
				strings.HasSuffix(name, "emails"))
			is.phones = is.phones || r.want.phones && isPhoneField(name)
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
