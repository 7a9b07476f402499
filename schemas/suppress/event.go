package suppress

import (
	"slices"

	"muster/schemas/event"
	"muster/schemas/identity"
)

// Discovery reports whether a discovery result, or its input, names an erased person.
func (s *Set) Discovery(d *event.Discovery) bool {
	return s.active() && (s.social(event.Social{Account: d.Input}) || slices.ContainsFunc(d.Socials, s.social))
}

// RedactDiscovery removes erased people from a discovery result. An erased input is reduced to the account that
// the caller named. It does not change the array of d.Socials.
func (s *Set) RedactDiscovery(d *event.Discovery) {
	if len(d.Socials) > 0 && s.social(d.Socials[0]) {
		d.Socials = []event.Social{{Account: d.Input, Confidence: 1}}
		return
	}
	if slices.ContainsFunc(d.Socials, s.social) {
		d.Socials = slices.DeleteFunc(slices.Clone(d.Socials), s.social)
	}
}

// RedactIdentification removes erased people from an identification: matches whose first account, which the short
// profile is of, is erased, and other accounts. It does not change the arrays of d.
func (s *Set) RedactIdentification(d *event.Identification) {
	if !s.active() {
		return
	}
	kept := make([]event.PersonMatch, 0, len(d.Matches))
	for _, m := range d.Matches {
		if !s.social(m.Accounts[0]) {
			m.Accounts = slices.DeleteFunc(slices.Clone(m.Accounts), s.social)
			kept = append(kept, m)
		}
	}
	d.Matches = kept
}

// Feedback reports whether feedback names an erased person.
func (s *Set) Feedback(f *event.Feedback) bool {
	return s.active() && f.Names(func(a event.Account) bool { return s.social(event.Social{Account: a}) })
}

// social looks up an account of a discovery, by username and by id.
func (s *Set) social(a event.Social) bool {
	_, byName := s.Account(a.Platform, identity.NormalizeUsername(a.Username))
	_, byID := s.ID(a.Platform, a.Identity)
	return byName || byID
}

// Context reports whether the profile of a context call contains an erased person or was built from one of
// their records.
func (s *Set) Context(platforms *identity.Platforms, c *event.Context) bool {
	if s.IsAnyNamed(c.Identities) {
		return true
	}
	if len(c.Profile) == 0 {
		return false
	}
	_, hit := s.FindInDocument(platforms, c.Profile)
	return hit
}
