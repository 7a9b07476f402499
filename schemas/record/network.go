package record

import "strings"

func (p *NetworkPerson) head() (string, bool) { return p.LastUpdated, p.Deleted }

func (p *NetworkPerson) key() (string, *ValidationError) {
	return strings.Clone(p.ProfileID), identityString("profile_id", p.ProfileID)
}

func (p *NetworkPerson) check() *ValidationError {
	if bad := required("username", p.Username); bad != nil {
		return bad
	}
	if c := p.CurrentPosition; c != nil {
		if bad := first(date(c.Start, "current_position.start"), date(c.End, "current_position.end")); bad != nil {
			return bad
		}
	}
	for i := range p.Experience {
		e := &p.Experience[i]
		if bad := first(date(e.Start, "experience[%d].start", i), date(e.End, "experience[%d].end", i)); bad != nil {
			return bad
		}
	}
	for i := range p.Education {
		e := &p.Education[i]
		if bad := first(date(e.Start, "education[%d].start", i), date(e.End, "education[%d].end", i)); bad != nil {
			return bad
		}
	}
	for i := range p.Certifications {
		if bad := date(p.Certifications[i].IssueDate, "certifications[%d].issue_date", i); bad != nil {
			return bad
		}
	}
	return nil
}

func (c *NetworkCompany) head() (string, bool) { return c.LastUpdated, c.Deleted }

func (c *NetworkCompany) key() (string, *ValidationError) {
	return strings.Clone(c.CompanyID), identityString("company_id", c.CompanyID)
}

func (c *NetworkCompany) check() *ValidationError { return nil }

// IsOngoing reports whether the position is current: it is marked so, or is unmarked and has no end.
func (p *Position) IsOngoing() bool {
	if p.Current != nil {
		return *p.Current
	}
	return p.End == ""
}
