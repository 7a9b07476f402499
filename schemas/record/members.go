package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// FieldNames are the field names in the JSON Schema of a kind, at every depth.
type FieldNames struct {
	properties map[string]*FieldNames // of an object; nil if any are allowed
	items      *FieldNames            // of array elements
}

// FieldNamesOf returns the field names of a kind.
func FieldNamesOf(d Definition) (*FieldNames, error) {
	var schema schemaNode
	if err := json.Unmarshal(d.Schema, &schema); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", d.Kind, err)
	}
	return schema.members(), nil
}

// Siblings returns the names that the schema has at the level of an unknown field, and the name of that field.
// path is as EachUnknown returns it.
func (m *FieldNames) Siblings(path string) (beside *FieldNames, name string) {
	for {
		head, rest, more := strings.Cut(path, ".")
		plain := strings.TrimSuffix(head, "[]")
		below := m.properties[plain]
		if below != nil && plain != head {
			below = below.items
		}
		if !more || below == nil {
			return m, path
		}
		m, path = below, rest
	}
}

// Names returns the names of an object's fields in alphabetical order.
func (m *FieldNames) Names() []string { return slices.Sorted(maps.Keys(m.properties)) }

// Has reports whether the schema has a dotted path such as "current_position.company.name".
func (m *FieldNames) Has(path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if m = m.properties[name]; m == nil {
			return false
		}
	}
	return true
}

// schemaNode is a node of a JSON Schema.
type schemaNode struct {
	Properties map[string]schemaNode `json:"properties"`
	Items      *schemaNode           `json:"items"`
}

func (n schemaNode) members() *FieldNames {
	m := &FieldNames{}
	if n.Properties != nil {
		m.properties = make(map[string]*FieldNames, len(n.Properties))
		for name, property := range n.Properties {
			m.properties[name] = property.members()
		}
	}
	if n.Items != nil {
		m.items = n.Items.members()
	}
	return m
}

// EachUnknown calls visit with the path of each field of a record's JSON that the schema lacks, as in
// "experience[].company_name" (all array indices are []). It does not descend into such fields. A path that
// occurs several times is visited each time; its bytes are valid until visit returns.
func (m *FieldNames) EachUnknown(compact []byte, visit func(path []byte)) {
	w := walker{scanner: scanner{b: compact}, visit: visit}
	w.walk(m)
}

// walker walks a value and its schema in parallel.
type walker struct {
	scanner
	path  []byte
	visit func(path []byte)
}

func (w *walker) walk(m *FieldNames) {
	switch c := w.b[w.i]; {
	case c == '{' && m.properties != nil:
		w.members(m)
	case c == '[' && m.items != nil:
		w.elements(m)
	default:
		w.pass()
	}
}

func (w *walker) members(m *FieldNames) {
	around := len(w.path)
	for w.i++; w.b[w.i] != '}'; w.comma() {
		name := w.str()
		w.i++ // :
		if around > 0 {
			w.path = append(w.path, '.')
		}
		w.path = append(w.path, name...)
		if below, ok := m.properties[string(name)]; ok {
			w.walk(below)
		} else {
			w.visit(w.path)
			w.pass()
		}
		w.path = w.path[:around]
	}
	w.i++ // }
}

func (w *walker) elements(m *FieldNames) {
	around := len(w.path)
	w.path = append(w.path, "[]"...)
	for w.i++; w.b[w.i] != ']'; w.comma() {
		w.walk(m.items)
	}
	w.i++ // ]
	w.path = w.path[:around]
}

func (w *walker) comma() {
	if w.b[w.i] == ',' {
		w.i++
	}
}
