package extract

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/tree"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

// otherPeopleField matches fields about other people.
var otherPeopleField = regexp.MustCompile(
	`(?i)^(?:friends?|manager|supervisor|spouse|wife|husband|partner_name|parents?` +
		`|children|siblings?|colleagues?|coworkers?|references?|referees?|assistant|editor|recommend(?:ations|ers?)` +
		`|followers|following|followed_accounts|follower_accounts|related|similar(?:_profiles)?|people_also_viewed` +
		`|mentions|contributors|maintainers|reviewer|interviewer|recipient|sender|emergency_contact|repos|commits` +
		`|repositories)$`)

// organizationsField matches fields with organizations and people related to the person. Names in
// them are not the person's.
var organizationsField = regexp.MustCompile(
	`(?i)(?:companies|employers|organi[sz]ations|institutions|schools|universities` +
		`|colleges` +
		`|clients|customers|partners|sponsors|testimonials|interests|hobbies)$`)

// customersField matches the field in which a shop returns the requested person.
var customersField = regexp.MustCompile(`(?i)^(?:clients|customers)$`)

// worksField matches fields with works and awards of the person. Names, addresses and accounts in
// them may be of others; pages are kept.
var worksField = regexp.MustCompile(
	`(?i)(?:volunteer(?:ing|s|[_ ]?(?:work|experience))?|projects?|publications|patents` +
		`|case_?studies|awards|honou?rs|certificat(?:es|ions))$`)

// readObject reads an object by its field names.
func (e *Extractor) readObject(ctx context.Context, f *facts, n tree.Node) error {
	job := position{current: true, confidence: labeled, span: view.Span{Path: n.Path()}}
	if err := e.readFields(ctx, f, n, &job, 0); err != nil {
		return err
	}
	f.addPosition(job)
	return nil
}

// readXML reads XML as an object of its elements.
func (e *Extractor) readXML(ctx context.Context, f *facts, path, text string) error {
	root, ranges := tree.ParseXML(text)
	if err := e.readObject(ctx, f, root); err != nil {
		return err
	}
	f.eachSpan(func(s *view.Span) {
		i, err := strconv.Atoi(strings.TrimPrefix(s.Path, "/"))
		if err != nil || i >= len(ranges) {
			*s = view.Span{Path: path, End: len(text)}
			return
		}
		*s = view.Span{Path: path, Start: ranges[i][0], End: ranges[i][1]}
	})
	return nil
}

// confidenceAt returns the confidence at a depth: of two names the less nested one is the person's.
func confidenceAt(depth int) float64 { return max(labeled-0.01*float64(depth), 0.9) }

// readFields reads a value of unknown kind. It sets the parts of a job in p.
func (e *Extractor) readFields(ctx context.Context, f *facts, n tree.Node, p *position, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch n.Kind {
	case '"':
		return e.readText(ctx, f, n.Path(), n.Text, unknownField)
	case '[':
		for i, m := range n.Members {
			if i%1000 == 999 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := e.readFields(ctx, f, m.Value, p, depth+1); err != nil {
				return err
			}
		}
		return nil
	case '{':
	default:
		return nil
	}
	if label, value, ok := labelValuePair(n); ok {
		return e.readField(ctx, f, n, tree.Member{Key: label, Value: value}, p, depth)
	}
	if e.readAccountEntry(f, n, confidenceAt(depth)) {
		return nil
	}
	for _, m := range n.Members {
		if err := e.readField(ctx, f, n, m, p, depth); err != nil {
			return err
		}
	}
	return nil
}

// readPages reads the web addresses of works, from fields that name them so. Other addresses and
// accounts may be of other people.
func (e *Extractor) readPages(ctx context.Context, f *facts, n tree.Node) error {
	if n.Kind == '"' {
		text, all := view.Valid(n.Text), &facts{seen: map[string]int{}}
		e.findIdentifiers(all, n.Path(), view.Visible(view.Blank(text, view.FindInstructions(text))))
		for _, id := range all.identifiers {
			if id.Type == URL {
				f.addIdentifier(id, urlKey(id.Value))
			}
		}
	}
	for _, m := range n.Members {
		if n.Kind == '{' && e.words.Labels[lexicon.LabelKey(m.Key)] != "website" {
			continue
		}
		if err := e.readPages(ctx, f, m.Value); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// labelValuePair splits an object that is itself a label and a value.
func labelValuePair(n tree.Node) (label string, value tree.Node, ok bool) {
	if len(n.Members) != 2 {
		return "", tree.Node{}, false
	}
	for _, m := range n.Members {
		switch lexicon.LabelKey(m.Key) {
		case "field", "label", "key", "name", "property", "question":
			if m.Value.Kind == '"' && label == "" {
				label = m.Value.Text
			}
		case "value", "answer", "val":
			value, ok = m.Value, true
		}
	}
	return label, value, ok && label != ""
}

// readField reads one field of an object.
func (e *Extractor) readField(ctx context.Context, f *facts, parent tree.Node, m tree.Member, p *position,
	depth int) error {
	if m.Value.Kind == 'n' || len(m.Key) > 200 || strings.HasPrefix(m.Key, "@") {
		return nil
	}
	if otherPeopleField.MatchString(m.Key) && isNested(m.Value) {
		return nil
	}
	kind, c := e.fieldKind(m), confidenceAt(depth)
	if kind == "" && isNested(m.Value) {
		switch {
		case worksField.MatchString(m.Key):
			return e.readPages(ctx, f, m.Value)
		case depth == 0 && len(parent.Members) == 1 && len(m.Value.Members) == 1 && customersField.MatchString(m.Key):
		case organizationsField.MatchString(m.Key):
			return nil
		}
	}
	if inner, ok := unwrap(m.Value); ok && kind != "" {
		m.Value = inner
	}
	v := m.Value
	if e.readPlatformField(f, parent, m, c) || e.readStructured(f, kind, v, p, c) {
		return nil
	}
	switch {
	case v.Kind == '{' && isScalarKind(kind) && len(v.Strings("contact", "label", "uri", "code", "name", "value")) > 0:
		e.readValues(f, kind, v, p, c)
		return nil
	case kind == "bio" && v.Kind == '"':
		return e.readText(ctx, f, v.Path(), v.Text, proseField)
	case kind == "", kind == "bio", kind == "person", v.Kind == '{':
		return e.readFields(ctx, f, v, p, depth+1)
	}
	e.readValues(f, kind, v, p, c)
	return nil
}

// isScalarKind reports whether a kind has one value, also if an object wraps it.
func isScalarKind(kind string) bool {
	switch kind {
	case "email", "personal email", "work email", "phone", "city", "state", "country", "website":
		return true
	}
	return false
}

func isNested(n tree.Node) bool { return n.Kind == '{' || n.Kind == '[' }

// fieldKind returns the kind of a field by its name.
func (e *Extractor) fieldKind(m tree.Member) string {
	switch lexicon.LabelKey(m.Key) {
	case "account", "institution": // only if the value is an object
		if m.Value.Kind == '{' {
			return "company"
		}
	case "companies", "employers", "organizations", "organisations", "orgs": // jobs, if the entries have a title
		if isNested(m.Value) {
			return "experience"
		}
	case "universities", "colleges":
		if isNested(m.Value) {
			return "education"
		}
	}
	return e.words.Kind(m.Key)
}

// unwrap returns the value of an object that holds one value and metadata: {"value": "Ada",
// "verified": true}.
func unwrap(v tree.Node) (tree.Node, bool) {
	if v.Kind != '{' || len(v.Members) > 4 {
		return tree.Node{}, false
	}
	for _, m := range v.Members {
		switch lexicon.LabelKey(m.Key) {
		case "value", "content", "text":
			return m.Value, m.Value.Kind == '"' || m.Value.Kind == '0'
		}
	}
	return tree.Node{}, false
}

// readStructured reads a value whose kind has parts, such as a job. It returns false for any other
// kind.
func (e *Extractor) readStructured(f *facts, kind string, v tree.Node, p *position, c float64) bool {
	object := v.Kind == '{'
	objects := v.Kind == '[' && len(v.Members) > 0 && v.Members[0].Value.Kind == '{'
	switch {
	case kind == "experience" && (v.Kind == '[' || object && len(v.Members) > 0),
		kind == "work email" && objects: // "work" is the list of jobs of JSON Resume
		e.readJobList(f, v, c)
	case object && (kind == "current position" || kind == "title" || kind == "work email"):
		e.readJob(f, v, p, c)
	case object && kind == "company":
		e.readJob(f, v, p, c)
		e.readCompany(v, p, c)
	case objects && kind == "company":
		e.readCompany(v.Members[0].Value, p, c)
	case kind == "education":
		e.readSchoolList(f, v, c)
	case kind == "skills":
		for _, s := range v.Strings("skill", "name", "language", "title", "value") {
			e.readSkillList(f, s.Part(), c)
		}
	case kind == "languages":
		for _, s := range v.Strings("skill", "name", "language", "title", "value") {
			e.readLanguageList(f, s.Part(), c)
		}
	case object && (kind == identity.Codehost || kind == identity.Network || kind == identity.Microblog):
		e.readAccount(f, kind, v, c)
	default:
		return false
	}
	return true
}

// readValues reads the strings and numbers of a value of a known kind.
func (e *Extractor) readValues(f *facts, kind string, v tree.Node, p *position, c float64) {
	for i, s := range v.Strings("value", "address", "number", "email", "url", "name", "text", "contact", "label", "uri",
		"code") {
		if i > 0 && (kind == "title" || kind == "company" || kind == "name") || i == maxIdentifiers {
			return
		}
		if len(view.FindInstructions(s.Text)) > 0 {
			continue
		}
		e.readValue(f, kind, s.Part(), p, c)
		switch kind {
		case "email", "personal email", "work email", "phone":
		default:
			e.findIdentifiers(f, s.Path(), s.Text)
		}
	}
}

// readCompany reads an employer object.
func (e *Extractor) readCompany(v tree.Node, p *position, c float64) {
	for _, s := range v.Strings("name", "company name", "legal name", "display name", "institution", "organization",
		"title") {
		e.readValue(&facts{}, "company", s.Part(), p, c)
	}
	for _, m := range v.Members {
		if _, err := e.platforms.ParseCompany(m.Value.Text); m.Value.Kind == '"' && err == nil {
			s := m.Value.Part()
			p.companyURL = textValue{cleanURL(s.Text(), true), c, s.Span()}
		}
	}
}

// readPlatformField reads fields whose meaning depends on their object, as in responses of platform
// APIs.
func (e *Extractor) readPlatformField(f *facts, parent tree.Node, m tree.Member, c float64) bool {
	switch lexicon.LabelKey(m.Key) {
	case "login", "username", "user name", "handle":
		platform, _ := e.describedPlatform(parent)
		if platform == "" || m.Value.Kind != '"' {
			return false
		}
		e.addUsername(f, platform, m.Value.Part(), c)
	case "id":
		if platform, own := e.describedPlatform(parent); platform == identity.Codehost && own && m.Value.Kind == '0' &&
			phrase.Number.FindString(m.Value.Text) == m.Value.Text {
			f.codehostID.keepSurer(textValue{m.Value.Text, c, view.Span{Path: m.Value.Path()}})
		}
	case "type":
	case "html url", "profile url":
		if m.Value.Kind == '"' {
			e.findIdentifiers(f, m.Value.Path(), m.Value.Text)
		}
	default:
		return false
	}
	return true
}

// describedPlatform returns the platform whose account an object describes, by its links or field
// names, or "". own means that the names are the code host's.
func (e *Extractor) describedPlatform(n tree.Node) (platform string, own bool) {
	for _, m := range n.Members {
		key := lexicon.LabelKey(m.Key)
		if m.Value.Kind != '"' && key != "public repos" && key != "public gists" {
			continue
		}
		switch key {
		case "html url", "profile url", "url", "link":
			if name, _, err := e.platforms.ParseAny(m.Value.Text); err == nil {
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

// readAccountEntry reads an object with a service and an account, as in the profiles of JSON
// Resume. Accounts of other services are dropped. It returns false for any other object.
func (e *Extractor) readAccountEntry(f *facts, n tree.Node, c float64) bool {
	service, user, link := "", tree.Node{}, tree.Node{}
	for _, m := range n.Members {
		key := lexicon.LabelKey(m.Key)
		switch {
		case m.Value.Kind != '"':
			if key == "id" && m.Value.Kind != '0' || isNested(m.Value) {
				return false
			}
		case key == "network" || key == "platform" || key == "service" || key == "site" || key == "provider" ||
			key == "social network":
			service = m.Value.Text
		case key == "type" || key == "name" || key == "label" || key == "title" || key == "kind" || key == "key":
			if isService(m.Value.Text) {
				service = m.Value.Text
			}
		case key == "username" || key == "user name" || key == "handle" || key == "user" || key == "login" ||
			key == "id" || key == "account" || key == "screen name" || key == "value":
			user = m.Value
		case key == "url" || key == "link" || key == "href" || key == "profile url" || key == "uri" || key == "address":
			link = m.Value
		}
	}
	if service == "" || user.Kind == 0 && link.Kind == 0 || len(n.Members) > 8 {
		return false
	}
	platform := platformNamed(service)
	if name, _, err := e.platforms.ParseAny(link.Text); err == nil && link.Kind != 0 &&
		(platform == "" || platform == name) {
		e.findIdentifiers(f, link.Path(), link.Text)
		platform = name
	}
	if platform != "" && user.Kind != 0 {
		e.addUsername(f, platform, user.Part(), c)
	}
	return true
}

// readAccount reads an object that describes an account.
func (e *Extractor) readAccount(f *facts, platform string, v tree.Node, c float64) {
	for _, m := range v.Members {
		key := lexicon.LabelKey(m.Key)
		switch {
		case m.Value.Kind == '"' && (key == "url" || key == "link" || strings.HasSuffix(key, " url")):
			e.findIdentifiers(f, m.Value.Path(), m.Value.Text)
		case m.Value.Kind == '"' &&
			(key == "username" || key == "login" || key == "handle" || key == "slug" ||
				strings.HasSuffix(key, " username")):
			e.addUsername(f, platform, m.Value.Part(), c)
		case key == "headline" && m.Value.Kind == '"':
			s := m.Value.Part()
			f.headline.keepSurer(valueOf(s, c))
		case platform == identity.Codehost && (key == "id" || key == "user id") &&
			phrase.Number.FindString(m.Value.Text) == m.Value.Text && m.Value.Text != "":
			f.codehostID.keepSurer(textValue{m.Value.Text, c, view.Span{Path: m.Value.Path()}})
		}
	}
}

// readJob reads an object that describes a job.
func (e *Extractor) readJob(f *facts, v tree.Node, p *position, c float64) {
	if p.span.Path == "" {
		p.span = view.Span{Path: v.Path()}
	}
	// The name of a job is its employer's, if no other field has it.
	defer func() {
		for _, m := range v.Members {
			if lexicon.LabelKey(m.Key) == "name" && m.Value.Kind == '"' && p.title.ok() && !p.company.ok() {
				e.readValue(f, "company", m.Value.Part(), p, c)
			}
		}
	}()
	for _, m := range v.Members {
		kind, key := e.words.Kind(m.Key), lexicon.LabelKey(m.Key)
		switch {
		case kind == "company" || key == "organization" || key == "employer" || key == "organization name":
			switch m.Value.Kind {
			case '{':
				e.readCompany(m.Value, p, c)
			case '"':
				e.readValue(f, "company", m.Value.Part(), p, c)
			}
		case kind == "title" || key == "summary":
			for i, s := range m.Value.Strings("name", "title", "label") {
				if i == 0 {
					e.readValue(f, "title", s.Part(), p, c)
				}
			}
		case kind == "start" || kind == "end":
			e.readJobDate(m.Value, kind, p)
		case (kind == "current" || key == "current indicator") && (m.Value.Kind == 't' || m.Value.Text == "true"):
			p.current = true
		case kind == "company url":
			e.readValue(f, kind, m.Value.Part(), p, c)
		case m.Value.Kind == '"' && (kind == "period" || key == "date range"):
			if when, ok := e.dates.Find(m.Value.Text); ok {
				p.start, p.end, p.current = when.Start, when.End, when.Current
			}
		// Europass nests the period.
		case isNested(m.Value) &&
			(kind == "period" || strings.HasSuffix(key, " period") || strings.HasPrefix(key, "position histor")):
			inner := m.Value
			if inner.Kind == '[' && len(inner.Members) > 0 {
				inner = inner.Members[0].Value
			}
			e.readJob(f, inner, p, c)
		}
	}
}

// readJobDate reads the start or end of a job: a string, a number, or an object with year and
// month.
func (e *Extractor) readJobDate(v tree.Node, kind string, p *position) {
	t := v.Text
	if v.Kind == '{' {
		var year, month string
		for _, m := range v.Members {
			inner, ok := unwrap(m.Value)
			if !ok {
				inner = m.Value
			}
			switch lexicon.LabelKey(m.Key) {
			case "year":
				year = inner.Text
			case "month":
				month = strings.TrimLeft(inner.Text, "-")
			case "formatted date time", "date", "value":
				t = inner.Text
			}
		}
		if year != "" {
			t = year
		}
		if year != "" && month != "" {
			t += "-" + month
		}
	}
	date, ok := e.dates.Parse(t)
	switch {
	case ok && kind == "start":
		p.start = date
	case ok:
		p.end = date
	}
}

// readJobList reads a list of jobs.
func (e *Extractor) readJobList(f *facts, v tree.Node, c float64) {
	list := v.Members
	if v.Kind == '{' {
		list = []tree.Member{{Key: "", Value: v}}
		if len(v.Members) == 1 && isNested(v.Members[0].Value) { // <WorkExperienceList><WorkExperience>
			if list = v.Members; list[0].Value.Kind == '[' {
				list = list[0].Value.Members
			}
		}
	}
	for i, m := range list {
		if i == maxEntries {
			return
		}
		p := position{listed: true, confidence: c, span: view.Span{Path: m.Value.Path()}}
		switch m.Value.Kind {
		case '{':
			e.readJob(f, m.Value, &p, c)
		case '"':
			s := m.Value.Part()
			if when, ok := e.dates.Find(s.Text()); ok {
				p.start, p.end, p.current = when.Start, when.End, when.Current
				d := &document{e: e, f: f}
				d.fillPosition(&p, d.splitEntry(cutPeriod(s, when.At)))
			} else {
				e.readValue(f, "experience", s, &p, c)
			}
		}
		if p.end == "" && (p.start != "" || hasNullEnd(m.Value)) {
			p.current = true
		}
		if !p.current && p.end == "" && len(list) == 1 && v.Kind == '[' {
			p.current = true
		}
		if p.end != "" {
			p.current = false
		}
		p.past = !p.current
		f.addPosition(p)
	}
}

// hasNullEnd reports whether a job has an end that is null.
func hasNullEnd(v tree.Node) bool {
	for _, m := range v.Members {
		if k := lexicon.LabelKey(m.Key); (k == "end" || k == "end date") && m.Value.Kind == 'n' {
			return true
		}
	}
	return false
}

// readSchoolList reads education: a list, an object or a text.
func (e *Extractor) readSchoolList(f *facts, v tree.Node, c float64) {
	list := v.Members
	if v.Kind != '[' {
		list = []tree.Member{{Key: "", Value: v}}
	}
	for i, m := range list {
		if i == maxEntries {
			return
		}
		switch m.Value.Kind {
		case '"':
			e.readSchoolLine(f, m.Value.Part(), c)
		case '{':
			e.readSchool(f, m.Value, c)
		}
	}
}

// readSchool reads an object that describes a school.
func (e *Extractor) readSchool(f *facts, v tree.Node, c float64) {
	s := school{confidence: c, span: view.Span{Path: v.Path()}}
	for _, m := range v.Members {
		kind, key := e.words.Kind(m.Key), lexicon.LabelKey(m.Key)
		var first string
		if all := m.Value.Strings("name", "title"); len(all) > 0 {
			first = strings.TrimSpace(all[0].Text)
		}
		if phrase.IsBlank(first) {
			continue
		}
		switch {
		case kind == "degree" || key == "degrees":
			s.degree = first
		case kind == "field" || key == "majors":
			s.field = first
		case kind == "start":
			s.start, _ = e.dates.Parse(first)
		case kind == "end" || key == "graduation year" || key == "year":
			s.end, _ = e.dates.Parse(first)
		case s.name == "" && (kind == "school name" || kind == "education" || kind == "name" || kind == "company"):
			s.name = first
		}
	}
	f.addSchool(s)
}
