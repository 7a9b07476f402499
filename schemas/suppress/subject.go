package suppress

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
	"muster/schemas/record"
)

// Subject is the suppression view of a person's record: its platform and normalized identifiers. Empty ones
// are not looked up.
type Subject struct {
	Platform string // identity.Network, identity.Codehost or identity.Microblog
	ID       string
	Username string   // identity.NormalizeUsername
	Emails   []string // identity.NormalizeEmail
	Phones   []string // as given in the record
	// Drop are the record's values that may be on California's deletion lists ([DropValues]).
	Drop []DropValue
}

// platformTypes are the identifier types of a platform.
type platformTypes struct {
	id, username, account Type
	webset                uint64
}

func typesOf(platform string) (platformTypes, bool) {
	switch platform {
	case identity.Network:
		return platformTypes{ProfileID, NetworkUsername, NetworkAccount, bitNetwork}, true
	case identity.Codehost:
		return platformTypes{UserID, CodehostUsername, CodehostAccount, bitCodehost}, true
	case identity.Microblog:
		return platformTypes{MicroblogUserID, MicroblogUsername, MicroblogAccount, 0}, true
	}
	return platformTypes{}, false
}

// AddUnknownFields adds the identifiers that a record, as JSON, has in fields other than its usernames and mapped
// addresses.
func (s *Subject) AddUnknownFields(body []byte) {
	c := ContactsIn(body)
	s.Emails, s.Phones, s.Drop = emails(s.Emails, c.Emails), c.Phones, DropValues(body)
}

// Subject reports whether a record is suppressed, and the hash of the matching entry.
func (s *Set) Subject(p Subject) (Hash, bool) {
	if !s.active() {
		return Hash{}, false
	}
	t, ok := typesOf(p.Platform)
	if !ok {
		return Hash{}, false
	}
	a := s.lookUpRecord(t.webset)
	a.id(t.id, p.ID)
	a.standard(t.username, p.Username)
	for _, e := range p.Emails {
		a.emailKey(e)
	}
	a.phones(p.Phones)
	for _, v := range p.Drop {
		a.sum(v.Type, v.Sum)
	}
	return a.finish()
}

// Account reports whether statements about an account are suppressed: its normalized username was requested
// or belonged to an erased account.
func (s *Set) Account(platform, username string) (Hash, bool) {
	if !s.active() {
		return Hash{}, false
	}
	t, ok := typesOf(platform)
	if !ok {
		return Hash{}, false
	}
	a := s.lookUpRecord(t.webset)
	a.account(t, username)
	return a.finish()
}

// ID reports whether the record with this id on a platform is suppressed by its id.
func (s *Set) ID(platform, id string) (Hash, bool) {
	if !s.active() {
		return Hash{}, false
	}
	t, ok := typesOf(platform)
	if !ok {
		return Hash{}, false
	}
	a := s.lookUpRecord(t.webset)
	a.id(t.id, id)
	return a.finish()
}

// Identifier reports whether an identifier of a person is suppressed. Its form is "<platform> id <id>",
// "<platform> username <username>" or "<platform> email <address>", normalized.
func (s *Set) Identifier(identifier string) bool {
	platform, rest, _ := strings.Cut(identifier, " ")
	subject := Subject{Platform: platform}
	switch kind, key, _ := strings.Cut(rest, " "); kind {
	case "id":
		subject.ID = key
	case "username":
		subject.Username = key
	case "email":
		subject.Emails = []string{key}
	}
	_, hit := s.Subject(subject)
	return hit
}

// IsAnyNamed reports whether any of the records, each "<kind> <identity>" as in the ledger and in context calls,
// is suppressed by its id.
func (s *Set) IsAnyNamed(records []string) bool {
	return s.active() && slices.ContainsFunc(records, func(name string) bool {
		kind, id, _ := strings.Cut(name, " ")
		_, hit := s.ID(record.Kind(kind).Platform(), id)
		return hit
	})
}

// Author reports whether commits by a normalized author address are suppressed, in all accounts.
func (s *Set) Author(email string) bool {
	if !s.active() {
		return false
	}
	a := s.lookUpRecord(bitCodehost)
	a.emailKey(email)
	_, hit := a.finish()
	return hit
}

// SubjectOf returns the identifiers of a person's record, and false for other kinds.
func SubjectOf(r *record.Record) (Subject, bool) {
	c := ContactsIn(r.JSON)
	switch b := r.Body.(type) {
	case *record.NetworkPerson:
		return Subject{
			Platform: identity.Network, ID: b.ProfileID, Username: identity.NormalizeUsername(b.Username),
			Emails: emails(b.Emails, []string{b.PersonalEmail}, c.Emails), Phones: c.Phones,
		}, true
	case *record.CodehostPerson:
		return Subject{
			Platform: identity.Codehost, ID: itoa(b.UserID), Username: identity.NormalizeUsername(b.CodehostUsername),
			Emails: emails(b.Emails, []string{b.PersonalEmail, b.SchoolEmail}, b.AdditionalEmails, c.Emails),
			Phones: c.Phones,
		}, true
	case *record.MicroblogPerson:
		return Subject{
			Platform: identity.Microblog, ID: b.UserID, Username: identity.NormalizeUsername(b.Username),
			Emails: emails(c.Emails), Phones: c.Phones,
		}, true
	}
	return Subject{}, false
}

// mayBeListed reports whether DropValues may find anything in a person's record. All values on deletion lists
// are in unmapped fields, such as a date of birth. Most records have none and need not be parsed again.
func mayBeListed(r *record.Record) bool {
	var unknown [2]jsontext.Value
	switch b := r.Body.(type) {
	case *record.NetworkPerson:
		unknown[0] = b.Unknown
		if b.Location != nil {
			unknown[1] = b.Location.Unknown
		}
	case *record.CodehostPerson:
		unknown[0] = b.Unknown
		if b.LocationCanon != nil {
			unknown[1] = b.LocationCanon.Unknown
		}
	case *record.MicroblogPerson:
		unknown[0] = b.Unknown
	}
	for _, u := range unknown {
		if len(u) == 0 {
			continue
		}
		lower := bytes.ToLower(u)
		if bytes.IndexByte(lower, '\\') >= 0 { // A field name may be escaped.
			return true
		}
		for _, piece := range DropMembers() {
			if bytes.Contains(lower, []byte(piece)) {
				return true
			}
		}
	}
	return false
}

func itoa(id *int64) string {
	if id == nil {
		return ""
	}
	return strconv.FormatInt(*id, 10)
}

func emails(lists ...[]string) []string {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	var out []string
	for _, list := range lists {
		for _, e := range list {
			if e == "" {
				continue
			}
			if key, err := identity.NormalizeEmail(e); err == nil && !slices.Contains(out, key) {
				if out == nil {
					out = make([]string, 0, n)
				}
				out = append(out, key)
			}
		}
	}
	return out
}
