package jsonld

import (
	"net/url"
	"regexp"
	"strings"
)

// context is an @context together with those around it.
type context struct {
	outer *context
	terms map[string]term
	// vocabulary is the IRI prefix of names without a prefix.
	vocabulary string
	isDefault  bool // default, not set by a context
	base       *url.URL
}

// term is the definition of a name.
type term struct {
	id        string // IRI, compact IRI or keyword; empty if the name is undefined
	reference bool   // its strings are IRIs
	language  bool   // its objects are language maps
}

const schemaOrg = "https://schema.org/"

// schemaIRI matches the start of IRIs of the vocabulary.
var schemaIRI = regexp.MustCompile(`^(?i:https?://(?:www\.)?schema\.org)(?:/|$)`)

// schemaContext matches a context that stands for the vocabulary.
var schemaContext = regexp.MustCompile(`^(?i:(?:https?:)?(?://)?(?:www\.)?schema\.org)(?:/.*)?$`)

func newContext() *context {
	return &context{vocabulary: schemaOrg, isDefault: true, terms: map[string]term{"schema": {id: schemaOrg}}}
}

// nested returns the context inside an object that has an @context.
func (c *context) nested(local any) *context {
	inner := &context{
		outer:      c,
		terms:      map[string]term{},
		vocabulary: c.vocabulary,
		isDefault:  c.isDefault,
		base:       c.base,
	}
	inner.add(local)
	return inner
}

func (c *context) add(local any) {
	switch v := local.(type) {
	case nil: // resets the contexts around it
		*c = *newContext()
	case string:
		switch {
		case schemaContext.MatchString(v):
			c.vocabulary, c.isDefault = schemaOrg, false
			c.terms["id"], c.terms["type"] = term{id: "@id"}, term{id: "@type"}
		case c.isDefault:
			c.vocabulary = ""
		}
	case []any:
		for _, element := range v {
			c.add(element)
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
		c.vocabulary, c.isDefault = vocabulary, false
		return
	case "@base":
		text, _ := definition.(string)
		c.base, _ = url.Parse(text) // nil if the base is invalid
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

// maxExpansions limits the chain of terms defined by each other.
const maxExpansions = 8

// expand returns the IRI or keyword of a name, and its definition.
func (c *context) expand(name string) (string, term) {
	t, _ := c.lookup(name)
	for range maxExpansions {
		if strings.HasPrefix(name, "@") {
			return name, t
		}
		if definition, ok := c.lookup(name); ok && definition.id != name {
			if definition.id == "" {
				return "", t
			}
			name = definition.id
			continue
		}
		prefix, local, compact := strings.Cut(name, ":")
		if !compact {
			if c.vocabulary == "" {
				return "", t
			}
			return c.iri(c.vocabulary) + name, t
		}
		definition, ok := c.lookup(prefix)
		if !ok || strings.HasPrefix(local, "//") || definition.id == prefix {
			return name, t
		}
		name = definition.id + local
	}
	return "", t
}

// iri expands a vocabulary that is a compact IRI itself.
func (c *context) iri(vocabulary string) string {
	if prefix, local, ok := strings.Cut(vocabulary, ":"); ok && !strings.HasPrefix(local, "//") {
		if definition, ok := c.lookup(prefix); ok {
			return definition.id + local
		}
	}
	if schemaIRI.MatchString(vocabulary) && !strings.HasSuffix(vocabulary, "/") {
		return vocabulary + "/" // many pages omit the slash
	}
	return vocabulary
}

// property returns the plain schema.org name, or the keyword, that a name stands for, or "" if it is unknown.
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

// identifier returns a node's @id. It is absolute if a prefix or the base defines it.
func (c *context) identifier(id string) string {
	if prefix, local, ok := strings.Cut(id, ":"); ok {
		if definition, found := c.lookup(prefix); found && !strings.HasPrefix(local, "//") && definition.id != "" &&
			prefix != "_" {
			return definition.id + local
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
