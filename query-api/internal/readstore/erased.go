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

// erasedNetwork and erasedCodehost report whether a row belongs to an erased person. Such rows do not exist for
// readers, even while they are still stored.
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

// ErasedAccount reports whether an account belongs to an erased person. usernameKey is a comparison form.
func (s *Store) ErasedAccount(platform, usernameKey string) bool {
	_, erased := s.suppressed.Account(platform, usernameKey)
	return erased
}

// ErasedIdentifier reports whether an identifier belongs to an erased person. Its form is "<platform> id <id>",
// "<platform> username <comparison form>" or "<platform> email <comparison form>".
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

// Erased reports whether one of the records, named "<kind> <identity>", belongs to an erased person.
func (s *Store) Erased(identities []string) bool {
	return s.suppressed.IsAnyNamed(identities)
}

// RedactErased removes erased people from a discovery result. An erased input is reduced to the account that the caller
// named.
func (s *Store) RedactErased(d *event.Discovery) {
	erased := func(p event.Social) bool {
		if s.ErasedAccount(p.Platform, identity.NormalizeUsername(p.Username)) {
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
