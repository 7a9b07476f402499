package readmodel

import (
	"cmp"
	"slices"

	"muster/schemas/record"
)

// ranked is the position of an entry in a dated list (schemas/MAPPING.md, "Lists").
type ranked struct {
	index   int
	ongoing bool
	end     record.Version // or the only date; -1 for none
	start   record.Version // -1 for none
}

// instantOf returns the first instant of a date, or -1 without a date, which sorts before all others.
func instantOf(d record.PartialDate) record.Version {
	if d == "" {
		return -1
	}
	v, ok := d.Version()
	if !ok {
		return -1
	}
	return v
}

// newestFirst sorts entries: ongoing ones first, then by end and start, newest first. The sort is stable.
func newestFirst(entries []ranked) {
	if len(entries) < 2 {
		return
	}
	slices.SortStableFunc(entries, func(a, b ranked) int {
		switch {
		case a.ongoing != b.ongoing:
			if a.ongoing {
				return -1
			}
			return 1
		case !a.ongoing && a.end != b.end:
			return cmp.Compare(b.end, a.end)
		}
		return cmp.Compare(b.start, a.start)
	})
}

func (r *Renderer) rankExperience(list []record.Position) []ranked {
	out := r.experience[:0]
	for i := range list {
		if p := &list[i]; !isEmptyPosition(p) {
			out = append(out, ranked{index: i, ongoing: p.IsOngoing(), end: instantOf(p.End),
				start: instantOf(p.Start)})
		}
	}
	newestFirst(out)
	r.experience = out
	return out
}

func (r *Renderer) rankEducation(list []record.Education) []ranked {
	out := r.education[:0]
	for i := range list {
		if e := &list[i]; !isEmptyEducation(e) {
			ongoing := e.Current != nil && *e.Current
			out = append(out, ranked{index: i, ongoing: ongoing, end: instantOf(e.End), start: instantOf(e.Start)})
		}
	}
	newestFirst(out)
	r.education = out
	return out
}

func (r *Renderer) rankCertifications(list []record.Certification) []ranked {
	out := r.certifications[:0]
	for i := range list {
		c := &list[i]
		if c.CredentialID == "" && c.CredentialURL == "" && c.Issuer == "" && c.Name == "" && c.IssueDate == "" &&
			!anyPresent(c.Unknown) {
			continue
		}
		out = append(out, ranked{index: i, end: instantOf(c.IssueDate), start: -1})
	}
	newestFirst(out)
	r.certifications = out
	return out
}

func isEmptyPosition(p *record.Position) bool {
	return p.Summary == "" && p.Title == "" && p.Description == "" && p.Start == "" && p.End == "" &&
		p.Current == nil &&
		isEmptyLocation(p.Location) && isEmptyCompanyRef(p.Company) && !anyPresent(p.Unknown)
}

func isEmptyEducation(e *record.Education) bool {
	return e.Summary == "" && e.Start == "" && e.End == "" && e.Current == nil && e.FieldOfStudy == "" &&
		isEmptyLocation(e.Location) && !anyString(e.Degrees) && !anyString(e.Majors) && !anyString(e.Minors) &&
		isEmptySchool(e.School) && !anyPresent(e.Unknown)
}

func isEmptyLocation(l *record.Location) bool {
	return l == nil || l.City == "" && l.State == "" && l.Country == "" && l.CountryCode == "" && l.Continent == "" &&
		l.RawAddress == "" && !anyPresent(l.Unknown)
}

func isEmptyCompanyRef(c *record.CompanyRef) bool {
	return c == nil || c.Name == "" && c.NetworkURL == "" && c.CompanyID == "" && !anyPresent(c.Unknown)
}

func isEmptySchool(s *record.SchoolRef) bool {
	return s == nil || s.Name == "" && s.NetworkURL == "" && s.SchoolID == "" && !anyPresent(s.Unknown)
}

// anyString reports whether a list has a non-empty entry.
func anyString(list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return s != "" })
}
