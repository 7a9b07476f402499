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

// columns turn a row's cells into a JSON object.
//
// A column's name is the path of its field: "location.city" is the member city of
// the object location, "skills.0.skill" the member skill of the first element of
// the list skills; "\." is a dot within a name. The kind's JSON Schema says what a
// cell is:
//
//   - integer, number: the number in the cell;
//   - boolean: true or false, in any letter case;
//   - list of strings: a JSON list, or strings with ";" between them;
//   - other lists, objects: JSON;
//   - everything else, and every field that the kind does not know: a string.
//
// An empty cell is no field. What is not of its column's type stays a string, so
// that the record is rejected with the field's path.
type columns struct {
	root  *column
	width int
}

// column is a field: an object or list of further columns, or a cell.
type column struct {
	name     string
	children []*column
	list     bool // the children are elements
	cell     int
	is       cellType
}

type cellType byte

const (
	cellString cellType = iota
	cellNumber
	cellBoolean
	cellStrings
	cellJSON
)

// schema is the part of JSON Schema that says of what type a field is.
type schema struct {
	Type       jsontext.Value     `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
}

func (s *schema) is(name string) bool {
	return s != nil && bytes.Contains(s.Type, []byte(`"`+name+`"`))
}

// cellType is the type of a cell that the schema describes.
func (s *schema) cellType() cellType {
	switch {
	case s.is("integer"), s.is("number"):
		return cellNumber
	case s.is("boolean"):
		return cellBoolean
	case s.is("array") && s.Items.is("string"):
		return cellStrings
	case s.is("array"), s.is("object"):
		return cellJSON
	}
	return cellString
}

// maxColumns bounds a header.
const maxColumns = 4096

// newColumns reads a header.
func newColumns(header [][]byte, kind record.Kind) (*columns, error) {
	if len(header) > maxColumns {
		return nil, fmt.Errorf("there are more than %d columns", maxColumns)
	}
	top := &schema{}
	if d, ok := record.Lookup(kind); ok {
		if err := json.Unmarshal(d.Schema, top); err != nil {
			return nil, fmt.Errorf("read the JSON Schema of %s: %w", kind, err)
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
	if err := c.root.settle(); err != nil {
		return nil, err
	}
	return c, nil
}

// columnPath splits a column's name at its dots.
func columnPath(name string) ([]string, error) {
	if !utf8.ValidString(name) {
		return nil, errors.New("its name is not UTF-8")
	}
	const dot = "\x00"
	path := strings.Split(strings.ReplaceAll(name, `\.`, dot), ".")
	if len(path) > record.MaxDepth {
		return nil, fmt.Errorf("its name has more than %d parts", record.MaxDepth)
	}
	for i, part := range path {
		if part == "" {
			return nil, fmt.Errorf("its name %q is empty, or a part of it", name)
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
		return fmt.Errorf("another column gives %q already", name)
	case len(rest) == 0:
		child.cell, child.is = cell, s.cellType()
		return nil
	}
	return child.add(rest, cell, s)
}

// settle finds the lists: their elements are named 0, 1, 2 and so on.
func (c *column) settle() error {
	numbers := 0
	for _, f := range c.children {
		if _, err := strconv.ParseUint(f.name, 10, 16); err == nil {
			numbers++
		}
		if err := f.settle(); err != nil {
			return err
		}
	}
	switch {
	case numbers == 0 || c.name == "":
		return nil
	case numbers < len(c.children):
		return fmt.Errorf("the columns under %q are partly numbers and partly names", c.name)
	}
	c.list = true
	slices.SortFunc(c.children, func(a, b *column) int {
		n, _ := strconv.Atoi(a.name) // settled above
		m, _ := strconv.Atoi(b.name)
		return n - m
	})
	return nil
}

// object writes the object of a row.
func (c *columns) object(fields [][]byte) []byte {
	size := 2
	for _, f := range fields {
		size += len(f) + 16
	}
	out, said := c.root.append(make([]byte, 0, size), fields)
	if !said {
		return append(out, "{}"...)
	}
	return out
}

// append writes the field's value, unless it has none.
func (c *column) append(out []byte, fields [][]byte) ([]byte, bool) {
	if c.cell >= 0 {
		if len(fields[c.cell]) == 0 {
			return out, false
		}
		return c.is.append(out, fields[c.cell]), true
	}
	open, end := byte('{'), byte('}')
	if c.list {
		open, end = '[', ']'
	}
	said := false
	for _, f := range c.children {
		before := len(out)
		if said {
			out = append(out, ',')
		} else {
			out = append(out, open)
		}
		if !c.list {
			out = append(appendString(out, []byte(f.name)), ':')
		}
		var has bool
		if out, has = f.append(out, fields); has {
			said = true
		} else {
			out = out[:before]
		}
	}
	if said {
		out = append(out, end)
	}
	return out, said
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

// appendString writes a JSON string. Bytes that are not UTF-8 stay as they are:
// the record is rejected for them, with its path.
func appendString(out, text []byte) []byte {
	return append(appendEscaped(append(out, '"'), text), '"')
}

// appendEscaped writes a part of a JSON string.
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
