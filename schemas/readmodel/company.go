package readmodel

import (
	"muster/schemas/company"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// companyShapes are the reserved names in company shapes.
type companyShapes struct {
	company, profile, headquarters, images reserved
}

func newCompanyShapes() companyShapes {
	return companyShapes{
		company: reserve("company_id", "network_slug", "network_id", "profile", "headquarters", "images",
			"last_updated", "headcount_by_year",
			"codehost", "network", "deleted", "repos_complete", "commits_complete", "discovered_link"),
		profile: reserve("name", "tagline", "description", "industry", "company_size", "website", "phone",
			"employees", "founded").lists("specialties"),
		headquarters: reserve("city", "region", "country", "postal_code", "line1", "line2"),
		images:       reserve("logo", "cover"),
	}
}

// networkCompany adds the rows of a network-company.
func (r *Renderer) networkCompany(b *Batch, rec *record.Record, p *record.NetworkCompany, at Position) {
	r.searchCompany(b, rec, p, at)
	t := &b.networkCompanies
	t.common.add(rec, at)
	t.companyHash.add(CompanyHash(p.CompanyID))
	t.companyID.add(p.CompanyID)
	t.lastUpdated.add(p.LastUpdated)
	if rec.Deleted {
		t.networkSlug.add("")
		t.slugKey.add("")
		t.networkID.add("")
		t.name.add("")
		t.company.add(nil)
		return
	}
	slugKey := identity.NormalizeUsername(p.NetworkSlug)
	l := b.lookupsOf(rec, TargetNetworkCompany, p.CompanyID, at)
	l.add(LookupCompanySlug, slugKey)
	l.add(LookupCompanyNetworkID, p.NetworkID)

	name := ""
	if p.Profile != nil {
		name = p.Profile.Name
		domain, _ := company.WebsiteDomain(p.Profile.Website)
		l.add(LookupCompanyDomain, domain)
		l.add(LookupCompanyName, company.NameKey(name))
	}
	t.networkSlug.add(p.NetworkSlug)
	t.slugKey.add(slugKey)
	t.networkID.add(p.NetworkID)
	t.name.add(name)
	r.w.own.set()
	r.w.reset(false)
	r.companyMembers(p)
	t.company.add(r.w.fragment())
}

// companyMembers writes the company without last_updated
// (schemas/MAPPING.md, 4.1).
func (r *Renderer) companyMembers(p *record.NetworkCompany) {
	w, s := &r.w, &r.company
	w.str(`"company_id":`, p.CompanyID)
	w.str(`"network_slug":`, p.NetworkSlug)
	w.str(`"network_id":`, p.NetworkID)
	if c := p.Profile; c != nil {
		mark := w.open(`"profile":`, '{')
		w.str(`"name":`, c.Name)
		w.str(`"tagline":`, c.Tagline)
		w.str(`"description":`, c.Description)
		w.str(`"industry":`, c.Industry)
		w.str(`"company_size":`, c.CompanySize)
		w.int(`"employees":`, c.Employees)
		w.int(`"founded":`, c.Founded)
		w.str(`"website":`, c.Website)
		w.str(`"phone":`, c.Phone)
		w.strings(`"specialties":`, c.Specialties, whenCut)
		w.unknown(c.Unknown, s.profile)
		w.close(mark, '}')
	}
	if h := p.Headquarters; h != nil && !isEmptyHeadquarters(h) {
		mark := w.open(`"headquarters":`, '{')
		w.strOrNull(`"city":`, h.City)
		w.strOrNull(`"region":`, h.Region)
		w.strOrNull(`"country":`, h.Country)
		w.strOrNull(`"postal_code":`, h.PostalCode)
		w.strOrNull(`"line1":`, h.Line1)
		w.strOrNull(`"line2":`, h.Line2)
		w.unknown(h.Unknown, s.headquarters)
		w.close(mark, '}')
	}
	if i := p.Images; i != nil {
		mark := w.open(`"images":`, '{')
		w.str(`"logo":`, i.Logo)
		w.str(`"cover":`, i.Cover)
		w.unknown(i.Unknown, s.images)
		w.close(mark, '}')
	}
	w.unknown(p.Unknown, s.company)
}

func isEmptyHeadquarters(h *record.Headquarters) bool {
	return h.City == "" && h.Region == "" && h.Country == "" && h.PostalCode == "" && h.Line1 == "" && h.Line2 == "" &&
		!anyPresent(h.Unknown)
}

// strOrNull writes null for an empty value, where interface.md requires null.
func (w *writer) strOrNull(key, value string) {
	if value == "" {
		w.null(key)
		return
	}
	w.str(key, value)
}
