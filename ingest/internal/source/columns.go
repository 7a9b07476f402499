package source

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/record"
)

// columns convert a row's cells to a JSON object.
//
// A column's name is the path of its field: "location.city" is the field city of the object
// location, "skills.0.skill" the field skill of the first element of the array skills; "\." is a
// dot within a name. The kind's JSON Schema determines the type of a cell:
//
//   - integer, number: the number in the cell;
//   - boolean: true or false, in any letter case;
//   - array of strings: a JSON array, or strings separated by ";";
//   - other arrays, objects: JSON;
//   - everything else, and every field that is not in the schema: a string.
//
// An empty cell has no field. A value that is not of its column's type stays a string, so that the
// record is rejected with the field's path.
type columns struct {
	root  *column
	width int
}

// column is a field: an object or array of further columns, or a cell.
type column struct {
	name     string
	children []*column
	array    bool // the children are elements
	cell     int
	cellType cellType
}

type cellType byte

const (
	cellString cellType = iota
	cellNumber
	cellBoolean
	cellStrings
	cellJSON
)

// schema is the part of JSON Schema that determines the type of a field.
type schema struct {
	Type       jsontext.Value     `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
}

func (s *schema) hasType(name string) bool {
	return s != nil && bytes.Contains(s.Type, []byte(`"`+name+`"`))
}

// cellType returns the type of the cells that the schema describes.
func (s *schema) cellType() cellType {
	switch {
	case s.hasType("integer"), s.hasType("number"):
		return cellNumber
	case s.hasType("boolean"):
		return cellBoolean
	case s.hasType("array") && s.Items.hasType("string"):
		return cellStrings
	case s.hasType("array"), s.hasType("object"):
		return cellJSON
	}
	return cellString
}

// maxColumns is the maximum number of columns in a header.
const maxColumns = 4096

// newColumns parses a header.
func newColumns(header [][]byte, kind record.Kind) (*columns, error) {
	if len(header) > maxColumns {
		return nil, fmt.Errorf("more than %d columns", maxColumns)
	}
	top := &schema{}
	if d, ok := record.Lookup(kind); ok {
		if err := json.Unmarshal(d.Schema, top); err != nil {
			return nil, fmt.Errorf("parse JSON Schema of %s: %w", kind, err)
		}
	}
	c := &columns{root: &column{cell: -1}, width: len(header)}
	for i, name := range header {
		path, err := columnPath(string(bytes.TrimSpace(name)))
		if err == nil {
			err = c.root.add(path, i, top)
		}
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	if err := c.root.findArrays(); err != nil {
		return nil, err
	}
	return c, nil
}

// columnPath splits a column's name at its dots.
func columnPath(name string) ([]string, error) {
	if !utf8.ValidString(name) {
		return nil, errors.New("name is not UTF-8")
	}
	const dot = "\x00"
	path := strings.Split(strings.ReplaceAll(name, `\.`, dot), ".")
	if len(path) > record.MaxDepth {
		return nil, fmt.Errorf("name has more than %d parts", record.MaxDepth)
	}
	for i, part := range path {
		if part == "" {
			return nil, fmt.Errorf("name %q has an empty part", name)
		}
		path[i] = strings.ReplaceAll(part, dot, ".")
	}
	return path, nil
}

func (c *column) add(path []string, cell int, s *schema) error {
	name, rest := path[0], path[1:]
	i := slices.IndexFunc(c.children, func(f *column) bool { return f.name == name })
	if i < 0 {
		c.children = append(c.children, &column{name: name, cell: -1})
		i = len(c.children) - 1
	}
	child := c.children[i]
	if s != nil {
		if s.Items != nil {
			s = s.Items
		} else {
			s = s.Properties[name]
		}
	}
	switch {
	case child.cell >= 0, len(rest) == 0 && len(child.children) > 0:
		return fmt.Errorf("duplicate column %q", name)
	case len(rest) == 0:
		child.cell, child.cellType = cell, s.cellType()
		return nil
	}
	return child.add(rest, cell, s)
}

// findArrays marks the columns that are arrays: their elements are named 0, 1, 2 and so on.
func (c *column) findArrays() error {
	numbers := 0
	for _, f := range c.children {
		if _, err := strconv.ParseUint(f.name, 10, 16); err == nil {
			numbers++
		}
		if err := f.findArrays(); err != nil {
			return err
		}
	}
	switch {
	case numbers == 0 || c.name == "":
		return nil
	case numbers < len(c.children):
		return fmt.Errorf("columns under %q mix numbers and names", c.name)
	}
	c.array = true
	slices.SortFunc(c.children, func(a, b *column) int {
		n, _ := strconv.Atoi(a.name) // parsed above
		m, _ := strconv.Atoi(b.name)
		return n - m
	})
	return nil
}

// object returns the JSON object of a row.
func (c *columns) object(fields [][]byte) []byte {
	size := 2
	for _, f := range fields {
		size += len(f) + 16
	}
	out, hasValue := c.root.append(make([]byte, 0, size), fields)
	if !hasValue {
		return append(out, "{}"...)
	}
	return out
}

// append appends the field's value, and reports whether it has one.
func (c *column) append(out []byte, fields [][]byte) ([]byte, bool) {
	if c.cell >= 0 {
		if len(fields[c.cell]) == 0 {
			return out, false
		}
		return c.cellType.append(out, fields[c.cell]), true
	}
	open, end := byte('{'), byte('}')
	if c.array {
		open, end = '[', ']'
	}
	hasValue := false
	for _, f := range c.children {
		before := len(out)
		if hasValue {
			out = append(out, ',')
		} else {
			out = append(out, open)
		}
		if !c.array {
			out = append(appendString(out, []byte(f.name)), ':')
		}
		var has bool
		if out, has = f.append(out, fields); has {
			hasValue = true
		} else {
			out = out[:before]
		}
	}
	if hasValue {
		out = append(out, end)
	}
	return out, hasValue
}

func (t cellType) append(out, cell []byte) []byte {
	text := bytes.TrimSpace(cell)
	switch t {
	case cellNumber:
		if v := jsontext.Value(text); v.Kind() == '0' && v.IsValid() {
			return append(out, text...)
		}
	case cellBoolean:
		for _, word := range []string{"true", "false"} {
			if strings.EqualFold(string(text), word) {
				return append(out, word...)
			}
		}
	case cellStrings:
		if len(text) > 0 && text[0] == '[' {
			return cellJSON.append(out, cell)
		}
		out = append(out, '[')
		first := true
		for part := range bytes.SplitSeq(cell, []byte(";")) {
			if part = bytes.TrimSpace(part); len(part) == 0 {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = appendString(out, part)
		}
		return append(out, ']')
	case cellJSON:
		if v := jsontext.Value(text); v.IsValid() {
			return append(out, text...)
		}
	}
	return appendString(out, cell)
}

// appendString appends a JSON string. Invalid UTF-8 is copied: the record is then rejected with the
// path of the field.
func appendString(out, text []byte) []byte {
	return append(appendEscaped(append(out, '"'), text), '"')
}

// appendEscaped appends a part of a JSON string.
func appendEscaped(out, text []byte) []byte {
	const hex = "0123456789abcdef"
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b < ' ':
			out = append(out, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			out = append(out, b)
		}
	}
	return out
}
