package source

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// shape assembles JSON objects of Parquet's flat rows, by the repetition and
// definition levels of their values (the Dremel paper's record assembly).
type shape struct {
	root   *field
	leaves int
	err    error // the first that is wrong with the schema
	// columns are where the values are taken from, and row is what they are written
	// to, both of the row at hand.
	columns *columnReader
	row     *rowText
}

// field is a node of the file's schema.
type field struct {
	name     string
	label    []byte // its name as a member of an object
	children []*field
	optional bool
	repeated bool
	def, rep int // maximum levels of the field
	first    int // its first leaf column, and the one behind its last
	last     int
	write    func(out []byte, v parquet.Value) []byte // of a leaf
	text     bool                                     // a leaf is annotated as text
	json     bool                                     // or as JSON
	// list and pairs are set for the annotated groups LIST and MAP: they stand for
	// the elements of their one repeated child.
	list, pairs bool
	element     *field // of a list whose repeated child wraps its element
}

var errNoColumns = errors.New("the file has no columns")

func newShape(root *parquet.Column) (*shape, error) {
	s := &shape{}
	s.root = s.field(root)
	if s.err != nil {
		return nil, s.err
	}
	if s.leaves == 0 {
		return nil, errNoColumns
	}
	return s, nil
}

func (s *shape) field(c *parquet.Column) *field {
	f := &field{
		name: c.Name(), optional: c.Optional(), repeated: c.Repeated(),
		def: c.MaxDefinitionLevel(), rep: c.MaxRepetitionLevel(), first: s.leaves,
	}
	f.label = append(appendString(nil, []byte(f.name)), ':')
	if c.Leaf() {
		s.leaves++
		f.last = s.leaves
		if scale := scaleOf(c.Type()); (scale < 0 || scale > maxScale) && s.err == nil {
			s.err = fmt.Errorf("damaged: column %q is a decimal with %d digits behind its point; there may be 0 to %d", c.Name(), scale, maxScale)
		}
		f.write = writerOf(c.Type())
		switch annotation(c).(type) {
		case *format.StringType, *format.EnumType:
			f.text = true
		case *format.JsonType:
			f.json = true
		}
		return f
	}
	for _, child := range c.Columns() {
		if field := s.field(child); field.first < field.last { // else a group of no columns
			f.children = append(f.children, field)
		}
	}
	f.last = s.leaves
	if len(f.children) == 1 && f.children[0].repeated {
		inner := f.children[0]
		switch annotation(c).(type) {
		case *format.ListType:
			f.list = true
		case *format.MapType:
			f.pairs = len(inner.children) == 2 && inner.children[0].write != nil && !inner.children[0].repeated
			f.list = !f.pairs
		}
		// The repeated group of a list wraps its element, unless it has several
		// fields, or a name of old writers: then it is the element itself.
		if f.list && len(inner.children) == 1 && inner.name != "array" && !strings.HasSuffix(inner.name, "_tuple") {
			f.element = inner.children[0]
		}
	}
	return f
}

// maxScale is as many digits as a decimal of 256 bits has, the widest there is in
// files, and maxDecimal how many bytes are read as a number. A number is written with
// all its digits, so that a file may not ask for a thousand million of them.
const (
	maxScale   = 76
	maxDecimal = 64
)

// scaleOf is how many digits of a column's values stand behind the point.
func scaleOf(t parquet.Type) int {
	if l := t.LogicalType(); l != nil {
		if d, ok := l.Value.(*format.DecimalType); ok {
			return int(d.Scale)
		}
	}
	return 0
}

func annotation(c *parquet.Column) format.LogicalTypeValue {
	if c.Type() == nil {
		return nil
	}
	if l := c.Type().LogicalType(); l != nil {
		return l.Value
	}
	return nil
}

// append writes the object of the row that the columns stand at.
func (s *shape) append(t *rowText) {
	s.row = t
	s.object(s.root)
}

// peek returns the next value of a field's first leaf.
func (s *shape) peek(f *field) (parquet.Value, bool) { return s.columns.peek(f.first) }

// pass uses up one value of every leaf of a field that is not there.
func (s *shape) pass(f *field) {
	for i := f.first; i < f.last; i++ {
		s.columns.use(i)
	}
}

// present tells whether the field is there, and otherwise passes over it.
func (s *shape) present(f *field) bool {
	v, ok := s.peek(f)
	if ok && v.DefinitionLevel() >= f.def {
		return true
	}
	s.pass(f)
	return false
}

// absent tells whether a member has no value, and then passes over it.
func (s *shape) absent(f *field) bool { return !f.repeated && f.optional && !s.present(f) }

func (s *shape) object(f *field) {
	s.row.byte('{')
	first := true
	for _, child := range f.children {
		if s.absent(child) {
			continue
		}
		if !first {
			s.row.byte(',')
		}
		first = false
		s.row.out = append(s.row.out, child.label...)
		s.member(child)
	}
	s.row.byte('}')
}

// member writes a field's value, which is there.
func (s *shape) member(f *field) {
	if f.repeated {
		s.elements(f, nil)
		return
	}
	s.value(f)
}

// orNull writes a field's value, or null.
func (s *shape) orNull(f *field) {
	if s.absent(f) {
		s.row.out = append(s.row.out, "null"...)
		return
	}
	s.member(f)
}

// value writes one value of a field that is there.
func (s *shape) value(f *field) {
	switch {
	case f.write != nil:
		v, _ := s.peek(f)
		s.leaf(f, v)
		s.columns.use(f.first)
	case f.list:
		s.elements(f.children[0], f)
	case f.pairs:
		s.mapping(f.children[0])
	default:
		s.object(f)
	}
}

// longValue is how many bytes of a value are written at once.
const longValue = 48 << 10

func (s *shape) leaf(f *field, v parquet.Value) {
	if !isBytes(v) || len(v.ByteArray()) <= longValue {
		s.row.out = f.write(s.row.out, v)
		s.row.spill()
		return
	}
	switch b := v.ByteArray(); {
	case f.json && jsontext.Value(b).IsValid():
		s.row.raw(b)
	case f.text || f.json || utf8.Valid(b):
		s.row.string(b)
	default:
		s.row.base64(b)
	}
}

// element writes one element of an annotated list.
func (s *shape) element(list *field) {
	if list.element == nil {
		s.value(list.children[0])
		return
	}
	s.orNull(list.element)
}

// elements writes a list: of the repeated field f, or of what that wraps for an annotated
// one.
func (s *shape) elements(f, annotated *field) {
	s.row.byte('[')
	if s.present(f) {
		for first := true; first || s.again(f); first = false {
			if !first {
				s.row.byte(',')
			}
			if annotated != nil {
				s.element(annotated)
			} else {
				s.value(f)
			}
			s.row.spill()
		}
	}
	s.row.byte(']')
}

// again tells that another element of a list follows.
func (s *shape) again(f *field) bool {
	v, ok := s.peek(f)
	return ok && v.RepetitionLevel() == f.rep
}

// mapping writes a map as an object. Keys that are no strings are written as
// such.
func (s *shape) mapping(pair *field) {
	s.row.byte('{')
	if s.present(pair) {
		key, value := pair.children[0], pair.children[1]
		for first := true; first || s.again(pair); first = false {
			if !first {
				s.row.byte(',')
			}
			s.key(key)
			s.row.byte(':')
			s.orNull(value)
			s.row.spill()
		}
	}
	s.row.byte('}')
}

// key writes a key, which is a leaf.
func (s *shape) key(f *field) {
	if s.absent(f) {
		s.row.string(nil)
		return
	}
	v, _ := s.peek(f)
	if isBytes(v) && len(v.ByteArray()) > longValue {
		s.row.string(v.ByteArray())
	} else if name := f.write(nil, v); len(name) > 0 && name[0] == '"' {
		s.row.raw(name)
	} else {
		s.row.string(name)
	}
	s.columns.use(f.first)
}
