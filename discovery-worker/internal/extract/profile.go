package extract

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mozillazg/go-unidecode"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

// profile builds the profile from the facts.
func (f *facts) profile(e *Extractor) Profile {
	p := Profile{Fields: map[string]Field{}}
	put := func(path string, x textValue) {
		if x.ok() {
			p.Fields[path] = Field{Value: quoteJSON(x.value), Confidence: round(x.confidence), Span: x.span}
		}
	}
	f.completeName()
	put("full_name", f.name)
	put("first_name", f.first)
	put("last_name", f.last)
	put("network.headline", f.headline)
	put("location.city", f.city)
	put("location.state", f.state)
	put("location.country", f.country)
	now := f.currentJob()
	if now != nil {
		put("current_position.summary", now.title)
		put("current_position.company.name", now.company)
		if now.start != "" {
			put("current_position.start", textValue{dates.Full(now.start), now.confidence, now.span})
		}
		put("current_position.company.network_url", f.companyURL(e, now))
	}
	f.putAccounts(put)
	if f.codehostID.ok() {
		p.Fields["codehost.id"] = Field{Value: jsontext.Value(f.codehostID.value), Confidence: f.codehostID.confidence,
			Span: f.codehostID.span}
	}
	put("personal_email", f.personalEmail(e, now))
	f.putLists(p.Fields, now)
	p.Identifiers = f.identifiers
	return p
}

func quoteJSON(s string) jsontext.Value {
	v, err := json.Marshal(s, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return jsontext.Value("null")
	}
	return v
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func round(c float64) float64 { return float64(int(c*100+0.5)) / 100 }

// completeName builds the full name from its parts if only they are given.
func (f *facts) completeName() {
	given := f.first.ok() && !(f.first.span == f.name.span && f.name.ok())
	family := f.last.ok() && !(f.last.span == f.name.span && f.name.ok())
	has := func(part string) bool { return strings.Contains(f.name.value, part) }
	switch {
	case f.first.ok() && f.last.ok() &&
		(!f.name.ok() || f.name.confidence < f.first.confidence && !(has(f.first.value) && has(f.last.value))):
		if given && !family && f.name.ok() { // "Name: Steinmetz, Vorname: Ronja"
			f.last = textValue{f.name.value, f.name.confidence, f.name.span}
		}
	case given && !family && f.name.ok() && !has(f.first.value):
		f.last = textValue{f.name.value, f.name.confidence, f.name.span}
	case family && !given && f.name.ok() && !has(f.last.value):
		f.first = textValue{f.name.value, f.name.confidence, f.name.span}
	default:
		return
	}
	full := f.first.value + " " + f.last.value
	if _, east := phrase.EastAsian(f.last.value); east {
		full = f.last.value + " " + f.first.value
	}
	f.name = textValue{full, min(f.first.confidence, f.last.confidence), f.first.span}
}

// currentJob returns the person's current job, merged from compatible positions, or nil.
func (f *facts) currentJob() *position {
	var best *position
	for i := range f.positions {
		p := &f.positions[i]
		if !p.current || p.past {
			continue
		}
		if best == nil || jobWeight(p) > jobWeight(best) {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	now := *best
	for i := range f.positions {
		p := &f.positions[i]
		if !p.current || p.past || p == best {
			continue
		}
		sameTitle := !now.title.ok() || !p.title.ok() || strings.EqualFold(now.title.value, p.title.value)
		sameCompany := !now.company.ok() || !p.company.ok() || strings.EqualFold(now.company.value, p.company.value)
		if !sameTitle || !sameCompany || now.title.ok() && now.company.ok() && !p.company.ok() {
			continue
		}
		if !now.title.ok() {
			now.title = p.title
		}
		if !now.company.ok() {
			now.company = p.company
		}
		if now.start == "" {
			now.start = p.start
		}
	}
	return &now
}

// jobWeight orders current positions: by confidence, then completeness, then start.
func jobWeight(p *position) float64 {
	w := p.confidence * 2
	if p.title.ok() {
		w++
	}
	if p.company.ok() {
		w++
	}
	if p.start != "" {
		w += 0.5
	}
	if len(p.start) >= 4 {
		if year, err := strconv.Atoi(p.start[:4]); err == nil {
			w += float64(year-1900) / 1000
		}
	}
	return w
}

// companyURL returns the page of the current employer: the one given with the job, or one whose
// slug matches the employer's name.
func (f *facts) companyURL(e *Extractor, now *position) textValue {
	if now.companyURL.ok() {
		return now.companyURL
	}
	for _, id := range f.identifiers {
		if id.Type == Company && now.company.ok() && strings.Contains(compact(now.company.value), compact(id.Value)) {
			return textValue{id.link, min(id.Confidence, now.company.confidence), id.Span}
		}
	}
	return textValue{}
}

// putAccounts puts the most confident account of each platform. A URL is put only if the input has
// it.
func (f *facts) putAccounts(put func(string, textValue)) {
	for _, platform := range identity.PlatformNames() {
		var best *Identifier
		for i := range f.identifiers {
			id := &f.identifiers[i]
			if id.Type == Account && id.Platform == platform && (best == nil || id.Confidence > best.Confidence) {
				best = id
			}
		}
		if best == nil {
			continue
		}
		put(platform+".username", textValue{best.Value, best.Confidence, best.Span})
		put(platform+".url", textValue{best.link, best.Confidence, best.Span})
	}
}

// officeMailbox matches mailboxes that do not belong to a person.
var officeMailbox = regexp.MustCompile(`^(?:info|sales|support|contact|admin|administrator|office|hello|postmaster` +
	`|webmaster|hostmaster|abuse|hr|jobs|careers|press|media|privacy|legal|team|billing|help|service|kontakt` +
	`|marketing|security|no-?reply|donotreply|noreply|newsletter|root|mailer-daemon)(?:[+.].*)?$`)

// personalEmail returns the most likely personal address of the person.
func (f *facts) personalEmail(e *Extractor, now *position) textValue {
	var best textValue
	emails := 0
	for _, id := range f.identifiers {
		if id.Type == Email {
			emails++
		}
	}
	for _, id := range f.identifiers {
		if id.Type != Email {
			continue
		}
		local, host, _ := strings.Cut(id.Value, "@")
		c := 0.0
		named := f.hostNamesPerson(host)
		switch {
		case id.role == "personal":
			c = labeled
		case id.role == "work" || e.isEmployerHost(now, f, host):
		case e.words.Providers[host]:
			c = formed
		case named:
			c = stated
		case officeMailbox.MatchString(local) || strings.Contains(host, ".edu") || strings.Contains(host, ".ac.") ||
			strings.Contains(host, "noreply"):
		case f.isOwnMailbox(local): // "ada.moreau@", which employers use too
			c = guessed
		case emails == 1 && (now == nil || !now.company.ok()) && !strings.ContainsAny(local, "._-"):
			c = stated
		case now == nil || !now.company.ok():
			c = probable
		default:
			c = guessed
		}
		best.keepSurer(textValue{id.Value, min(c, id.Confidence), id.Span})
	}
	return best
}

// isOwnMailbox reports whether a mailbox is the person's full name, or initial and last name.
func (f *facts) isOwnMailbox(local string) bool {
	local, last, first := compact(local), compact(f.last.value), compact(f.first.value)
	return last != "" && first != "" && (local == first+last || local == last+first || local == first[:1]+last)
}

// hostNamesPerson reports whether a host is named after the person.
func (f *facts) hostNamesPerson(host string) bool {
	host = compact(host[:max(0, strings.LastIndexByte(host, '.'))])
	for _, spell := range []func(string) string{compact, func(s string) string {
		return compact(lexicon.UmlautReplacer.Replace(strings.ToLower(s)))
	}} {
		first, last, whole := spell(f.first.value), spell(f.last.value), spell(f.name.value)
		for word := range strings.FieldsFuncSeq(f.last.value, func(r rune) bool { return r == ' ' || r == '-' }) {
			w := spell(word)
			if !phrase.Particles[strings.ToLower(word)] &&
				(len(w) >= 4 && strings.Contains(host, w) || len(w) >= 2 &&
					(host == w || first != "" && strings.Contains(host, first+w))) {
				return true
			}
		}
		if len(last) >= 2 && strings.Contains(host, first+last) || last == "" && len(whole) >= 5 &&
			strings.Contains(host, whole) {
			return true
		}
	}
	return false
}

// isEmployerHost reports whether a host belongs to an employer of the person.
func (e *Extractor) isEmployerHost(now *position, f *facts, host string) bool {
	labels := strings.Split(host, ".")
	if len(labels) > 1 {
		labels = labels[:len(labels)-1]
	}
	check := func(company string) bool {
		name := ""
		for word := range strings.FieldsSeq(company) {
			if w := compact(word); w != "" && !phrase.Particles[strings.ToLower(word)] &&
				(name == "" || !legalForm[w]) {
				name += w
			}
		}
		first := compact(firstWord(company))
		for _, l := range labels {
			l = compact(l)
			if len(l) >= 3 && name != "" &&
				(strings.HasPrefix(name, l) || strings.HasPrefix(l, name) || len(first) >= 4 &&
					strings.HasPrefix(l, first)) {
				return true
			}
		}
		return false
	}
	if now != nil && now.company.ok() && check(now.company.value) {
		return true
	}
	return slices.ContainsFunc(f.positions, func(p position) bool { return p.company.ok() && check(p.company.value) })
}

func firstWord(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(s, "The ")), " ")
	return first
}

// legalForm has the words after a company name that its host omits.
var legalForm = map[string]bool{ //nolint:gochecknoglobals // a constant set
	"gmbh": true, "ag": true, "se": true, "ltd": true, "limited": true, "llc": true, "llp": true, "inc": true,
	"corp": true, "sa": true, "sas": true, "sarl": true, "srl": true, "spa": true, "bv": true, "nv": true, "as": true,
	"ab": true, "oy": true, "plc": true, "co": true, "group": true,
}

// compact returns the lower-case Latin letters and digits of a name.
func compact(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(unidecode.Unidecode(strings.ReplaceAll(s, "ß", "ss"))))
}

// Entries of lists, as in the network webset's record (schemas/MAPPING.md, section 6).
type (
	listedJob struct {
		Summary string       `json:"summary,omitzero"`
		Start   string       `json:"start,omitzero"`
		End     string       `json:"end,omitzero"`
		Current bool         `json:"current"`
		Company *namedObject `json:"company,omitzero"`
	}
	listedSchool struct {
		School  *namedObject `json:"school,omitzero"`
		Degrees []string     `json:"degrees,omitempty"`
		Majors  []string     `json:"majors,omitempty"`
		Start   string       `json:"start,omitzero"`
		End     string       `json:"end,omitzero"`
	}
	listedSkill struct {
		Skill string `json:"skill"`
	}
	listedLanguage struct {
		Language string `json:"language"`
	}
	namedObject struct {
		Name       string `json:"name"`
		NetworkURL string `json:"network_url,omitzero"`
	}
)

// putLists adds the lists. experience is added only if it has more than current_position.
func (f *facts) putLists(fields map[string]Field, now *position) {
	put := func(path string, list any, n int, confidence float64, span view.Span) {
		if n == 0 {
			return
		}
		if v, err := json.Marshal(list, jsontext.AllowInvalidUTF8(true)); err == nil {
			fields[path] = Field{Value: v, Confidence: round(confidence), Span: span}
		}
	}
	jobs := f.jobs(now)
	var experience []listedJob
	confidence, past := 1.0, false
	for _, p := range jobs {
		past = past || !p.current
		j := listedJob{Summary: p.title.value, Start: p.start, End: p.end, Current: p.current}
		if p.company.ok() {
			j.Company = &namedObject{Name: p.company.value, NetworkURL: p.companyURL.value}
		}
		experience = append(experience, j)
		confidence = min(confidence, p.confidence)
	}
	if past {
		put("experience", experience, len(experience), confidence, jobs[0].span)
	}
	var education []listedSchool
	confidence = 1
	for _, s := range f.schools {
		l := listedSchool{Start: s.start, End: s.end}
		if s.name != "" {
			l.School = &namedObject{Name: s.name}
		}
		if s.degree != "" {
			l.Degrees = []string{s.degree}
		}
		if s.field != "" {
			l.Majors = []string{s.field}
		}
		education = append(education, l)
		confidence = min(confidence, s.confidence)
	}
	if len(education) > 0 {
		put("education", education, len(education), confidence, f.schools[0].span)
	}
	var skills []listedSkill
	for _, s := range f.skills {
		skills = append(skills, listedSkill{s.value})
	}
	if len(skills) > 0 {
		put("skills", skills, len(skills), lowest(f.skills), f.skills[0].span)
	}
	var spoken []listedLanguage
	for _, s := range f.languages {
		spoken = append(spoken, listedLanguage{s.value})
	}
	if len(spoken) > 0 {
		put("languages", spoken, len(spoken), lowest(f.languages), f.languages[0].span)
	}
}

func lowest(list []entry) float64 {
	c := 1.0
	for _, e := range list {
		c = min(c, e.confidence)
	}
	return c
}

// jobs returns the current and past jobs without duplicates, at most maxEntries.
func (f *facts) jobs(now *position) []position {
	var all []position
	if now != nil {
		all = append(all, *now)
		all[0].current = true
	}
	for _, p := range f.positions {
		if p.current && !p.listed || len(all) == maxEntries {
			continue
		}
		if now != nil && p.current && (strings.EqualFold(p.title.value, now.title.value) || !now.title.ok()) {
			continue
		}
		if slices.ContainsFunc(all, func(q position) bool {
			return !q.current && strings.EqualFold(q.title.value, p.title.value) &&
				strings.EqualFold(q.company.value, p.company.value)
		}) {
			continue
		}
		all = append(all, p)
	}
	return all
}
