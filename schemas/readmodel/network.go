package readmodel

import (
	"slices"
	"strings"

	"muster/schemas/derive"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// networkShapes are the reserved names in network-person shapes.
type networkShapes struct {
	webset, enrich                                 reserved
	location, position, company, education, school reserved
	certification, language, skill                 reserved
	searchPosition, searchEducation                reserved
	derivedWebset, derivedEnrich                   []derive.Path
}

func newNetworkShapes() networkShapes {
	return networkShapes{
		derivedWebset: derive.NetworkPaths(),
		derivedEnrich: derive.NetworkProfilePaths(),
		webset: reserve("profile_id", "username", "first_name", "middle_name", "last_name", "full_name", "url", "photo",
			"headline", "summary", "location", "connections", "followers", "following", "current_position",
			"codehost_username", "microblog_username", "last_updated", "personal_email",
			"codehost", "network", "deleted", "repos_complete", "commits_complete", "discovered_link", "derived").
			lists("experience", "education", "certifications", "languages", "skills", "social_accounts", "emails"),
		enrich: reserve("profile_id", "network_username", "network_url", "updated_at", "profile",
			"username", "first_name", "middle_name", "last_name", "full_name", "url", "photo",
			"headline", "summary", "location", "connections", "followers", "following", "current_position",
			"codehost_username", "microblog_username", "last_updated", "personal_email", "emails",
			"codehost", "network", "deleted", "repos_complete", "commits_complete", "discovered_link", "derived").
			lists("experience", "education", "certifications", "languages", "skills", "social_accounts"),
		location: reserve("city", "state", "country", "country_code", "continent", "raw_address"),
		position: reserve("summary", "title", "description", "start", "end", "current", "location", "company"),
		company:  reserve("name", "network_url", "company_id"),
		education: reserve("summary", "start", "end", "current", "location", "field_of_study",
			"school").lists("degrees", "majors", "minors"),
		school:        reserve("name", "network_url", "school_id"),
		certification: reserve("credential_id", "credential_url", "issuer", "name", "issue_date"),
		language:      reserve("language", "proficiency"),
		skill:         reserve("skill"),
		searchPosition: reserve("title", "company_name", "company_id", "company_url", "location", "description",
			"start_date", "end_date", "is_current", "summary", "start", "end", "current", "company"),
		searchEducation: reserve("school_name", "school_id", "school_url", "degree", "field_of_study", "description",
			"start_date", "end_date", "summary", "start", "end", "current", "location", "degrees", "majors", "minors",
			"school"),
	}
}

// networkPerson adds the rows of a network-person.
func (r *Renderer) networkPerson(b *Batch, rec *record.Record, given *record.NetworkPerson, at Position) {
	t := &b.networkPeople
	if rec.Deleted {
		t.addDeletion(rec, at, given.ProfileID, given.LastUpdated)
		r.searchPerson(b, rec, given, at, nil, nil, nil)
		return
	}
	full, derived := r.deriver.NetworkPerson(given)
	p := &full
	usernameKey := identity.NormalizeUsername(p.Username)
	addresses := [][]string{p.Emails, optional(unknownEmail(p.Unknown)), optional(p.PersonalEmail)}
	emails := b.copyList(emailKeys(r.keys[:0], addresses...))
	accounts := r.platforms.FindAccounts(p.SocialAccounts)
	codehost := b.copyList(declaredKeys(r.keys[:0], p.CodehostUsername, identity.Codehost, accounts))
	microblog := b.copyList(declaredKeys(r.keys[:0], p.MicroblogUsername, identity.Microblog, accounts))

	l := b.lookupsOf(rec, TargetNetworkPerson, p.ProfileID, at)
	l.addUsername(LookupNetworkUsername, usernameKey, codehost)
	l.addEmails(LookupNetworkEmail, emails...)
	l.addPhones()
	l.addDeclared(LookupNetworkCodehostUsername, codehost, usernameKey)
	l.addAll(LookupNetworkMicroblogUsername, microblog)
	// Derived names have the same keys.
	l.find(identity.Network, p.Username, given.FullName, given.FirstName+" "+given.LastName)
	r.mention(&l, identity.Network, nil, p.Headline, p.Summary)

	experience, education, certifications := r.rankExperience(p.Experience), r.rankEducation(p.Education),
		r.rankCertifications(p.Certifications)
	r.searchPerson(b, rec, p, at, experience, education, certifications)
	w := &r.w
	w.own.set(addresses...)

	t.common.add(rec, at)
	t.profileHash.add(ProfileHash(p.ProfileID))
	t.profileID.add(p.ProfileID)
	t.lastUpdated.add(p.LastUpdated)
	t.updatedAt.add(rec.Version.String())
	t.username.add(p.Username)
	t.usernameKey.add(usernameKey)
	t.emailKeys.add(emails)
	t.codehostUsernameKeys.add(codehost)
	t.microblogUsernameKeys.add(microblog)

	email := personalEmail(p)
	mask := r.networkPresent(p, len(experience), len(education), len(certifications))
	if email != "" {
		mask |= fieldMask(netPersonalEmail)
	}
	content := appendNetworkFields(
		r.content[:0], rec, p.ProfileID, p.Username, usernameKey, p.FullName, emails, codehost, uint64(mask))

	w.reset(false)
	r.networkEnrich(p, derived, experience, education, certifications)
	content = appendPiece(content, w.fragment(), ShapeEnrich)
	content = r.appendWithoutMail(content, ShapeWebset|ShapeAddon, func() {
		r.networkShared(p, derived, experience, education, certifications)
	})
	content = r.appendWithoutMail(content, ShapeWebset, func() { r.networkRest(p) })

	w.reset(false)
	if email != "" {
		mark := w.open(`"personal_email":`, '{')
		w.str(`"email":`, email)
		w.close(mark, '}')
	}
	w.strings(`"emails":`, p.Emails, always)
	content = appendPiece(content, w.fragment(), ShapeEmails)
	t.content.add(content)
	r.content = content
}

// appendWithoutMail appends what write writes: without e-mail addresses for shapes, and complete for
// ShapeOpen in addition.
func (r *Renderer) appendWithoutMail(b []byte, shapes Shape, write func()) []byte {
	w := &r.w
	w.reset(true)
	write()
	if !w.changed {
		return appendPiece(b, w.fragment(), shapes|ShapeOpen)
	}
	b = appendPiece(b, w.fragment(), shapes)
	w.reset(false)
	write()
	return appendPiece(b, w.fragment(), ShapeOpen)
}

// appendNetworkFields appends the leading fields of a network person's content column (networkContent).
func appendNetworkFields(
	b []byte, rec *record.Record, profileID, username, usernameKey, fullName string, emails, codehost []string,
	present uint64,
) []byte {
	b = appendSigned(appendField(b, profileID), int64(rec.Version))
	b = appendFlag(appendUnsigned(appendUnsigned(b, uint64(rec.Revision)), rec.Hash), rec.Deleted)
	b = appendField(appendField(appendField(b, username), usernameKey), fullName)
	b = appendList(appendList(b, emails), codehost)
	return appendUnsigned(b, present)
}

// personalEmail returns personal_email, else email, else the first of emails.
func personalEmail(p *record.NetworkPerson) string {
	if p.PersonalEmail != "" {
		return p.PersonalEmail
	}
	if email := unknownEmail(p.Unknown); email != "" {
		return email
	}
	for _, e := range p.Emails {
		if e != "" {
			return e
		}
	}
	return ""
}

func (r *Renderer) networkPresent(p *record.NetworkPerson, experience, education, certifications int) fieldMask {
	mask := fieldMask(netProfileID | netUsername | netLastUpdated)
	mask.setString(netFirstName, p.FirstName)
	mask.setString(netMiddleName, p.MiddleName)
	mask.setString(netLastName, p.LastName)
	mask.setString(netFullName, p.FullName)
	mask.setString(netURL, p.URL)
	mask.setString(netPhoto, p.Photo)
	mask.setString(netHeadline, p.Headline)
	mask.setString(netSummary, p.Summary)
	mask.setIf(netLocation, !isEmptyLocation(p.Location))
	mask.setInt(netConnections, p.Connections)
	mask.setInt(netFollowers, p.Followers)
	mask.setInt(netFollowing, p.Following)
	mask.setIf(netCurrentPosition, p.CurrentPosition != nil && !isEmptyPosition(p.CurrentPosition))
	mask.setIf(netExperience, experience > 0)
	mask.setIf(netEducation, education > 0)
	mask.setIf(netCertifications, certifications > 0)
	mask.setIf(netLanguages, anyLanguage(p.Languages))
	mask.setIf(netSkills, anySkill(p.Skills))
	mask.setString(netCodehostUsername, p.CodehostUsername)
	mask.setString(netMicroblogUsername, p.MicroblogUsername)
	mask.setIf(netSocialAccounts, anyString(p.SocialAccounts))
	return mask
}

// networkShared writes the fields common to the add-on network and the webset record (schemas/MAPPING.md,
// 7.5).
func (r *Renderer) networkShared(
	p *record.NetworkPerson, derived derive.Fields, experience, education, certifications []ranked,
) {
	w, s := &r.w, &r.network
	w.str(`"username":`, p.Username)
	w.str(`"url":`, p.URL)
	w.str(`"full_name":`, p.FullName)
	w.str(`"headline":`, p.Headline)
	if c := p.CurrentPosition; c != nil {
		mark := w.open(`"current_position":`, '{')
		w.positionText(c)
		w.str(`"start":`, c.Start.Full())
		w.str(`"end":`, c.End.Full())
		w.bool(`"current":`, c.Current)
		w.positionRest(s, c)
		w.close(mark, '}')
	}
	mark := w.open(`"experience":`, '[')
	for _, e := range first(experience) {
		c := &p.Experience[e.index]
		w.open("", '{')
		w.positionText(c)
		w.str(`"start":`, string(c.Start))
		if e.ongoing {
			w.null(`"end":`)
		} else {
			w.str(`"end":`, string(c.End))
		}
		w.flag(`"current":`, e.ongoing)
		w.positionRest(s, c)
		w.closeEntry()
	}
	w.close(mark, ']')
	w.count(`"experience":`, len(experience), always)
	mark = w.open(`"education":`, '[')
	for _, e := range first(education) {
		w.education(s, &p.Education[e.index])
	}
	w.close(mark, ']')
	w.count(`"education":`, len(education), always)
	r.certificationList(p, certifications, false)
	r.skillList(p)
	w.derived(derived, s.derivedWebset)
}

// networkRest writes the remaining fields of the webset record (schemas/MAPPING.md, section 6).
func (r *Renderer) networkRest(p *record.NetworkPerson) {
	w, s := &r.w, &r.network
	w.str(`"profile_id":`, p.ProfileID)
	w.str(`"first_name":`, p.FirstName)
	w.str(`"middle_name":`, p.MiddleName)
	w.str(`"last_name":`, p.LastName)
	w.str(`"photo":`, p.Photo)
	w.str(`"summary":`, p.Summary)
	w.location(s, `"location":`, p.Location)
	w.int(`"connections":`, p.Connections)
	w.int(`"followers":`, p.Followers)
	w.int(`"following":`, p.Following)
	r.languageList(p)
	w.str(`"codehost_username":`, p.CodehostUsername)
	w.str(`"microblog_username":`, p.MicroblogUsername)
	w.strings(`"social_accounts":`, p.SocialAccounts, always)
	w.unknown(p.Unknown, s.webset)
}

// networkEnrich writes person.network without updated_at (schemas/MAPPING.md, 3.3).
func (r *Renderer) networkEnrich(
	p *record.NetworkPerson, derived derive.Fields, experience, education, certifications []ranked,
) {
	w, s := &r.w, &r.network
	w.str(`"profile_id":`, p.ProfileID)
	w.str(`"network_username":`, p.Username)
	w.str(`"network_url":`, p.URL)
	w.open(`"profile":`, '{')
	w.str(`"first_name":`, p.FirstName)
	w.str(`"middle_name":`, p.MiddleName)
	w.str(`"last_name":`, p.LastName)
	w.str(`"full_name":`, p.FullName)
	w.str(`"headline":`, p.Headline)
	w.str(`"summary":`, p.Summary)
	w.str(`"image_url":`, p.Photo)
	w.int(`"connections":`, p.Connections)
	w.int(`"followers":`, p.Followers)
	w.int(`"following":`, p.Following)
	if l := p.Location; l != nil {
		mark := w.open(`"location":`, '{')
		w.locationKnown(l)
		w.close(mark, '}')
	}
	w.str(`"personal_email":`, personalEmail(p))
	w.closeEntry() // rulings.md, Person enrichment: profile is always an object

	mark := w.open(`"experience":`, '[')
	for _, e := range first(experience) {
		w.searchPosition(s, &p.Experience[e.index], e.ongoing)
	}
	w.close(mark, ']')
	w.count(`"experience":`, len(experience), always)
	mark = w.open(`"education":`, '[')
	for _, e := range first(education) {
		w.searchEducation(s, &p.Education[e.index])
	}
	w.close(mark, ']')
	w.count(`"education":`, len(education), always)
	r.certificationList(p, certifications, true)
	r.languageList(p)
	r.skillList(p)
	w.str(`"codehost_username":`, p.CodehostUsername)
	w.str(`"microblog_username":`, p.MicroblogUsername)
	w.strings(`"social_accounts":`, p.SocialAccounts, always)
	w.derived(derived, s.derivedEnrich)
	w.unknown(p.Unknown, s.enrich)
}

// first returns the part of a list that is served.
func first[T any](list []T) []T { return list[:min(len(list), MaxEntries)] }

func (w *writer) locationKnown(l *record.Location) {
	w.str(`"city":`, l.City)
	w.str(`"state":`, l.State)
	w.str(`"country":`, l.Country)
	w.str(`"country_code":`, l.CountryCode)
	w.str(`"continent":`, l.Continent)
	w.str(`"raw_address":`, l.RawAddress)
}

func (w *writer) location(s *networkShapes, key string, l *record.Location) {
	if l == nil {
		return
	}
	mark := w.open(key, '{')
	w.locationKnown(l)
	w.unknown(l.Unknown, s.location)
	w.close(mark, '}')
}

func (w *writer) positionText(p *record.Position) {
	w.str(`"summary":`, p.Summary)
	w.str(`"title":`, p.Title)
	w.str(`"description":`, p.Description)
}

func (w *writer) positionRest(s *networkShapes, p *record.Position) {
	w.location(s, `"location":`, p.Location)
	if c := p.Company; c != nil {
		mark := w.open(`"company":`, '{')
		w.str(`"name":`, c.Name)
		w.str(`"network_url":`, c.NetworkURL)
		w.str(`"company_id":`, c.CompanyID)
		w.unknown(c.Unknown, s.company)
		w.close(mark, '}')
	}
	w.unknown(p.Unknown, s.position)
}

func (w *writer) education(s *networkShapes, e *record.Education) {
	w.open("", '{')
	w.str(`"summary":`, e.Summary)
	w.str(`"field_of_study":`, e.FieldOfStudy)
	w.str(`"start":`, string(e.Start))
	w.str(`"end":`, string(e.End))
	w.bool(`"current":`, e.Current)
	w.location(s, `"location":`, e.Location)
	w.strings(`"degrees":`, e.Degrees, whenCut)
	w.strings(`"minors":`, e.Minors, whenCut)
	w.strings(`"majors":`, e.Majors, whenCut)
	if c := e.School; c != nil {
		mark := w.open(`"school":`, '{')
		w.str(`"name":`, c.Name)
		w.str(`"network_url":`, c.NetworkURL)
		w.str(`"school_id":`, c.SchoolID)
		w.unknown(c.Unknown, s.school)
		w.close(mark, '}')
	}
	w.unknown(e.Unknown, s.education)
	w.closeEntry()
}

func (w *writer) searchPosition(s *networkShapes, p *record.Position, ongoing bool) {
	w.open("", '{')
	title, description := p.Title, p.Description
	if title == "" {
		title = p.Summary
	} else if description == "" {
		description = p.Summary
	}
	w.str(`"title":`, title)
	if c := p.Company; c != nil {
		w.str(`"company_name":`, c.Name)
		w.str(`"company_id":`, c.CompanyID)
		w.str(`"company_url":`, c.NetworkURL)
	}
	if l := p.Location; l != nil {
		if l.RawAddress != "" {
			w.str(`"location":`, l.RawAddress)
		} else {
			w.joined(`"location":`, ", ", l.City, l.State, l.Country)
		}
	}
	w.str(`"description":`, description)
	w.str(`"start_date":`, p.Start.Full())
	if ongoing {
		w.null(`"end_date":`)
	} else {
		w.str(`"end_date":`, p.End.Full())
	}
	w.flag(`"is_current":`, ongoing)
	w.unknown(p.Unknown, s.searchPosition)
	w.closeEntry()
}

func (w *writer) searchEducation(s *networkShapes, e *record.Education) {
	w.open("", '{')
	if c := e.School; c != nil {
		w.str(`"school_name":`, c.Name)
		w.str(`"school_id":`, c.SchoolID)
		w.str(`"school_url":`, c.NetworkURL)
	}
	w.joined(`"degree":`, ", ", e.Degrees...)
	if e.FieldOfStudy != "" {
		w.str(`"field_of_study":`, e.FieldOfStudy)
	} else {
		w.joined(`"field_of_study":`, ", ", e.Majors...)
	}
	w.str(`"description":`, e.Summary)
	w.str(`"start_date":`, e.Start.Full())
	w.str(`"end_date":`, e.End.Full())
	w.unknown(e.Unknown, s.searchEducation)
	w.closeEntry()
}

// optional returns a list of at most one string.
func optional(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// emailKeys appends the distinct normalized addresses. Invalid ones are skipped.
func emailKeys(dst []string, lists ...[]string) []string {
	for _, list := range lists {
		for _, s := range list {
			if !strings.Contains(s, "@") {
				continue
			}
			if key, err := identity.NormalizeEmail(s); err == nil {
				dst = append(dst, key)
			}
		}
	}
	slices.Sort(dst) // Lists of 10,000 entries occur.
	return slices.Compact(dst)
}

// declaredKeys appends the distinct normalized usernames that a record declares on a platform: its own field
// first, then its social accounts.
func declaredKeys(dst []string, own, platform string, accounts []identity.Account) []string {
	if key := identity.NormalizeUsername(own); key != "" {
		dst = append(dst, key)
	}
	for _, a := range accounts {
		if a.Platform != platform {
			continue
		}
		if key := identity.NormalizeUsername(a.Username); key != "" {
			dst = append(dst, key)
		}
	}
	// Social accounts are distinct, but may include the own field.
	if len(dst) > 1 && own != "" {
		if i := slices.Index(dst[1:], dst[0]); i >= 0 {
			dst = slices.Delete(dst, i+1, i+2)
		}
	}
	return dst
}
