package source

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
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
	// The values of each leaf column of the row at hand, and how many of them
	// have been used.
	values [][]parquet.Value
	used   []int
}

// field is a node of the file's schema.
type field struct {
	name     string
	children []*field
	optional bool
	repeated bool
	def, rep int // maximum levels of the field
	first    int // its first leaf column, and the one behind its last
	last     int
	write    func(out []byte, v parquet.Value) []byte // of a leaf
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
	s.values = make([][]parquet.Value, s.leaves)
	s.used = make([]int, s.leaves)
	return s, nil
}

func (s *shape) field(c *parquet.Column) *field {
	f := &field{
		name: c.Name(), optional: c.Optional(), repeated: c.Repeated(),
		def: c.MaxDefinitionLevel(), rep: c.MaxRepetitionLevel(), first: s.leaves,
	}
	if c.Leaf() {
		s.leaves++
		f.last = s.leaves
		if scale := scaleOf(c.Type()); (scale < 0 || scale > maxScale) && s.err == nil {
			s.err = fmt.Errorf("damaged: column %q is a decimal with %d digits behind its point; there may be 0 to %d", c.Name(), scale, maxScale)
		}
		f.write = writerOf(c.Type())
		return f
	}
	for _, child := range c.Columns() {
		f.children = append(f.children, s.field(child))
	}
	f.last = s.leaves
	if len(f.children) == 1 && f.children[0].repeated {
		inner := f.children[0]
		switch annotation(c).(type) {
		case *format.ListType:
			f.list = true
		case *format.MapType:
			f.pairs = len(inner.children) == 2
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

// append writes the object of a row.
func (s *shape) append(out []byte, row parquet.Row) []byte {
	clear(s.used)
	begin, column := 0, -1
	for i := 0; i <= len(row); i++ {
		if i == len(row) || row[i].Column() != column {
			if column >= 0 {
				s.values[column] = row[begin:i]
			}
			if i < len(row) {
				begin, column = i, row[i].Column()
			}
		}
	}
	return s.object(out, s.root)
}

// peek returns the next value of a field's first leaf.
func (s *shape) peek(f *field) (parquet.Value, bool) {
	values, used := s.values[f.first], s.used[f.first]
	if used >= len(values) {
		return parquet.Value{}, false
	}
	return values[used], true
}

// pass uses up one value of every leaf of a field that is not there.
func (s *shape) pass(f *field) {
	for i := f.first; i < f.last; i++ {
		s.used[i]++
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

func (s *shape) object(out []byte, f *field) []byte {
	out = append(out, '{')
	begin := len(out)
	for _, child := range f.children {
		before := len(out)
		if before > begin {
			out = append(out, ',')
		}
		out = append(appendString(out, []byte(child.name)), ':')
		var said bool
		if out, said = s.member(out, child); !said {
			out = out[:before]
		}
	}
	return append(out, '}')
}

// member writes a field's value if it has one.
func (s *shape) member(out []byte, f *field) ([]byte, bool) {
	switch {
	case f.repeated:
		return s.elements(out, f, func(out []byte) []byte { return s.value(out, f) }), true
	case f.optional && !s.present(f):
		return out, false
	}
	return s.value(out, f), true
}

// value writes one value of a field that is there.
func (s *shape) value(out []byte, f *field) []byte {
	switch {
	case f.write != nil:
		v, _ := s.peek(f)
		s.used[f.first]++
		return f.write(out, v)
	case f.list:
		inner := f.children[0]
		return s.elements(out, inner, func(out []byte) []byte { return s.element(out, f) })
	case f.pairs:
		return s.mapping(out, f.children[0])
	}
	return s.object(out, f)
}

// element writes one element of an annotated list.
func (s *shape) element(out []byte, list *field) []byte {
	if list.element == nil {
		return s.value(out, list.children[0])
	}
	out, said := s.member(out, list.element)
	if !said {
		return append(out, "null"...)
	}
	return out
}

// elements writes a list. f is repeated.
func (s *shape) elements(out []byte, f *field, write func([]byte) []byte) []byte {
	out = append(out, '[')
	if !s.present(f) {
		return append(out, ']')
	}
	for first := true; ; first = false {
		if !first {
			if v, ok := s.peek(f); !ok || v.RepetitionLevel() != f.rep {
				return append(out, ']')
			}
			out = append(out, ',')
		}
		out = write(out)
	}
}

// mapping writes a map as an object. Keys that are no strings are written as
// such.
func (s *shape) mapping(out []byte, pair *field) []byte {
	out = append(out, '{')
	if !s.present(pair) {
		return append(out, '}')
	}
	key, value := pair.children[0], pair.children[1]
	for first := true; ; first = false {
		if !first {
			if v, ok := s.peek(pair); !ok || v.RepetitionLevel() != pair.rep {
				return append(out, '}')
			}
			out = append(out, ',')
		}
		name, _ := s.member(nil, key)
		if len(name) == 0 || name[0] != '"' {
			name = appendString(nil, name)
		}
		out = append(append(out, name...), ':')
		var said bool
		if out, said = s.member(out, value); !said {
			out = append(out, "null"...)
		}
	}
}

// writerOf returns how a leaf's values are written: what a record's field of
// that meaning looks like in JSON.
func writerOf(t parquet.Type) func([]byte, parquet.Value) []byte {
	var annotation format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		annotation = l.Value
	}
	switch a := annotation.(type) {
	case *format.JsonType:
		return func(out []byte, v parquet.Value) []byte {
			if !isBytes(v) {
				return writePhysical(out, v)
			}
			if text := jsontext.Value(v.ByteArray()); text.IsValid() {
				return append(out, text...)
			}
			return appendString(out, v.ByteArray())
		}
	case *format.StringType, *format.EnumType:
		return func(out []byte, v parquet.Value) []byte {
			if !isBytes(v) {
				return writePhysical(out, v)
			}
			return appendString(out, v.ByteArray())
		}
	case *format.UUIDType:
		return writeUUID
	case *format.DateType:
		return func(out []byte, v parquet.Value) []byte {
			return append(time.Unix(int64(v.Int32())*86400, 0).UTC().AppendFormat(append(out, '"'), time.DateOnly), '"')
		}
	case *format.TimestampType:
		unit := int64(time.Millisecond)
		if a.Unit.Value != nil {
			unit = int64(a.Unit.Value.Duration())
		}
		perSecond := int64(time.Second) / unit
		return func(out []byte, v parquet.Value) []byte {
			return appendTime(out, time.Unix(v.Int64()/perSecond, v.Int64()%perSecond*unit))
		}
	case *format.DecimalType:
		return func(out []byte, v parquet.Value) []byte { return appendDecimal(out, v, int(a.Scale)) }
	case *format.IntType:
		if !a.IsSigned {
			return func(out []byte, v parquet.Value) []byte {
				if v.Kind() == parquet.Int32 {
					return strconv.AppendUint(out, uint64(v.Uint32()), 10)
				}
				return strconv.AppendUint(out, v.Uint64(), 10)
			}
		}
	}
	return writePhysical
}

// isBytes says whether a value holds bytes. A damaged file may annotate a number
// as text, and reading its bytes would read any memory.
func isBytes(v parquet.Value) bool {
	return v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray
}

// writePhysical writes a value by its physical type.
func writePhysical(out []byte, v parquet.Value) []byte {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(out, v.Boolean())
	case parquet.Int32:
		return strconv.AppendInt(out, int64(v.Int32()), 10)
	case parquet.Int64:
		return strconv.AppendInt(out, v.Int64(), 10)
	case parquet.Int96: // a timestamp of older writers: nanoseconds of the day, and Julian day
		const epoch = 2440588
		i := v.Int96()
		nanos := int64(i[1])<<32 | int64(i[0])
		return appendTime(out, time.Unix((int64(i[2])-epoch)*86400, nanos))
	case parquet.Float:
		return appendFloat(out, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(out, v.Double(), 64)
	}
	if !isBytes(v) {
		return append(out, "null"...)
	}
	if b := v.ByteArray(); utf8.Valid(b) {
		return appendString(out, b)
	}
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), v.ByteArray()), '"')
}

// appendFloat writes what is no number as a string: JSON has none of them, and
// the field of the record says so.
func appendFloat(out []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(strconv.AppendFloat(append(out, '"'), f, 'g', -1, bits), '"')
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendFloat(out, f, 'f', -1, bits)
	}
	return strconv.AppendFloat(out, f, 'g', -1, bits)
}

func appendTime(out []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(out, '"'), time.RFC3339Nano), '"')
}

func writeUUID(out []byte, v parquet.Value) []byte {
	if !isBytes(v) {
		return writePhysical(out, v)
	}
	text := hex.EncodeToString(v.ByteArray())
	if len(text) != 32 {
		return appendString(out, []byte(text))
	}
	return append(out, `"`+text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:]+`"`...)
}

// appendDecimal writes an unscaled number of any width as a JSON number.
func appendDecimal(out []byte, v parquet.Value, scale int) []byte {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, big-endian
		if !isBytes(v) || len(v.ByteArray()) > maxDecimal {
			return writePhysical(out, v)
		}
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	text := n.String()
	if scale <= 0 {
		return append(out, text...)
	}
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	if len(text) <= scale {
		text = strings.Repeat("0", scale-len(text)+1) + text
	}
	return append(out, sign+text[:len(text)-scale]+"."+text[len(text)-scale:]...)
}
