package readstore

import (
	"slices"
	"strconv"
	"strings"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// erasedNetwork and erasedCodehost say that a row is of somebody who was erased: to
// readers it does not exist, however long it is still stored.
func (s *Store) erasedNetwork(r *readmodel.NetworkPersonRow) bool {
	_, erased := s.suppressed.Subject(suppress.Subject{
		Platform: identity.Network, ID: r.ProfileID, Username: r.UsernameKey, Emails: r.EmailKeys,
	})
	return erased
}

func (s *Store) erasedCodehost(r *readmodel.AnswerRow) bool {
	_, erased := s.suppressed.Subject(suppress.Subject{
		Platform: identity.Codehost, ID: strconv.FormatInt(r.UserID, 10), Username: r.UsernameKey, Emails: r.EmailKeys,
	})
	return erased
}

// ErasedAccount says that nothing may be told of an account, whose username is a
// comparison form.
func (s *Store) ErasedAccount(platform, usernameKey string) bool {
	_, erased := s.suppressed.Account(platform, usernameKey)
	return erased
}

// ErasedIdentifier says that nothing may be told of the record that goes by "<platform> id <id>", "<platform> username <comparison
// form>" or "<platform> email <comparison form>".
func (s *Store) ErasedIdentifier(identifier string) bool {
	platform, rest, _ := strings.Cut(identifier, " ")
	subject := suppress.Subject{Platform: platform}
	switch kind, key, _ := strings.Cut(rest, " "); kind {
	case "id":
		subject.ID = key
	case "username":
		subject.Username = key
	case "email":
		subject.Emails = []string{key}
	}
	_, erased := s.suppressed.Subject(subject)
	return erased
}

// Erased says that one of the records, named "<kind> <identity>", is of somebody who
// was erased.
func (s *Store) Erased(identities []string) bool {
	return s.suppressed.Named(identities)
}

// Forget takes out of a result of discovery whoever was erased. Of an input that
// was, there is nothing but what the caller knows.
func (s *Store) Forget(d *event.Discovery) {
	erased := func(p event.Social) bool {
		if s.ErasedAccount(p.Platform, identity.UsernameKey(p.Username)) {
			return true
		}
		_, byID := s.suppressed.ID(p.Platform, p.Identity)
		return byID
	}
	if len(d.Socials) > 0 && erased(d.Socials[0]) {
		d.Socials = []event.Social{{Account: d.Input, Confidence: 1}}
		return
	}
	if slices.ContainsFunc(d.Socials, erased) {
		d.Socials = slices.DeleteFunc(slices.Clone(d.Socials), erased)
	}
}
