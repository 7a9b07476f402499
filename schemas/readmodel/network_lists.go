package readmodel

import (
	"muster/schemas/record"
)

func (r *Renderer) certificationList(p *record.NetworkPerson, order []ranked, fullDates bool) {
	w := &r.w
	mark := w.open(`"certifications":`, '[')
	for _, e := range first(order) {
		c := &p.Certifications[e.index]
		w.open("", '{')
		w.str(`"credential_id":`, c.CredentialID)
		w.str(`"credential_url":`, c.CredentialURL)
		w.str(`"issuer":`, c.Issuer)
		w.str(`"name":`, c.Name)
		if fullDates {
			w.str(`"issue_date":`, c.IssueDate.Full())
		} else {
			w.str(`"issue_date":`, string(c.IssueDate))
		}
		w.unknown(c.Unknown, r.network.certification)
		w.closeEntry()
	}
	w.close(mark, ']')
	w.count(`"certifications":`, len(order), always)
}

func (r *Renderer) languageList(p *record.NetworkPerson) {
	w, n := &r.w, 0
	mark := w.open(`"languages":`, '[')
	for i := range p.Languages {
		l := &p.Languages[i]
		if isEmptyLanguage(l) {
			continue
		}
		if n++; n > MaxEntries {
			continue
		}
		w.open("", '{')
		w.str(`"language":`, l.Language)
		w.str(`"proficiency":`, l.Proficiency)
		w.unknown(l.Unknown, r.network.language)
		w.closeEntry()
	}
	w.close(mark, ']')
	w.count(`"languages":`, n, always)
}

func (r *Renderer) skillList(p *record.NetworkPerson) {
	w, n := &r.w, 0
	mark := w.open(`"skills":`, '[')
	for i := range p.Skills {
		s := &p.Skills[i]
		if isEmptySkill(s) {
			continue
		}
		if n++; n > MaxEntries {
			continue
		}
		w.open("", '{')
		w.str(`"skill":`, s.Skill)
		w.unknown(s.Unknown, r.network.skill)
		w.closeEntry()
	}
	w.close(mark, ']')
	w.count(`"skills":`, n, always)
}

func isEmptyLanguage(l *record.Language) bool {
	return l.Language == "" && l.Proficiency == "" && !anyPresent(l.Unknown)
}

func isEmptySkill(s *record.Skill) bool { return s.Skill == "" && !anyPresent(s.Unknown) }

func anyLanguage(list []record.Language) bool {
	for i := range list {
		if !isEmptyLanguage(&list[i]) {
			return true
		}
	}
	return false
}

func anySkill(list []record.Skill) bool {
	for i := range list {
		if !isEmptySkill(&list[i]) {
			return true
		}
	}
	return false
}
