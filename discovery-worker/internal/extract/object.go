package extract

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"muster/schemas/identity"
)

// others are members that speak of somebody else.
var others = regexp.MustCompile(`(?i)^(?:friends?|manager|supervisor|spouse|wife|husband|partner_name|parents?|children|siblings?|colleagues?|coworkers?|references?|referees?|assistant|editor|recommend(?:ations|ers?)|followers|following|followed_accounts|follower_accounts|related|similar(?:_profiles)?|people_also_viewed|mentions|contributors|maintainers|reviewer|interviewer|recipient|sender|emergency_contact|repos|commits|repositories)$`)

// unowned are members that hold organizations and others, with which the person has to do in
// whatever way: the names in them are not theirs.
var unowned = regexp.MustCompile(`(?i)(?:companies|employers|organi[sz]ations|institutions|schools|universities|colleges` +
	`|clients|customers|partners|sponsors|testimonials|interests|hobbies)$`)

// answered are members in which a shop answers with whom it was asked for.
var answered = regexp.MustCompile(`(?i)^(?:clients|customers)$`)

// works are members that hold what the person made or was given. Its names, addresses and accounts are not theirs, its pages may be.
var works = regexp.MustCompile(`(?i)(?:projects?|publications|patents|case_?studies|awards|honou?rs|certificat(?:es|ions))$`)

// object reads an object by the names of its members.
func (e *Extractor) object(ctx context.Context, f *facts, n node) error {
	job := position{current: true, confidence: labelled, span: Span{Path: n.path()}}
	if err := e.members(ctx, f, n, &job, 0); err != nil {
		return err
	}
	f.addPosition(job)
	return nil
}

// xml reads XML as an object of its elements.
func (e *Extractor) xml(ctx context.Context, f *facts, path, text string) error {
	root, ranges := parseXML(text)
	if err := e.object(ctx, f, root); err != nil {
		return err
	}
	f.eachSpan(func(s *Span) {
		i, err := strconv.Atoi(strings.TrimPrefix(s.Path, "/"))
		if err != nil || i >= len(ranges) {
			*s = Span{Path: path, End: len(text)}
			return
		}
		*s = Span{Path: path, Start: ranges[i][0], End: ranges[i][1]}
	})
	return nil
}

// confidenceAt lowers what stands deep in an object: the shallower of two is the
// person.
func confidenceAt(depth int) float64 { return max(labelled-0.01*float64(depth), 0.9) }

// members reads a value that nothing is known of. Of a job it fills p.
func (e *Extractor) members(ctx context.Context, f *facts, n node, p *position, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch n.kind {
	case '"':
		return e.text(ctx, f, n.path(), n.text, someMember)
	case '[':
		for i, m := range n.members {
			if i%1000 == 999 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := e.members(ctx, f, m.value, p, depth+1); err != nil {
				return err
			}
		}
		return nil
	case '{':
	default:
		return nil
	}
	if label, value, ok := pair(n); ok {
		return e.member(ctx, f, n, member{label, value}, p, depth)
	}
	if e.accountEntry(f, n, confidenceAt(depth)) {
		return nil
	}
	for _, m := range n.members {
		if err := e.member(ctx, f, n, m, p, depth); err != nil {
			return err
		}
	}
	return nil
}

// pages reads the web addresses of what the person made: those that their members call so. Whose an account or a mail address
// is, or a page in a member of any other name, nothing tells.
func (e *Extractor) pages(ctx context.Context, f *facts, n node) error {
	if n.kind == '"' {
		text, all := validText(n.text), &facts{seen: map[string]int{}}
		e.identifiers(all, n.path(), visible(without(text, orders(text))))
		for _, id := range all.identifiers {
			if id.Type == URL {
				f.addIdentifier(id, urlKey(id.Value))
			}
		}
	}
	for _, m := range n.members {
		if n.kind == '{' && e.words.labels[labelKey(m.key)] != "website" {
			continue
		}
		if err := e.pages(ctx, f, m.value); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pair reads an object that is itself a name and a value.
func pair(n node) (label string, value node, ok bool) {
	if len(n.members) != 2 {
		return "", node{}, false
	}
	for _, m := range n.members {
		switch labelKey(m.key) {
		case "field", "label", "key", "name", "property", "question":
			if m.value.kind == '"' && label == "" {
				label = m.value.text
			}
		case "value", "answer", "val":
			value, ok = m.value, true
		}
	}
	return label, value, ok && label != ""
}

// member reads one member of an object.
func (e *Extractor) member(ctx context.Context, f *facts, parent node, m member, p *position, depth int) error {
	if m.value.kind == 'n' || len(m.key) > 200 || strings.HasPrefix(m.key, "@") {
		return nil
	}
	if others.MatchString(m.key) && isNested(m.value) {
		return nil
	}
	kind, c := e.kindOf(m), confidenceAt(depth)
	if kind == "" && isNested(m.value) {
		switch {
		case works.MatchString(m.key):
			return e.pages(ctx, f, m.value)
		case depth == 0 && len(parent.members) == 1 && len(m.value.members) == 1 && answered.MatchString(m.key):
		case unowned.MatchString(m.key):
			return nil
		}
	}
	if inner, ok := wrapped(m.value); ok && kind != "" {
		m.value = inner
	}
	v := m.value
	if e.platformMember(f, parent, m, c) || e.structured(f, kind, v, p, c) {
		return nil
	}
	switch {
	case v.kind == '{' && isScalarKind(kind) && len(v.strings("contact", "label", "uri", "code", "name", "value")) > 0:
		e.values(f, kind, v, p, c)
		return nil
	case kind == "bio" && v.kind == '"':
		return e.text(ctx, f, v.path(), v.text, bodyMember)
	case kind == "", kind == "bio", kind == "person", v.kind == '{':
		return e.members(ctx, f, v, p, depth+1)
	}
	e.values(f, kind, v, p, c)
	return nil
}

// isScalarKind reports whether what a label of a kind names is one value, also where an object wraps it.
func isScalarKind(kind string) bool {
	switch kind {
	case "email", "personal email", "work email", "phone", "city", "state", "country", "website":
		return true
	}
	return false
}

func isNested(n node) bool { return n.kind == '{' || n.kind == '[' }

// kindOf is what the name of a member says that it is.
func (e *Extractor) kindOf(m member) string {
	switch labelKey(m.key) {
	case "account", "institution": // a text of this name is something else
		if m.value.kind == '{' {
			return "company"
		}
	case "companies", "employers", "organizations", "organisations", "orgs": // jobs, of those entries that have a title
		if isNested(m.value) {
			return "experience"
		}
	case "universities", "colleges":
		if isNested(m.value) {
			return "education"
		}
	}
	return e.words.kind(m.key)
}

// wrapped is the value of an object that holds one value and what is said about it:
// {"value": "Ada", "verified": true}.
func wrapped(v node) (node, bool) {
	if v.kind != '{' || len(v.members) > 4 {
		return node{}, false
	}
	for _, m := range v.members {
		switch labelKey(m.key) {
		case "value", "content", "text":
			return m.value, m.value.kind == '"' || m.value.kind == '0'
		}
	}
	return node{}, false
}

// structured reads a value whose kind has parts, such as a job. It is false for any other.
func (e *Extractor) structured(f *facts, kind string, v node, p *position, c float64) bool {
	object := v.kind == '{'
	objects := v.kind == '[' && len(v.members) > 0 && v.members[0].value.kind == '{'
	switch {
	case kind == "experience" && (v.kind == '[' || object && len(v.members) > 0),
		kind == "work email" && objects: // "work", the list of jobs of JSON Resume
		e.jobList(f, v, c)
	case object && (kind == "current position" || kind == "title" || kind == "work email"):
		e.job(f, v, p, c)
	case object && kind == "company":
		e.job(f, v, p, c)
		e.companyOf(v, p, c)
	case objects && kind == "company":
		e.companyOf(v.members[0].value, p, c)
	case kind == "education":
		e.schoolList(f, v, c)
	case kind == "skills":
		for _, s := range v.strings("skill", "name", "language", "title", "value") {
			e.skillList(f, s.part(), c)
		}
	case kind == "languages":
		for _, s := range v.strings("skill", "name", "language", "title", "value") {
			e.languageList(f, s.part(), c)
		}
	case object && (kind == identity.Codehost || kind == identity.Network || kind == identity.Microblog):
		e.accountOf(f, kind, v, c)
	default:
		return false
	}
	return true
}

// values reads the texts and numbers of a value of a known kind.
func (e *Extractor) values(f *facts, kind string, v node, p *position, c float64) {
	for i, s := range v.strings("value", "address", "number", "email", "url", "name", "text", "contact", "label", "uri", "code") {
		if i > 0 && (kind == "title" || kind == "company" || kind == "name") || i == maxIdentifiers {
			return
		}
		if len(orders(s.text)) > 0 {
			continue
		}
		e.value(f, kind, s.part(), p, c)
		switch kind {
		case "email", "personal email", "work email", "phone":
		default:
			e.identifiers(f, s.path(), s.text)
		}
	}
}

// companyOf reads an employer that is an object.
func (e *Extractor) companyOf(v node, p *position, c float64) {
	for _, s := range v.strings("name", "company name", "legal name", "display name", "institution", "organization", "title") {
		e.value(&facts{}, "company", s.part(), p, c)
	}
	for _, m := range v.members {
		if _, err := e.platforms.ParseCompany(m.value.text); m.value.kind == '"' && err == nil {
			s := m.value.part()
			p.companyURL = found{clean(s.text(), true), c, s.span()}
		}
	}
}

// platformMember reads members whose meaning hangs on the object around them:
// what a platform's own interface gives.
func (e *Extractor) platformMember(f *facts, parent node, m member, c float64) bool {
	switch labelKey(m.key) {
	case "login", "username", "user name", "handle":
		platform, _ := e.platformOf(parent)
		if platform == "" || m.value.kind != '"' {
			return false
		}
		e.username(f, platform, m.value.part(), c)
	case "id":
		if platform, own := e.platformOf(parent); platform == identity.Codehost && own && m.value.kind == '0' && number.FindString(m.value.text) == m.value.text {
			f.codehostID.better(found{m.value.text, c, Span{Path: m.value.path()}})
		}
	case "type":
	case "html url", "profile url":
		if m.value.kind == '"' {
			e.identifiers(f, m.value.path(), m.value.text)
		}
	default:
		return false
	}
	return true
}

// platformOf is the platform whose account an object describes by its links or by the names
// of its members, "" for none; own says that the names are those of the code host.
func (e *Extractor) platformOf(n node) (platform string, own bool) {
	for _, m := range n.members {
		key := labelKey(m.key)
		if m.value.kind != '"' && key != "public repos" && key != "public gists" {
			continue
		}
		switch key {
		case "html url", "profile url", "url", "link":
			if name, _, err := e.platforms.ParseAny(m.value.text); err == nil {
				platform = name
			}
		case "login", "public repos", "public gists":
			own = true
		}
	}
	if platform == "" && own {
		platform = identity.Codehost
	}
	return platform, own
}

// accountEntry reads an object that is an account on a service, as the profiles of JSON Resume are. What it says of a service that is
// no platform goes nowhere. It is false for any other object.
func (e *Extractor) accountEntry(f *facts, n node, c float64) bool {
	service, platform, user, link := "", "", node{}, node{}
	for _, m := range n.members {
		key := labelKey(m.key)
		switch {
		case m.value.kind != '"':
			if key == "id" && m.value.kind != '0' || isNested(m.value) {
				return false
			}
		case key == "network" || key == "platform" || key == "service" || key == "site" || key == "provider" || key == "social network":
			service = m.value.text
		case key == "type" || key == "name" || key == "label" || key == "title" || key == "kind" || key == "key":
			if isService(m.value.text) {
				service = m.value.text
			}
		case key == "username" || key == "user name" || key == "handle" || key == "user" || key == "login" || key == "id" || key == "account" || key == "screen name" || key == "value":
			user = m.value
		case key == "url" || key == "link" || key == "href" || key == "profile url" || key == "uri" || key == "address":
			link = m.value
		}
	}
	if service == "" || user.kind == 0 && link.kind == 0 || len(n.members) > 8 {
		return false
	}
	platform = platformNamed(service)
	if name, _, err := e.platforms.ParseAny(link.text); err == nil && link.kind != 0 && (platform == "" || platform == name) {
		e.identifiers(f, link.path(), link.text)
		platform = name
	}
	if platform != "" && user.kind != 0 {
		e.username(f, platform, user.part(), c)
	}
	return true
}

// accountOf reads an object that describes an account.
func (e *Extractor) accountOf(f *facts, platform string, v node, c float64) {
	for _, m := range v.members {
		key := labelKey(m.key)
		switch {
		case m.value.kind == '"' && (key == "url" || key == "link" || strings.HasSuffix(key, " url")):
			e.identifiers(f, m.value.path(), m.value.text)
		case m.value.kind == '"' && (key == "username" || key == "login" || key == "handle" || key == "slug" || strings.HasSuffix(key, " username")):
			e.username(f, platform, m.value.part(), c)
		case key == "headline" && m.value.kind == '"':
			s := m.value.part()
			f.headline.better(text(s, c))
		case platform == identity.Codehost && (key == "id" || key == "user id") && number.FindString(m.value.text) == m.value.text && m.value.text != "":
			f.codehostID.better(found{m.value.text, c, Span{Path: m.value.path()}})
		}
	}
}

// job reads an object that describes a job.
func (e *Extractor) job(f *facts, v node, p *position, c float64) {
	if p.span.Path == "" {
		p.span = Span{Path: v.path()}
	}
	defer func() { // a job's name is its employer's, where no other member is
		for _, m := range v.members {
			if labelKey(m.key) == "name" && m.value.kind == '"' && p.title.ok() && !p.company.ok() {
				e.value(f, "company", m.value.part(), p, c)
			}
		}
	}()
	for _, m := range v.members {
		kind, key := e.words.kind(m.key), labelKey(m.key)
		switch {
		case kind == "company" || key == "organization" || key == "employer" || key == "organization name":
			switch m.value.kind {
			case '{':
				e.companyOf(m.value, p, c)
			case '"':
				e.value(f, "company", m.value.part(), p, c)
			}
		case kind == "title" || key == "summary":
			for i, s := range m.value.strings("name", "title", "label") {
				if i == 0 {
					e.value(f, "title", s.part(), p, c)
				}
			}
		case kind == "start" || kind == "end":
			e.jobDate(m.value, kind, p)
		case (kind == "current" || key == "current indicator") && (m.value.kind == 't' || m.value.text == "true"):
			p.current = true
		case kind == "company url":
			e.value(f, kind, m.value.part(), p, c)
		case m.value.kind == '"' && (kind == "period" || key == "date range"):
			if when, ok := e.dates.find(m.value.text); ok {
				p.start, p.end, p.current = when.start, when.end, when.current
			}
		case isNested(m.value) && (kind == "period" || strings.HasSuffix(key, " period") || strings.HasPrefix(key, "position histor")): // of Europass
			inner := m.value
			if inner.kind == '[' && len(inner.members) > 0 {
				inner = inner.members[0].value
			}
			e.job(f, inner, p, c)
		}
	}
}

// jobDate reads the start or end of a job: a string, a number, or an object of year and
// month.
func (e *Extractor) jobDate(v node, kind string, p *position) {
	t := v.text
	if v.kind == '{' {
		var year, month string
		for _, m := range v.members {
			inner, ok := wrapped(m.value)
			if !ok {
				inner = m.value
			}
			switch labelKey(m.key) {
			case "year":
				year = inner.text
			case "month":
				month = strings.TrimLeft(inner.text, "-")
			case "formatted date time", "date", "value":
				t = inner.text
			}
		}
		if year != "" {
			t = year
		}
		if year != "" && month != "" {
			t += "-" + month
		}
	}
	date, ok := e.dates.parse(t)
	switch {
	case ok && kind == "start":
		p.start = date
	case ok:
		p.end = date
	}
}

// jobList reads a list of jobs.
func (e *Extractor) jobList(f *facts, v node, c float64) {
	list := v.members
	if v.kind == '{' {
		list = []member{{"", v}}
		if len(v.members) == 1 && isNested(v.members[0].value) { // <WorkExperienceList><WorkExperience>
			if list = v.members; list[0].value.kind == '[' {
				list = list[0].value.members
			}
		}
	}
	for i, m := range list {
		if i == maxEntries {
			return
		}
		p := position{listed: true, confidence: c, span: Span{Path: m.value.path()}}
		switch m.value.kind {
		case '{':
			e.job(f, m.value, &p, c)
		case '"':
			s := m.value.part()
			if when, ok := e.dates.find(s.text()); ok {
				p.start, p.end, p.current = when.start, when.end, when.current
				d := &document{e: e, f: f}
				d.fill(&p, d.items(undated(s, when.at)))
			} else {
				e.value(f, "experience", s, &p, c)
			}
		}
		if p.end == "" && (p.start != "" || ended(m.value)) {
			p.current = true
		}
		if !p.current && p.end == "" && len(list) == 1 && v.kind == '[' {
			p.current = true
		}
		if p.end != "" {
			p.current = false
		}
		p.past = !p.current
		f.addPosition(p)
	}
}

// ended reports whether a job says by a null that it has no end.
func ended(v node) bool {
	for _, m := range v.members {
		if k := labelKey(m.key); (k == "end" || k == "end date") && m.value.kind == 'n' {
			return true
		}
	}
	return false
}

// schoolList reads education: a list, an object or a text.
func (e *Extractor) schoolList(f *facts, v node, c float64) {
	list := v.members
	if v.kind != '[' {
		list = []member{{"", v}}
	}
	for i, m := range list {
		if i == maxEntries {
			return
		}
		switch m.value.kind {
		case '"':
			e.schoolLine(f, m.value.part(), c)
		case '{':
			e.school(f, m.value, c)
		}
	}
}

// school reads an object that describes a time at a school.
func (e *Extractor) school(f *facts, v node, c float64) {
	s := school{confidence: c, span: Span{Path: v.path()}}
	for _, m := range v.members {
		kind, key := e.words.kind(m.key), labelKey(m.key)
		var first string
		if all := m.value.strings("name", "title"); len(all) > 0 {
			first = strings.TrimSpace(all[0].text)
		}
		if isBlank(first) {
			continue
		}
		switch {
		case kind == "degree" || key == "degrees":
			s.degree = first
		case kind == "field" || key == "majors":
			s.field = first
		case kind == "start":
			s.start, _ = e.dates.parse(first)
		case kind == "end" || key == "graduation year" || key == "year":
			s.end, _ = e.dates.parse(first)
		case s.name == "" && (kind == "school name" || kind == "education" || kind == "name" || kind == "company"):
			s.name = first
		}
	}
	f.addSchool(s)
}
