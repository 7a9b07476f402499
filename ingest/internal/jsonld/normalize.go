package jsonld

import (
	"html"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fields of a normalized node, in addition to its properties.
const (
	// Date is the date of the node that refers to a node, if the node is not at the top level or
	// has no date.
	Date = "@date"
	// Nested is true for a node that is returned only because another one refers to it.
	Nested = "@nested"
)

// Normalize returns the people and organizations of a document, decoded from JSON (map[string]any, []any, string
// and so on): the nodes at its top level and in its graphs, and those they refer to. Each has "@type", a list of
// plain names that includes "Person" or "Organization" for their subtypes.
func Normalize(document any) []any {
	d := &normalizer{byID: map[string]map[string]any{}}
	d.top(newContext(), document)
	d.inherit()
	out := make([]any, 0, len(d.nodes))
	for _, n := range d.nodes {
		if isPublished(n) {
			out = append(out, d.resolved(n, maxReferences))
		}
	}
	return out
}

// Limits of the values repeated by references: depth and total number.
const (
	maxReferences = 4
	maxRepeated   = 500_000 // in addition to twice the values of the document
)

type normalizer struct {
	nodes    []map[string]any // nodes to return
	byID     map[string]map[string]any
	values   int // values in the document
	repeated int
}

// top adds the nodes at the top level of a document or of a graph.
func (d *normalizer) top(c *context, v any) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			d.top(c, element)
		}
	case map[string]any:
		if n := d.node(c, v); n != nil {
			d.publish(n)
		}
	}
}

func (d *normalizer) publish(n map[string]any) {
	if n[published] != nil || onlyID(n) {
		return
	}
	n[published] = true
	d.nodes = append(d.nodes, n)
}

// published marks nodes that are returned. It is removed from the output, and no property has this name.
const published = "@published"

func onlyID(n map[string]any) bool {
	_, ok := n["@id"]
	return ok && len(n) == 1
}

// node normalizes a node object. It returns nil if the object only contains a graph.
func (d *normalizer) node(c *context, object map[string]any) map[string]any {
	if local, ok := object["@context"]; ok {
		c = c.nested(local)
	}
	n := map[string]any{}
	graph := false
	for _, name := range slices.Sorted(maps.Keys(object)) {
		v := object[name]
		property, t := c.property(name)
		switch property {
		case "", "@context":
		case "@id":
			if id, ok := v.(string); ok && id != "" {
				n["@id"] = c.identifier(id)
			}
		case "@type":
			n["@type"] = types(c, v)
		case "@graph", "@included":
			graph = true
			d.top(c, v)
		default:
			if strings.HasPrefix(property, "@") {
				continue
			}
			if value := d.value(c, t, v); value != nil {
				n[property] = join(n[property], value)
			}
		}
	}
	if len(n) == 0 && graph {
		return nil
	}
	if id, ok := n["@id"].(string); ok && len(n) > 1 {
		if existing := d.byID[id]; existing != nil {
			merge(existing, n)
			return existing
		}
		d.byID[id] = n
	}
	return n
}

// types returns the plain names of a node's types and their supertypes.
func types(c *context, v any) []any {
	var names []any
	add := func(name string) {
		if !slices.Contains(names, any(name)) {
			names = append(names, name)
		}
	}
	var each func(any)
	each = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				each(element)
			}
		case string:
			name, _ := c.property(v)
			if name == "" || strings.HasPrefix(name, "@") {
				return
			}
			add(name)
			if isOrganizationType(name) {
				add("Organization")
			}
			if name == "Patient" {
				add("Person")
			}
		}
	}
	each(v)
	return names
}

// value normalizes the value of a property.
func (d *normalizer) value(c *context, t term, v any) any {
	d.values++
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if t.reference {
			return map[string]any{"@id": c.identifier(v)}
		}
		return Unescape(v)
	case []any:
		return d.list(c, t, v)
	case map[string]any:
		return d.object(c, t, v)
	}
	// A number or a boolean.
	return v
}

// list normalizes a list. If strings have different languages, only those in the language of the
// first are kept.
func (d *normalizer) list(c *context, t term, list []any) any {
	out := make([]any, 0, len(list))
	language := ""
	for _, element := range list {
		if tag := languageOf(c, element); tag != "" {
			if language == "" {
				language = tag
			} else if language != tag {
				continue
			}
		}
		if value := d.value(c, t, element); value != nil {
			out = flatten(out, value)
		}
	}
	return out
}

func languageOf(c *context, v any) string {
	object, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	tag, _ := keyword(c, object, "@language").(string)
	return strings.ToLower(tag)
}

// keyword returns the field of an object for a keyword or an alias of it.
func keyword(c *context, object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	for alias, v := range object {
		if t, ok := c.lookup(alias); ok && t.id == name {
			return v
		}
	}
	return nil
}

func (d *normalizer) object(c *context, t term, object map[string]any) any {
	if local, ok := object["@context"]; ok {
		c = c.nested(local)
	}
	for _, name := range []string{"@value", "@list", "@set"} {
		if v := keyword(c, object, name); v != nil {
			return d.value(c, t, v)
		}
	}
	if list := numbered(object); list != nil {
		return d.list(c, t, list)
	}
	if t.language {
		for _, tag := range slices.Sorted(maps.Keys(object)) {
			return d.value(c, term{}, object[tag])
		}
	}
	if graph := keyword(c, object, "@graph"); graph != nil && len(object) == 1 {
		return d.value(c, t, graph)
	}
	n := d.node(c, object)
	if len(n) == 0 {
		return nil
	}
	return n
}

// numbered returns the list encoded as an object with the fields "0", "1" and so on, as PHP encodes
// lists with gaps.
func numbered(object map[string]any) []any {
	indices := make([]int, 0, len(object))
	for name := range object {
		n, err := strconv.Atoi(name)
		if err != nil || strconv.Itoa(n) != name {
			return nil
		}
		indices = append(indices, n)
	}
	slices.Sort(indices)
	var list []any
	for _, n := range indices {
		list = append(list, object[strconv.Itoa(n)])
	}
	return list
}

func flatten(out []any, v any) []any {
	if list, ok := v.([]any); ok {
		return append(out, list...)
	}
	return append(out, v)
}

// join returns both values of a property.
func join(a, b any) any {
	if a == nil {
		return b
	}
	return flatten(flatten(nil, a), b)
}

// maxCompared is the maximum number of values of a property that are compared with a further one.
const maxCompared = 100

// merge adds the properties of a node to those of another one with the same @id.
func merge(existing, n map[string]any) {
	for name, v := range n {
		old, ok := existing[name]
		switch {
		case !ok:
			existing[name] = v
		case name == "@id":
		default:
			all := flatten(nil, old)
			for _, element := range flatten(nil, v) {
				same := func(other any) bool {
					return isScalar(element) && element == other ||
						!isScalar(element) && reflect.DeepEqual(element, other)
				}
				if !slices.ContainsFunc(all[:min(len(all), maxCompared)], same) {
					all = append(all, element)
				}
			}
			existing[name] = all
		}
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// referringProperties returns the properties whose people and organizations are published. For
// dates, earlier properties take precedence.
func referringProperties() []string {
	return []string{
		"mainEntity", "author", "creator", "contributor", "editor", "publisher", "reviewedBy",
		"itemListElement", "item", "hasPart",
	}
}

// inherit publishes the people and organizations that nodes refer to, with the date of the
// referring node.
func (d *normalizer) inherit() {
	visited, properties := make(map[string]bool, len(d.byID)), referringProperties()
	var walk func(n map[string]any, date any, depth int)
	walk = func(n map[string]any, date any, depth int) {
		for _, field := range []string{"dateModified", "datePublished", "dateCreated", "uploadDate"} {
			if v := n[field]; v != nil {
				date = v
				break
			}
		}
		for _, property := range properties {
			for _, v := range flatten(nil, n[property]) {
				target, ok := v.(map[string]any)
				if !ok {
					continue
				}
				if id, ok := target["@id"].(string); ok && d.byID[id] != nil {
					target = d.byID[id]
				}
				if target[Date] == nil && date != nil {
					target[Date] = date
				}
				if isPublished(target) && target[published] == nil {
					target[Nested] = true
					d.publish(target)
				}
				if id, ok := target["@id"].(string); ok {
					if visited[id] {
						continue
					}
					visited[id] = true
				}
				if depth < maxReferringDepth {
					walk(target, date, depth+1)
				}
			}
		}
	}
	for _, n := range slices.Clone(d.nodes) {
		walk(n, nil, 0)
	}
}

// maxReferringDepth is the maximum depth of references: a list of pages, the element, the page, its author.
const maxReferringDepth = 8

func isPublished(n map[string]any) bool {
	names, _ := n["@type"].([]any)
	return slices.Contains(names, any("Person")) || slices.Contains(names, any("Organization"))
}

// resolved returns a copy of a node in which references are replaced by their nodes.
func (d *normalizer) resolved(n map[string]any, depth int) map[string]any {
	out := make(map[string]any, len(n))
	for name, v := range n {
		if name != published {
			out[name] = d.resolve(v, depth)
		}
	}
	if _, ok := out["@type"]; !ok {
		out["@type"] = []any{}
	}
	return out
}

func (d *normalizer) resolve(v any, depth int) any {
	d.repeated++
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, element := range v {
			out = append(out, d.resolve(element, depth))
		}
		return out
	case map[string]any:
		id, _ := v["@id"].(string)
		target := d.byID[id]
		if target == nil {
			target = v
		}
		if depth == 0 || d.repeated > maxRepeated+2*d.values {
			return map[string]any{"@id": v["@id"]}
		}
		return d.resolved(target, depth-1)
	}
	return v
}

// characterReference matches a complete HTML character reference.
var characterReference = regexp.MustCompile(`&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});`)

// Unescape resolves the complete HTML character references of a string once.
func Unescape(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	return characterReference.ReplaceAllStringFunc(s, html.UnescapeString)
}
