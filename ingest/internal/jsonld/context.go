package jsonld

import (
	"net/url"
	"regexp"
	"strings"
)

// context is what one @context adds to those around it.
type context struct {
	outer *context
	terms map[string]term
	// vocabulary is the IRI before names without a prefix.
	vocabulary string
	assumed    bool // no context has said so
	base       *url.URL
}

// term is the definition of a name.
type term struct {
	id        string // an IRI, a compact IRI or a keyword; empty: the name has no meaning
	reference bool   // its strings are IRIs
	language  bool   // its objects are maps by language
}

const schemaOrg = "https://schema.org/"

// schemaIRI matches the beginning of the IRIs of the vocabulary.
var schemaIRI = regexp.MustCompile(`^(?i:https?://(?:www\.)?schema\.org)(?:/|$)`)

// schemaContext matches what stands for the vocabulary as a context.
var schemaContext = regexp.MustCompile(`^(?i:(?:https?:)?(?://)?(?:www\.)?schema\.org)(?:/.*)?$`)

func newContext() *context {
	return &context{vocabulary: schemaOrg, assumed: true, terms: map[string]term{"schema": {id: schemaOrg}}}
}

// with returns the context inside of an object that has an @context.
func (c *context) with(local any) *context {
	inner := &context{outer: c, terms: map[string]term{}, vocabulary: c.vocabulary, assumed: c.assumed, base: c.base}
	inner.add(local)
	return inner
}

func (c *context) add(local any) {
	switch v := local.(type) {
	case nil: // takes back what the contexts around it say
		*c = *newContext()
	case string:
		switch {
		case schemaContext.MatchString(v):
			c.vocabulary, c.assumed = schemaOrg, false
			c.terms["id"], c.terms["type"] = term{id: "@id"}, term{id: "@type"}
		case c.assumed:
			c.vocabulary = ""
		}
	case []any:
		for _, one := range v {
			c.add(one)
		}
	case map[string]any:
		for name, definition := range v {
			c.define(name, definition)
		}
	}
}

func (c *context) define(name string, definition any) {
	switch name {
	case "@vocab":
		vocabulary, _ := definition.(string)
		c.vocabulary, c.assumed = vocabulary, false
		return
	case "@base":
		text, _ := definition.(string)
		c.base, _ = url.Parse(text) // nil without one that can be read
		return
	}
	if strings.HasPrefix(name, "@") {
		return
	}
	switch v := definition.(type) {
	case nil:
		c.terms[name] = term{}
	case string:
		c.terms[name] = term{id: v}
	case map[string]any:
		t := term{id: name} // in the vocabulary
		if id, given := v["@id"]; given {
			t.id, _ = id.(string)
		}
		t.reference = v["@type"] == "@id" || v["@type"] == "@vocab"
		t.language = v["@container"] == "@language"
		if _, reverse := v["@reverse"]; reverse {
			t = term{}
		}
		c.terms[name] = t
	}
}

func (c *context) lookup(name string) (term, bool) {
	for ; c != nil; c = c.outer {
		if t, ok := c.terms[name]; ok {
			return t, true
		}
	}
	return term{}, false
}

// maxExpansions bounds the terms that are defined by each other.
const maxExpansions = 8

// expand returns the IRI or keyword of a name, and its definition.
func (c *context) expand(name string) (string, term) {
	t, _ := c.lookup(name)
	for range maxExpansions {
		if strings.HasPrefix(name, "@") {
			return name, t
		}
		if known, ok := c.lookup(name); ok && known.id != name {
			if known.id == "" {
				return "", t
			}
			name = known.id
			continue
		}
		prefix, local, compact := strings.Cut(name, ":")
		if !compact {
			if c.vocabulary == "" {
				return "", t
			}
			return c.iri(c.vocabulary) + name, t
		}
		known, ok := c.lookup(prefix)
		if !ok || strings.HasPrefix(local, "//") || known.id == prefix {
			return name, t
		}
		name = known.id + local
	}
	return "", t
}

// iri expands a vocabulary that is a compact IRI itself.
func (c *context) iri(vocabulary string) string {
	if prefix, local, ok := strings.Cut(vocabulary, ":"); ok && !strings.HasPrefix(local, "//") {
		if known, ok := c.lookup(prefix); ok {
			return known.id + local
		}
	}
	if schemaIRI.MatchString(vocabulary) && !strings.HasSuffix(vocabulary, "/") {
		return vocabulary + "/" // as many pages write it
	}
	return vocabulary
}

// property returns the plain name of schema.org that a name means, or a keyword, or "" if it means nothing here.
func (c *context) property(name string) (string, term) {
	iri, t := c.expand(name)
	if strings.HasPrefix(iri, "@") {
		return iri, t
	}
	prefix := schemaIRI.FindString(iri)
	if prefix == "" {
		return "", t
	}
	return strings.TrimPrefix(iri[len(prefix):], "/"), t
}

// identifier returns a node's @id: absolute where a prefix or the base makes it so.
func (c *context) identifier(id string) string {
	if prefix, local, ok := strings.Cut(id, ":"); ok {
		if known, found := c.lookup(prefix); found && !strings.HasPrefix(local, "//") && known.id != "" && prefix != "_" {
			return known.id + local
		}
		return id
	}
	if c.base == nil {
		return id
	}
	reference, err := url.Parse(id)
	if err != nil {
		return id
	}
	return c.base.ResolveReference(reference).String()
}
