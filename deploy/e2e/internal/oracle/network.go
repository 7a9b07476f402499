package oracle

import (
	"cmp"
	"slices"
	"strings"
)

// The names that shapes have or reserve, as in the tables of MAPPING.md.
var (
	topReserved = []string{"codehost", "network", "deleted", "repos_complete", "commits_complete", "discovered_link", "derived"}

	locationNames = []string{"city", "state", "country", "country_code", "continent", "raw_address"}
	companyNames  = []string{"name", "network_url", "company_id"}
	schoolNames   = []string{"name", "network_url", "school_id"}
	positionNames = []string{"summary", "title", "description", "start", "end", "current", "location", "company"}
	studyNames    = []string{
		"summary", "field_of_study", "start", "end", "current", "location", "degrees", "minors", "majors", "school",
		"degrees_count", "minors_count", "majors_count",
	}
	certificationNames = []string{"credential_id", "credential_url", "issuer", "name", "issue_date"}
	languageNames      = []string{"proficiency", "language"}
	skillNames         = []string{"skill"}

	networkPersonNames = []string{
		"profile_id", "username", "first_name", "middle_name", "last_name", "full_name", "url", "photo", "headline", "summary",
		"location", "connections", "followers", "following", "current_position", "experience", "education", "certifications",
		"languages", "skills", "codehost_username", "microblog_username", "social_accounts", "last_updated", "personal_email", "emails",
	}
	networkPersonCounts = []string{
		"experience_count", "education_count", "certifications_count", "languages_count", "skills_count", "social_accounts_count", "emails_count",
	}
)

// plain renders an object whose known fields are unchanged.
func (sh shaper) plain(v any, names []string) Object {
	dst := Object{}
	pick(dst, object(v), names...)
	sh.unknown(dst, object(v), names)
	return dst
}

// ongoing reports whether an experience entry has not ended.
func ongoing(e Object) bool {
	if current, ok := e["current"].(bool); ok {
		return current
	}
	return absent(e["end"])
}

func studying(e Object) bool { return e["current"] == true }

// career returns the present entries of an experience or education list in order.
func career(v any, goesOn func(Object) bool, isPresent func(Object) bool) []Object {
	var entries []Object
	for _, e := range list(v) {
		if o := object(e); o != nil && isPresent(o) {
			entries = append(entries, o)
		}
	}
	slices.SortStableFunc(entries, func(a, b Object) int {
		ga, gb := goesOn(a), goesOn(b)
		switch {
		case ga && !gb:
			return -1
		case gb && !ga:
			return 1
		}
		byEnd := 0
		if !ga {
			byEnd = newestFirst(str(a, "end"), str(b, "end"))
		}
		return cmp.Or(byEnd, newestFirst(str(a, "start"), str(b, "start")))
	})
	return entries
}

// position renders the common fields of section 6.2 and current_position, without dates.
func (sh shaper) position(e Object) Object {
	dst := Object{}
	pick(dst, e, "summary", "title", "description")
	put(dst, "location", sh.plain(e["location"], locationNames))
	put(dst, "company", sh.plain(e["company"], companyNames))
	sh.unknown(dst, e, positionNames)
	return dst
}

func positionPresent(e Object) bool {
	dst := shaper{}.position(e)
	pick(dst, e, "start", "end", "current")
	return len(dst) > 0
}

// experience renders section 6.2.
func (sh shaper) experience(v any) []any {
	var out []any
	for _, e := range career(v, ongoing, positionPresent) {
		dst := sh.position(e)
		pick(dst, e, "start", "end")
		if ongoing(e) {
			dst["end"] = nil
		}
		dst["current"] = ongoing(e)
		if c, ok := e["current"].(bool); ok {
			dst["current"] = c
		}
		out = append(out, dst)
	}
	return out
}

func (sh shaper) study(e Object) Object {
	dst := Object{}
	pick(dst, e, "summary", "field_of_study", "start", "end", "current")
	put(dst, "location", sh.plain(e["location"], locationNames))
	for _, n := range []string{"degrees", "minors", "majors"} {
		putDeepList(dst, n, present(e[n]))
	}
	put(dst, "school", sh.plain(e["school"], schoolNames))
	sh.unknown(dst, e, studyNames)
	return dst
}

func studyPresent(e Object) bool { return len(shaper{}.study(e)) > 0 }

// education renders section 6.3.
func (sh shaper) education(v any) []any {
	var out []any
	for _, e := range career(v, studying, studyPresent) {
		out = append(out, sh.study(e))
	}
	return out
}

// objects renders a list of objects in its original order.
func (sh shaper) objects(v any, names []string) []any {
	var out []any
	for _, e := range list(v) {
		if o := object(e); len((shaper{}).plain(o, names)) > 0 {
			out = append(out, sh.plain(o, names))
		}
	}
	return out
}

func byIssueDate(entries []any) []any {
	slices.SortStableFunc(entries, func(a, b any) int {
		return newestFirst(str(object(a), "issue_date"), str(object(b), "issue_date"))
	})
	return entries
}

func (sh shaper) currentPosition(v any) Object {
	e := object(v)
	dst := sh.position(e)
	putDay(dst, "start", e, "start")
	putDay(dst, "end", e, "end")
	pick(dst, e, "current")
	return dst
}

// firstEmail returns `personal_email`, else `email`, else the first of `emails`.
func firstEmail(rec Object) string {
	if s := str(rec, "personal_email"); s != "" {
		return s
	}
	if s := givenEmail(rec["email"]); s != "" {
		return s
	}
	if l := presentStrings(rec["emails"]); len(l) > 0 {
		return l[0]
	}
	return ""
}

// NetworkOptions are the add-ons of the network webset.
type NetworkOptions struct{ Codehost, PersonalEmail bool }

// NetworkWebset renders section 6.
func (s *Store) NetworkWebset(p *Profile, o NetworkOptions) Object {
	sh := shaper{noMail: !o.PersonalEmail}
	rec, derived := deriveNetwork(decodeObject(p.raw))
	dst := Object{}
	putDerived(dst, derived, asIs)
	pick(dst, rec, "profile_id", "username", "first_name", "middle_name", "last_name", "full_name", "url", "photo", "headline", "summary",
		"connections", "followers", "following", "codehost_username", "microblog_username")
	putInstant(dst, "last_updated", rec, "last_updated")
	put(dst, "location", sh.plain(rec["location"], locationNames))
	put(dst, "current_position", sh.currentPosition(rec["current_position"]))
	putList(dst, "experience", sh.experience(rec["experience"]))
	putList(dst, "education", sh.education(rec["education"]))
	putList(dst, "certifications", byIssueDate(sh.objects(rec["certifications"], certificationNames)))
	putList(dst, "languages", sh.objects(rec["languages"], languageNames))
	putList(dst, "skills", sh.objects(rec["skills"], skillNames))
	putList(dst, "social_accounts", present(rec["social_accounts"]))
	if o.PersonalEmail {
		if e := firstEmail(rec); e != "" {
			dst["personal_email"] = Object{"email": e}
		}
		putList(dst, "emails", present(rec["emails"]))
	}
	sh.unknown(dst, rec, networkPersonNames, networkPersonCounts, topReserved)
	dst = object(sh.scrub(dst, rec))
	if o.Codehost {
		if a := s.LinkedAccount(p); a != nil {
			dst["codehost"] = s.codehostAddOn(a, o.PersonalEmail)
		}
	}
	return dst
}

// NetworkPresent returns the names of section 8 that a record of the network webset meets, and further names, which are
// not must_have fields.
func (s *Store) NetworkPresent(p *Profile) map[string]bool {
	present := names(s.NetworkWebset(p, NetworkOptions{PersonalEmail: true}))
	present["codehost"] = s.LinkedAccount(p) != nil
	return present
}

func names(o Object) map[string]bool {
	out := map[string]bool{}
	for name, v := range o {
		out[name] = !absent(v)
	}
	return out
}

// networkAddOn renders section 7.5.
func (s *Store) networkAddOn(p *Profile) Object {
	sh := shaper{noMail: true}
	rec, derived := deriveNetwork(decodeObject(p.raw))
	dst := Object{}
	putDerived(dst, derived, asIs)
	pick(dst, rec, "username", "url", "full_name", "headline")
	put(dst, "current_position", sh.currentPosition(rec["current_position"]))
	putList(dst, "experience", sh.experience(rec["experience"]))
	putList(dst, "education", sh.education(rec["education"]))
	putList(dst, "skills", sh.objects(rec["skills"], skillNames))
	putList(dst, "certifications", byIssueDate(sh.objects(rec["certifications"], certificationNames)))
	return object(sh.scrub(dst, rec))
}

// EnrichedNetwork renders section 3.3.
func (s *Store) EnrichedNetwork(p *Profile) Object {
	sh := shaper{}
	rec, derived := deriveNetwork(decodeObject(p.raw))
	dst := Object{}
	putDerived(dst, derived, inSearchResult)
	pick(dst, rec, "profile_id", "codehost_username", "microblog_username")
	put(dst, "network_username", rec["username"])
	put(dst, "network_url", rec["url"])
	put(dst, "updated_at", instantText(str(rec, "last_updated")))

	profile := Object{}
	pick(profile, rec, "first_name", "middle_name", "last_name", "full_name", "headline", "summary", "connections", "followers", "following")
	put(profile, "image_url", rec["photo"])
	location := Object{}
	pick(location, object(rec["location"]), locationNames...)
	put(profile, "location", location)
	put(profile, "personal_email", firstEmail(rec))
	dst["profile"] = profile

	putList(dst, "experience", enrichedExperience(rec["experience"]))
	putList(dst, "education", enrichedEducation(rec["education"]))
	certifications := byIssueDate(sh.objects(rec["certifications"], certificationNames))
	for _, c := range certifications {
		o := object(c)
		putDay(o, "issue_date", o, "issue_date")
	}
	putList(dst, "certifications", certifications)
	putList(dst, "languages", sh.objects(rec["languages"], languageNames))
	putList(dst, "skills", sh.objects(rec["skills"], skillNames))
	putList(dst, "social_accounts", present(rec["social_accounts"]))
	sh.unknown(dst, rec, networkPersonNames, topReserved,
		[]string{"network_username", "network_url", "updated_at", "profile"}, networkPersonCounts)
	return dst
}

// enrichedExperience renders section 3.4.
func enrichedExperience(v any) []any {
	var out []any
	for _, e := range career(v, ongoing, positionPresent) {
		dst := Object{}
		put(dst, "title", cmp.Or(str(e, "title"), str(e, "summary")))
		company := object(e["company"])
		put(dst, "company_name", company["name"])
		put(dst, "company_id", company["company_id"])
		put(dst, "company_url", company["network_url"])
		location := object(e["location"])
		put(dst, "location", cmp.Or(str(location, "raw_address"), join(location, ", ", "city", "state", "country")))
		description := str(e, "description")
		if description == "" && str(e, "title") != "" {
			description = str(e, "summary")
		}
		put(dst, "description", description)
		putDay(dst, "start_date", e, "start")
		putDay(dst, "end_date", e, "end")
		if ongoing(e) {
			dst["end_date"] = nil
		}
		dst["is_current"] = ongoing(e)
		shaper{}.unknown(dst, e, positionNames, []string{"company_name", "company_id", "company_url", "start_date", "end_date", "is_current"})
		out = append(out, dst)
	}
	return out
}

// enrichedEducation renders section 3.5.
func enrichedEducation(v any) []any {
	var out []any
	for _, e := range career(v, studying, studyPresent) {
		dst := Object{}
		school := object(e["school"])
		put(dst, "school_name", school["name"])
		put(dst, "school_id", school["school_id"])
		put(dst, "school_url", school["network_url"])
		put(dst, "degree", strings.Join(presentStrings(e["degrees"]), ", "))
		put(dst, "field_of_study", cmp.Or(str(e, "field_of_study"), strings.Join(presentStrings(e["majors"]), ", ")))
		put(dst, "description", e["summary"])
		putDay(dst, "start_date", e, "start")
		putDay(dst, "end_date", e, "end")
		shaper{}.unknown(dst, e,
			[]string{"summary", "start", "end", "current", "location", "degrees", "majors", "minors", "school"},
			[]string{"school_name", "school_id", "school_url", "degree", "field_of_study", "description", "start_date", "end_date"})
		out = append(out, dst)
	}
	return out
}

// join joins the named fields that are present.
func join(src Object, sep string, names ...string) string {
	var parts []string
	for _, n := range names {
		if s := str(src, n); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, sep)
}
