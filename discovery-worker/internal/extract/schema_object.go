package extract

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/tree"
)

// whole are the keys of objects, in labelKey's form, that mean the person: their
// properties are asked as if they stood outside.
var personKeys = lexicon.Set("person\nprofile\ncandidate\napplicant\nlead\ncustomer\nuser\nmember\nemployee\nindividual\nsubject\npersonal\npersonal info\npersonal details\ndetails\ninfo\nsummary\nabout\nbackground\n" + //nolint:gochecknoglobals // a constant set
	"contact\ncontacts\ncontact info\ncontact details\ncontact information\nlinks\nsocial\nsocials\nsocial links\nsocial media\nsocial accounts\nsocial profiles\naccounts\nprofiles\ncareer\nwork")

// parts are what is known of the things that a person has: for the concept that
// the key of an object names, its properties and the concepts that answer them.
var objectConcepts = map[string]map[string]string{ //nolint:gochecknoglobals // a constant table
	"current_position.company.name": {
		"name": "current_position.company.name", "company": "current_position.company.name", "company name": "current_position.company.name",
		"url": "current_position.company.network_url", "network url": "current_position.company.network_url", "linkedin url": "current_position.company.network_url",
		"title": "current_position.summary", "start": "current_position.start", "start date": "current_position.start",
	},
	"current_position.summary": {
		"title": "current_position.summary", "name": "current_position.summary", "summary": "current_position.summary", "role": "current_position.summary", "job title": "current_position.summary",
		"company": "current_position.company.name", "company name": "current_position.company.name", "employer": "current_position.company.name", "organization": "current_position.company.name",
		"start": "current_position.start", "start date": "current_position.start",
	},
	"location": {
		"city": "location.city", "state": "location.state", "region": "location.state", "country": "location.country", "name": "location",
	},
	"school": {
		"name": "school", "school": "school", "university": "school", "institution": "school",
		"degree": "degree", "degrees": "degree", "field": "field", "major": "field", "field of study": "field",
	},
}

// object answers an object: from the input's member of its name, else from the
// part of the profile that its key means. What a friend or a former employer is
// called is not what the person is called, so that other keys are not known.
func (c *schemaReader) answerObject(a requestedField) (Field, bool) {
	key := lexicon.LabelKey(a.key)
	if n, ok := c.labels[key]; ok && n.Kind == '{' {
		return c.fromObject(a, n)
	}
	if personKeys[key] {
		return a.buildObject(c.answer)
	}
	known := objectConcepts[concepts[key]]
	return a.buildObject(func(p requestedField) (Field, bool) {
		if concept := known[lexicon.LabelKey(p.key)]; concept != "" {
			return c.fromConcept(p, concept)
		}
		return Field{}, false
	})
}

// memberwise answers an object from one of the input.
func (c *schemaReader) fromObject(a requestedField, n tree.Node) (Field, bool) {
	return a.buildObject(func(p requestedField) (Field, bool) {
		for _, m := range n.Members {
			if lexicon.LabelKey(m.Key) != lexicon.LabelKey(p.key) {
				continue
			}
			if p.accepts("object") && m.Value.Kind == '{' {
				return c.fromObject(p, m.Value)
			}
			if v, ok := p.cast(m.Value); ok {
				return Field{Value: v, Confidence: 0.95, Span: m.Value.TextSpan()}, true
			}
		}
		return Field{}, false
	})
}

// each makes an object of the properties that have an answer; one without any is
// not known.
func (a requestedField) buildObject(answer func(requestedField) (Field, bool)) (Field, bool) {
	out := Field{Confidence: 1}
	var b strings.Builder
	b.WriteByte('{')
	n := 0
	for _, p := range a.properties {
		f, ok := answer(p)
		if !ok {
			continue
		}
		if n > 0 {
			b.WriteByte(',')
		} else {
			out.Span, out.ProfilePath = f.Span, f.ProfilePath
		}
		n++
		b.Write(quoteJSON(p.key))
		b.WriteByte(':')
		b.Write(f.Value)
		out.Confidence = min(out.Confidence, f.Confidence)
	}
	b.WriteByte('}')
	out.Value = jsontext.Value(b.String())
	return out, n > 0
}
