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

// shape assembles JSON objects from Parquet's flat rows, by the repetition and definition levels of
// their values (record assembly as in the Dremel paper).
type shape struct {
	root   *field
	leaves int
	err    error // the first error in the schema
	// columns has the values of the current row, and row receives its text.
	columns *columnReader
	row     *rowText
}

// field is a node of the file's schema.
type field struct {
	name     string
	label    []byte // name as an encoded JSON name with colon
	children []*field
	optional bool
	repeated bool
	def, rep int // maximum levels of the field
	first    int // its leaf columns are first to last-1
	last     int
	write    func(out []byte, v parquet.Value) []byte // only for leaves
	isString bool                                     // a leaf is annotated as a string
	isJSON   bool                                     // a leaf is annotated as JSON
	// isList and isMap are set for groups annotated as LIST and MAP: they stand for the elements of
	// their one repeated child.
	isList, isMap bool
	element       *field // for a list whose repeated child wraps its element
}

var errNoColumns = errors.New("file has no columns")

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
			s.err = fmt.Errorf("damaged: decimal column %q has scale %d; allowed are 0 to %d", c.Name(), scale,
				maxScale)
		}
		f.write = writerOf(c.Type())
		switch annotation(c).(type) {
		case *format.StringType, *format.EnumType:
			f.isString = true
		case *format.JsonType:
			f.isJSON = true
		}
		return f
	}
	for _, child := range c.Columns() {
		if field := s.field(child); field.first < field.last { // otherwise a group without columns
			f.children = append(f.children, field)
		}
	}
	f.last = s.leaves
	if len(f.children) == 1 && f.children[0].repeated {
		inner := f.children[0]
		switch annotation(c).(type) {
		case *format.ListType:
			f.isList = true
		case *format.MapType:
			f.isMap = len(inner.children) == 2 && inner.children[0].write != nil && !inner.children[0].repeated
			f.isList = !f.isMap
		}
		// The repeated group of a list wraps its element, unless it has several fields or a name
		// used by old writers: then it is the element itself.
		if f.isList && len(inner.children) == 1 && inner.name != "array" && !strings.HasSuffix(inner.name, "_tuple") {
			f.element = inner.children[0]
		}
	}
	return f
}

// maxScale is the number of digits of a 256-bit decimal, the widest in use. maxDecimal is the
// maximum number of bytes read as a number. Numbers are written with all digits, so a file must not
// request a billion of them.
const (
	maxScale   = 76
	maxDecimal = 64
)

// scaleOf returns the number of decimal places of a column's values.
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

// append appends the object of the current row.
func (s *shape) append(t *rowText) {
	s.row = t
	s.object(s.root)
}

// peek returns the next value of a field's first leaf.
func (s *shape) peek(f *field) (parquet.Value, bool) { return s.columns.peek(f.first) }

// skip skips one value of every leaf of an absent field.
func (s *shape) skip(f *field) {
	for i := f.first; i < f.last; i++ {
		s.columns.skip(i)
	}
}

// present reports whether the field has a value, and skips it otherwise.
func (s *shape) present(f *field) bool {
	v, ok := s.peek(f)
	if ok && v.DefinitionLevel() >= f.def {
		return true
	}
	s.skip(f)
	return false
}

// absent reports whether a field has no value, and then skips it.
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
		s.fieldValue(child)
	}
	s.row.byte('}')
}

// fieldValue appends a field's value, which is present.
func (s *shape) fieldValue(f *field) {
	if f.repeated {
		s.elements(f, nil)
		return
	}
	s.value(f)
}

// valueOrNull appends a field's value, or null.
func (s *shape) valueOrNull(f *field) {
	if s.absent(f) {
		s.row.out = append(s.row.out, "null"...)
		return
	}
	s.fieldValue(f)
}

// value appends one value of a field, which is present.
func (s *shape) value(f *field) {
	switch {
	case f.write != nil:
		v, _ := s.peek(f)
		s.leaf(f, v)
		s.columns.skip(f.first)
	case f.isList:
		s.elements(f.children[0], f)
	case f.isMap:
		s.mapping(f.children[0])
	default:
		s.object(f)
	}
}

// longValue is how many bytes of a value are appended at a time.
const longValue = 48 << 10

func (s *shape) leaf(f *field, v parquet.Value) {
	if !isBytes(v) || len(v.ByteArray()) <= longValue {
		s.row.out = f.write(s.row.out, v)
		s.row.spill()
		return
	}
	switch b := v.ByteArray(); {
	case f.isJSON && jsontext.Value(b).IsValid():
		s.row.raw(b)
	case f.isString || f.isJSON || utf8.Valid(b):
		s.row.string(b)
	default:
		s.row.base64(b)
	}
}

// element appends one element of an annotated list.
func (s *shape) element(list *field) {
	if list.element == nil {
		s.value(list.children[0])
		return
	}
	s.valueOrNull(list.element)
}

// elements appends an array: of the repeated field f, or of its wrapped elements for an annotated list.
func (s *shape) elements(f, annotated *field) {
	s.row.byte('[')
	if s.present(f) {
		for first := true; first || s.hasNext(f); first = false {
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

// hasNext reports whether another element of the array follows.
func (s *shape) hasNext(f *field) bool {
	v, ok := s.peek(f)
	return ok && v.RepetitionLevel() == f.rep
}

// mapping appends a map as an object. Keys that are not strings are written as strings.
func (s *shape) mapping(pair *field) {
	s.row.byte('{')
	if s.present(pair) {
		key, value := pair.children[0], pair.children[1]
		for first := true; first || s.hasNext(pair); first = false {
			if !first {
				s.row.byte(',')
			}
			s.key(key)
			s.row.byte(':')
			s.valueOrNull(value)
			s.row.spill()
		}
	}
	s.row.byte('}')
}

// key appends a key, which is a leaf.
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
	s.columns.skip(f.first)
}
