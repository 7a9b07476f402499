package extract

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/tree"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// maxSchemaKeys limits the answered keys of a schema, maxSchemaDepth its depth.
const (
	maxSchemaKeys  = 200
	maxSchemaDepth = 5
)

// requestedField is one key of a request's schema.
type requestedField struct {
	key         string
	types       []string
	description string
	enum        []jsontext.Value
	items       *requestedField
	properties  []requestedField
}

// AnswerSchema answers the keys of a request's schema from the input (interface.md, POST
// /v1/context): from fields and labels with the same name, from profile fields with the same
// meaning, and for enumerations from the job title. profile is the result of Extract for the same
// input. Every key has an entry. Unknown values, and values that do not match the declared type,
// are null with confidence 0. schema is the object of the request; keys with an unsupported
// definition are null.
func (e *Extractor) AnswerSchema(ctx context.Context, in Input, profile Profile,
	schema jsontext.Value) (map[string]Field, error) {
	root, err := tree.Parse(schema)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	if len(in.Text) > MaxInput || len(in.Object) > MaxInput {
		return nil, fmt.Errorf("input is too large: the limit is %d bytes", MaxInput)
	}
	c := &schemaReader{e: e, profile: profile, labels: map[string]tree.Node{}}
	if len(in.Object) > 0 {
		tree, err := tree.Parse(in.Object)
		if err != nil {
			return nil, fmt.Errorf("read input: %w", err)
		}
		c.indexFields(tree, 0)
	} else {
		c.text = view.Blank(in.Text, view.FindInstructions(in.Text))
		c.indexLines(c.text)
	}
	answers := map[string]Field{}
	for i, m := range root.Members {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		answers[m.Key] = Field{Value: jsontext.Value("null")}
		if i < maxSchemaKeys {
			if f, ok := c.answer(readRequestedField(m.Key, m.Value, 0)); ok {
				answers[m.Key] = f
			}
		}
	}
	return answers, nil
}

// readRequestedField parses one key of a schema.
func readRequestedField(key string, n tree.Node, depth int) requestedField {
	a := requestedField{key: key}
	if depth > maxSchemaDepth {
		return a
	}
	for _, m := range n.Members {
		switch m.Key {
		case "type":
			for _, t := range m.Value.Strings() {
				a.types = append(a.types, t.Text)
			}
		case "description":
			a.description = m.Value.Text
		case "enum":
			for _, v := range m.Value.Members {
				a.enum = append(a.enum, v.Value.JSON())
			}
		case "items":
			items := readRequestedField(key, m.Value, depth+1)
			a.items = &items
		case "properties":
			for _, p := range m.Value.Members {
				a.properties = append(a.properties, readRequestedField(p.Key, p.Value, depth+1))
			}
		}
	}
	if len(a.types) == 0 && len(a.properties) > 0 {
		a.types = []string{"object"}
	}
	return a
}

// schemaReader answers the keys of one request.
type schemaReader struct {
	e       *Extractor
	profile Profile
	labels  map[string]tree.Node // fields and labels of the input, by name
	text    string
}

func (a requestedField) accepts(t string) bool { return slices.Contains(a.types, t) }

// indexFields indexes the fields of an object by name. The least nested one wins.
func (c *schemaReader) indexFields(n tree.Node, depth int) {
	for _, m := range n.Members {
		key := lexicon.LabelKey(m.Key)
		if n.Kind == '{' && m.Value.Kind != 'n' && key != "" && len(c.labels) < event.MaxPersonValues {
			if _, ok := c.labels[key]; !ok {
				c.labels[key] = m.Value
			}
		}
	}
	for _, m := range n.Members {
		if m.Value.Kind == '"' && strings.Contains(m.Value.Text, "\n") {
			c.indexLines(view.Blank(m.Value.Text, view.FindInstructions(m.Value.Text)))
		}
		if m.Value.Kind == '{' || m.Value.Kind == '[' {
			c.indexFields(m.Value, depth+1)
		}
	}
}

// indexLines indexes the labeled lines of a text.
func (c *schemaReader) indexLines(text string) {
	v := view.New("", text)
	for _, line := range v.Lines() {
		line = view.TrimBullet(line)
		t := line.Text()
		if len(t) > 1000 {
			continue
		}
		m := labelLine.FindStringSubmatchIndex(t)
		if m == nil || m[4] == m[5] {
			continue
		}
		key := lexicon.LabelKey(t[m[2]:m[3]])
		if _, ok := c.labels[key]; !ok && !phrase.IsBlank(t[m[4]:m[5]]) {
			value := line.Sub(m[4], m[5]).Trim("*_")
			c.labels[key] = tree.Node{Kind: '"', Text: value.Text(), Span: value.Span(), Spanned: true}
		}
	}
}

// answer returns the value of one key.
func (c *schemaReader) answer(a requestedField) (Field, bool) {
	if a.accepts("object") && len(a.properties) > 0 {
		return c.answerObject(a)
	}
	if n, ok := c.labels[lexicon.LabelKey(a.key)]; ok {
		if v, ok := a.cast(n); ok {
			return Field{Value: v, Confidence: 0.95, Span: n.TextSpan()}, true
		}
	}
	if f, ok := c.fromProfile(a); ok {
		return f, true
	}
	return c.fromHints(a)
}

// concepts map names in schemas, as LabelKey normalizes them, to the field or identifier that
// answers them.
var concepts = map[string]string{ //nolint:gochecknoglobals // a constant table
	"current company": "current_position.company.name", "company": "current_position.company.name",
	"employer": "current_position.company.name", "current employer": "current_position.company.name",
	"organization": "current_position.company.name", "company name": "current_position.company.name",
	"workplace": "current_position.company.name", "current title": "current_position.summary",
	"title": "current_position.summary", "job title": "current_position.summary", "role": "current_position.summary",
	"current role": "current_position.summary", "position": "current_position.summary",
	"current position": "current_position.summary", "occupation": "current_position.summary",
	"job": "current_position.summary", "profession": "current_position.summary",
	"start date": "current_position.start", "current position start": "current_position.start",
	"job start date": "current_position.start", "employed since": "current_position.start",
	"name": "full_name", "full name": "full_name", "first name": "first_name", "given name": "first_name",
	"last name": "last_name", "surname": "last_name", "family name": "last_name",
	"city": "location.city", "current city": "location.city", "home city": "location.city", "state": "location.state",
	"region": "location.state", "country": "location.country", "country of residence": "location.country",
	"location": "location", "based in": "location", "residence": "location", "current location": "location",
	"skills": "skills", "technologies": "skills", "technical skills": "skills", "tech stack": "skills",
	"programming languages": "skills", "tools": "skills", "languages": "languages", "spoken languages": "languages",
	"languages spoken": "languages", "schools": "school", "universities": "school", "university": "school",
	"school": "school", "alma mater": "school", "college": "school", "education": "school", "degree": "degree",
	"degrees": "degree", "highest degree": "degree", "field of study": "field", "major": "field",
	"previous companies": "past company", "past companies": "past company",
	"former employers": "past company", "previous employers": "past company", "previous company": "past company",
	"past employers": "past company", "previous titles": "past title", "past titles": "past title",
	"previous roles": "past title", "previous positions": "past title", "email": Email, "e mail": Email,
	"email address": Email, "emails": Email, "email addresses": Email, "personal email": "personal_email",
	"private email": "personal_email", "work email": "work email", "business email": "work email",
	"company email": "work email", "phone": Phone, "phone number": Phone, "telephone": Phone, "mobile": Phone,
	"phones": Phone, "phone numbers": Phone, "mobile number": Phone, "website": URL, "homepage": URL, "websites": URL,
	"portfolio": URL, "blog": URL, "personal website": URL, "codehost": "codehost.username",
	"github": "codehost.username", "github username": "codehost.username", "codehost username": "codehost.username",
	"github url": "codehost.url", "codehost url": "codehost.url", "github profile": "codehost.url",
	"network": "network.url", "linkedin": "network.url", "linkedin url": "network.url", "network url": "network.url",
	"linkedin profile": "network.url", "linkedin username": "network.username", "network username": "network.username",
	"microblog": "microblog", "twitter": "microblog", "twitter handle": "microblog", "twitter username": "microblog",
	"microblog username": "microblog", "headline": "network.headline",
	"years of experience": "years", "years experience": "years", "experience years": "years",
	"total years of experience": "years",
}

// fromProfile answers a key from the profile.
func (c *schemaReader) fromProfile(a requestedField) (Field, bool) {
	switch concept := concepts[lexicon.LabelKey(a.key)]; concept {
	case "":
		return Field{}, false
	case "years":
		return c.fromYears(a)
	default:
		return c.fromConcept(a, concept)
	}
}

// fromConcept answers a key from the profile values of a concept.
func (c *schemaReader) fromConcept(a requestedField, concept string) (Field, bool) {
	values := c.conceptValues(concept)
	if len(values) == 0 {
		return Field{}, false
	}
	list := tree.Node{Kind: '['}
	confidence, span := 1.0, values[0].span
	for _, v := range values {
		list.Members = append(list.Members, tree.Member{Value: tree.Node{Kind: '"', Text: v.value}})
		confidence = min(confidence, v.confidence)
	}
	for _, t := range a.types {
		n := list
		if t != "array" {
			n = list.Members[0].Value
			confidence = values[0].confidence
		}
		if v, ok := a.castTo(t, n); ok && (t == "array" || a.allows(v)) {
			return Field{Value: v, Confidence: confidence, Span: span, ProfilePath: c.fieldOf(concept)}, true
		}
	}
	return Field{}, false
}

// fieldOf returns the path of the profile field of a concept, or "" for identifiers.
func (c *schemaReader) fieldOf(concept string) string {
	switch concept {
	case "school", "degree", "field":
		return "education"
	case "past company", "past title":
		return "experience"
	case "location":
		for _, path := range []string{"location.city", "location.state", "location.country"} {
			if c.stringField(path) != "" {
				return path
			}
		}
	}
	if _, ok := c.profile.Fields[concept]; ok {
		return concept
	}
	return ""
}

// conceptValues returns the profile values of a concept.
func (c *schemaReader) conceptValues(concept string) []textValue {
	p := c.profile
	add := func(list []textValue, path string, text string) []textValue {
		if text == "" {
			return list
		}
		return append(list, textValue{text, p.Fields[path].Confidence, p.Fields[path].Span})
	}
	var all []textValue
	switch concept {
	case Email, Phone, URL, "microblog", "work email":
		for _, id := range p.Identifiers {
			personalEmail := p.Fields["personal_email"]
			switch {
			case concept == "microblog" && id.Type == Account && id.Platform == identity.Microblog,
				concept == id.Type,
				concept == "work email" && id.Type == Email &&
					(id.role == "work" || personalEmail.Value != nil &&
						string(personalEmail.Value) != string(quoteJSON(id.Value))):
				all = append(all, textValue{id.Value, id.Confidence, id.Span})
			}
		}
	case "location":
		var parts []string
		for _, path := range []string{"location.city", "location.state", "location.country"} {
			if s := c.stringField(path); s != "" {
				parts = append(parts, s)
				all = []textValue{{strings.Join(parts, ", "), p.Fields[path].Confidence, p.Fields[path].Span}}
			}
		}
	case "skills":
		for _, s := range listField[listedSkill](p, concept) {
			all = add(all, concept, s.Skill)
		}
	case "languages":
		for _, s := range listField[listedLanguage](p, concept) {
			all = add(all, concept, s.Language)
		}
	case "school", "degree", "field":
		for _, s := range listField[listedSchool](p, "education") {
			switch {
			case concept == "school" && s.School != nil:
				all = add(all, "education", s.School.Name)
			case concept == "degree":
				all = add(all, "education", strings.Join(s.Degrees, ", "))
			case concept == "field":
				all = add(all, "education", strings.Join(s.Majors, ", "))
			}
		}
	case "past company", "past title":
		for _, j := range listField[listedJob](p, "experience") {
			switch {
			case j.Current:
			case concept == "past title":
				all = add(all, "experience", j.Summary)
			case j.Company != nil:
				all = add(all, "experience", j.Company.Name)
			}
		}
	default:
		all = add(all, concept, c.stringField(concept))
	}
	return all
}

// stringField returns a string field of the profile, or "".
func (c *schemaReader) stringField(path string) string {
	var s string
	if f, ok := c.profile.Fields[path]; !ok || json.Unmarshal(f.Value, &s) != nil {
		return ""
	}
	return s
}

func listField[T any](p Profile, path string) []T {
	var all []T
	if f, ok := p.Fields[path]; !ok || json.Unmarshal(f.Value, &all) != nil {
		return nil
	}
	return all
}

var (
	yearsExpr = regexp.MustCompile(`(?i)\b(\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve` +
		`|fifteen|twenty)\+?[\s-]+years?(?:['’])?\s+(?:of\s+)?(?:[\p{L}]+\s+){0,3}experience\b`)
	numberWords = map[string]string{ //nolint:gochecknoglobals // a constant table
		"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
		"nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "fifteen": "15", "twenty": "20",
	}
)

// fromYears answers a number of years of experience, if the text states it.
func (c *schemaReader) fromYears(a requestedField) (Field, bool) {
	m := yearsExpr.FindStringSubmatchIndex(c.text)
	if m == nil {
		return Field{}, false
	}
	n := strings.ToLower(c.text[m[2]:m[3]])
	if numberWords[n] != "" {
		n = numberWords[n]
	}
	v, ok := a.cast(tree.Node{Kind: '"', Text: n})
	return Field{Value: v, Confidence: stated, Span: view.Span{Start: m[0], End: m[1]}}, ok
}

// fromHints answers an enumeration of which the job title names exactly one value, and a boolean
// about a skill or language.
func (c *schemaReader) fromHints(a requestedField) (Field, bool) {
	title := c.profile.Fields["current_position.summary"]
	if a.accepts("string") && len(a.enum) > 0 && title.Value != nil {
		var hit jsontext.Value
		hits := 0
		for _, o := range a.enum {
			var s string
			if json.Unmarshal(o, &s) == nil && s != "" && containsWords(c.stringField("current_position.summary"), s) {
				hit = o
				hits++
			}
		}
		if hits == 1 {
			return Field{Value: hit, Confidence: min(stated, title.Confidence), Span: title.Span,
				ProfilePath: "current_position.summary"}, true
		}
	}
	key := lexicon.LabelKey(a.key)
	for _, prefix := range []string{"knows ", "has ", "uses ", "speaks ", "is "} {
		skill, ok := strings.CutPrefix(key, prefix)
		if !ok || !a.accepts("boolean") {
			continue
		}
		for _, path := range []string{"skills", "languages"} {
			for _, v := range c.conceptValues(path) {
				if strings.EqualFold(v.value, skill) || strings.EqualFold(v.value+" experience", skill) {
					return Field{Value: jsontext.Value("true"), Confidence: v.confidence, Span: v.span,
						ProfilePath: path}, true
				}
			}
		}
	}
	return Field{}, false
}

// containsWords reports whether a phrase contains words, ignoring case.
func containsWords(phrase, words string) bool {
	split := func(s string) string {
		return " " + strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}), " ") + " "
	}
	w := split(words)
	return strings.TrimSpace(w) != "" && strings.Contains(split(phrase), w)
}
