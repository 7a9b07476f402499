package v1

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/suggest"
	"muster/query-api/internal/readstore"
	"muster/schemas/identity"
)

const (
	// maxFields is the maximum number of fields of a call.
	maxFields = 100
	// maxFieldPath is the maximum length of the path of a field, in bytes.
	maxFieldPath = 200
)

// fieldTree is the names that the OpenAPI document describes for an object, or for the objects of a list.
type fieldTree struct {
	members map[string]*fieldTree
	open    bool // a value of any shape
}

// recordFields is the field names of the records, by the parameter or webset that they belong to.
type recordFields struct{ person, company, network, codehost *fieldTree }

// newRecordFields reads the field names of the records from the OpenAPI document.
func newRecordFields(description []byte) (recordFields, error) {
	var document struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(description, &document); err != nil {
		return recordFields{}, fmt.Errorf("read field names: %w", err)
	}
	var out recordFields
	for name, to := range map[string]**fieldTree{
		"EnrichedPerson": &out.person, "Company": &out.company,
		"NetworkPerson": &out.network, "CodehostPerson": &out.codehost,
	} {
		s := document.Components.Schemas[name]
		if s == nil {
			return recordFields{}, fmt.Errorf("read field names: no schema %s", name)
		}
		*to = s.fields(document.Components.Schemas)
	}
	return out, nil
}

// schema is the parts of a JSON schema that name fields.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
	// SearchResult marks a property that only results of search have.
	SearchResult bool `json:"x-search-result"`
}

func (s *schema) fields(all map[string]*schema) *fieldTree {
	switch {
	case s.Ref != "":
		return all[strings.TrimPrefix(s.Ref, "#/components/schemas/")].fields(all)
	case s.Items != nil:
		return s.Items.fields(all)
	case s.Properties == nil:
		return &fieldTree{open: s.Type == nil || s.Type == "object" || s.Type == "array"}
	}
	out := &fieldTree{members: make(map[string]*fieldTree, len(s.Properties))}
	for name, property := range s.Properties {
		if !property.SearchResult {
			out.members[name] = property.fields(all)
		}
	}
	return out
}

// fieldSet selects members of an object, by name. A nil set selects the whole value.
type fieldSet map[string]fieldSet

// parseFields parses the parameter fields. It returns nil if the parameter is not given.
func (f *fieldTree) parseFields(paths []string) (fieldSet, error) {
	switch {
	case paths == nil:
		return nil, nil //nolint:nilnil // the whole record
	case len(paths) == 0:
		return nil, invalidf("fields is empty: name at least one field, or omit it")
	case len(paths) > maxFields:
		return nil, invalidf("fields has %d elements: give at most %d", len(paths), maxFields)
	}
	set := make(fieldSet)
	for i, path := range paths {
		if len(path) > maxFieldPath {
			return nil, invalidf("fields[%d] is longer than %d bytes", i, maxFieldPath)
		}
		if err := f.check(path); err != nil {
			return nil, invalidf("fields[%d] is %s: %s", i, quote(path), err.detail)
		}
		set.add(strings.Split(path, "."))
	}
	return set, nil
}

// check returns an error unless the OpenAPI document describes the path. So a misspelled name is not taken for one of
// the additional fields of a record.
func (f *fieldTree) check(path string) *invalid {
	parent := ""
	for name := range strings.SplitSeq(path, ".") {
		switch {
		case name == "":
			return invalidf("a path is the names of fields, joined by dots")
		case f.open:
			continue
		case f.members == nil:
			return invalidf("%s has no members", parent)
		case f.members[name] == nil:
			names := slices.Sorted(maps.Keys(f.members))
			return invalidf("there is no field %s: %s", quote(name),
				suggest.Hint(name, names, "Known are "+strings.Join(names, ", ")))
		}
		f, parent = f.members[name], name
	}
	return nil
}

// add adds a path. A path of an object includes all paths in it.
func (s fieldSet) add(path []string) {
	inner, ok := s[path[0]]
	switch {
	case ok && inner == nil: // the whole value is selected
	case len(path) == 1:
		s[path[0]] = nil
	default:
		if !ok {
			inner = make(fieldSet)
			s[path[0]] = inner
		}
		inner.add(path[1:])
	}
}

// apply returns the selected members of an object.
func (s fieldSet) apply(object []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	var out bytes.Buffer
	out.Grow(len(object) / 2)
	e := jsontext.NewEncoder(&out)
	if err := s.copyObject(d, e); err != nil {
		return nil, fmt.Errorf("select fields: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}

func (s fieldSet) copyObject(d *jsontext.Decoder, e *jsontext.Encoder) error {
	if err := copyToken(d, e); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		inner, selected := s[name]
		if kind := d.PeekKind(); !selected || inner != nil && kind != '{' && kind != '[' {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := e.WriteToken(jsontext.String(name)); err != nil {
			return err
		}
		if err := inner.copyValue(d, e); err != nil {
			return err
		}
	}
	return copyToken(d, e)
}

// copyValue copies a value, or the selected members of an object or of the objects of a list.
func (s fieldSet) copyValue(d *jsontext.Decoder, e *jsontext.Encoder) error {
	switch {
	case s == nil:
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		return e.WriteValue(value)
	case d.PeekKind() == '{':
		return s.copyObject(d, e)
	}
	if err := copyToken(d, e); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		copyElement := s.copyValue
		if kind := d.PeekKind(); kind != '{' && kind != '[' {
			copyElement = func(d *jsontext.Decoder, _ *jsontext.Encoder) error { return d.SkipValue() }
		}
		if err := copyElement(d, e); err != nil {
			return err
		}
	}
	return copyToken(d, e)
}

func copyToken(d *jsontext.Decoder, e *jsontext.Encoder) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	return e.WriteToken(token)
}

// shape reduces a record to the selected fields. The members of a person, one per webset, stay.
func (s fieldSet) shape(r *readstore.Record) error {
	if s == nil || !r.Found() {
		return nil
	}
	body, err := s.apply(r.Body)
	if err != nil {
		return err
	}
	r.Body = body
	return nil
}

// personFields parses the fields of a person. Each webset that matches is a member of the person, also without fields.
func (f *fieldTree) personFields(paths []string) (fieldSet, error) {
	set, err := f.parseFields(paths)
	if set == nil || err != nil {
		return nil, err
	}
	for _, webset := range []string{identity.Codehost, identity.Network} {
		if _, ok := set[webset]; !ok {
			set[webset] = make(fieldSet)
		}
	}
	return set, nil
}

// checkWebsets returns an error if the fields of a person are of a webset that the query does not request: the record
// could not have them.
func (s fieldSet) checkWebsets(q readstore.PersonQuery) error {
	for _, webset := range []struct {
		name      string
		requested bool
	}{{identity.Codehost, q.Codehost}, {identity.Network, q.Network}} {
		members, ok := s[webset.name]
		named := ok && (members == nil || len(members) > 0)
		if named && !webset.requested {
			return invalidf("fields names %s, which is not requested: add %s to websets", webset.name, webset.name)
		}
	}
	return nil
}
