package extract

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/tree"
)

// personKeys are the keys of objects, as LabelKey normalizes them, that mean the person. Their
// properties are answered like top-level keys.
var personKeys = lexicon.Set( //nolint:gochecknoglobals // a constant set
	"person\nprofile\ncandidate\napplicant\nlead\ncustomer\nuser\nmember\nemployee\nindividual\nsubject\n" +
		"personal\npersonal info\npersonal details\ndetails\ninfo\nsummary\nabout\nbackground\ncontact\ncontacts\n" +
		"contact info\ncontact details\ncontact information\nlinks\nsocial\nsocials\nsocial links\nsocial media\n" +
		"social accounts\nsocial profiles\naccounts\nprofiles\ncareer\nwork")

// objectConcepts map the concept of an object's key to its properties and their concepts.
var objectConcepts = map[string]map[string]string{ //nolint:gochecknoglobals // a constant table
	"current_position.company.name": {
		"name": "current_position.company.name", "company": "current_position.company.name",
		"company name": "current_position.company.name", "url": "current_position.company.network_url",
		"network url": "current_position.company.network_url", "linkedin url": "current_position.company.network_url",
		"title": "current_position.summary", "start": "current_position.start", "start date": "current_position.start",
	},
	"current_position.summary": {
		"title": "current_position.summary", "name": "current_position.summary", "summary": "current_position.summary",
		"role": "current_position.summary", "job title": "current_position.summary",
		"company": "current_position.company.name", "company name": "current_position.company.name",
		"employer": "current_position.company.name", "organization": "current_position.company.name",
		"start": "current_position.start", "start date": "current_position.start",
	},
	"location": {
		"city": "location.city", "state": "location.state", "region": "location.state", "country": "location.country",
		"name": "location",
	},
	"school": {
		"name": "school", "school": "school", "university": "school", "institution": "school",
		"degree": "degree", "degrees": "degree", "field": "field", "major": "field", "field of study": "field",
	},
}

// answerObject answers an object: from an object of the input with the same name, or from the part
// of the profile that the key means. Objects with other keys, such as a friend or former employer,
// are not answered from the profile.
func (c *schemaReader) answerObject(a requestedField) (Field, bool) {
	key := lexicon.LabelKey(a.key)
	if n, ok := c.labels[key]; ok && n.Kind == '{' {
		return c.fromObject(a, n)
	}
	if personKeys[key] {
		return a.buildObject(c.answer)
	}
	byKey := objectConcepts[concepts[key]]
	return a.buildObject(func(p requestedField) (Field, bool) {
		if concept := byKey[lexicon.LabelKey(p.key)]; concept != "" {
			return c.fromConcept(p, concept)
		}
		return Field{}, false
	})
}

// fromObject answers an object from one of the input.
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

// buildObject builds an object of the properties that have an answer. It returns false if none has.
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
