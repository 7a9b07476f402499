package record

import (
	"bytes"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// content is the result of one pass over a record's bytes.
type content struct {
	hash    uint64
	compact []byte // the record without insignificant white space
	spaces  bool   // white space was removed
	absent  bool   // some array elements or objects count as absent
	// rewritten is the record to decode instead, with integers and dates in canonical form; nil if they
	// already are.
	rewritten []byte
}

// Tags and constants of the content hash. They never change: hashes are stored (Record.Hash).
const (
	tagString = 0x9e3779b97f4a7c15
	tagNumber = 0xc2b2ae3d27d4eb4f
	tagArray  = 0x165667b19e3779f9
	tagObject = 0x27d4eb2f165667c5
	hashNull  = 0x85ebca77c2b2ae63
	hashTrue  = 0xd6e8feb86659fd93
	hashFalse = 0xa0761d6478bd642f
)

// mix combines two words: it multiplies them, after making them non-zero, and folds the halves of the
// product.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^tagString, b^tagNumber)
	return hi ^ lo
}

// scan hashes a record, checks its depth, rejects NULs and removes white space. raw must be one valid JSON
// object.
//
// The hash of an array depends on its order. The hash of an object is derived from the sum of its fields'
// hashes, so it does not. Top-level fields for which hashed returns false are excluded.
func scan(raw []byte, hashed func(name []byte) bool) (content, *ValidationError) {
	s := scanner{b: raw, hashed: hashed}
	s.space()
	begin := s.i
	hash := s.value(1)
	end := s.i
	switch {
	case s.deep:
		return content{}, s.locate(CodeTooDeep, reasonTooDeep)
	case s.nul:
		return content{}, s.locate(CodeNULByte, "contains an escaped NUL")
	}
	return content{hash: hash, compact: raw[begin:end:end], spaces: s.spaces, absent: s.absent}, nil
}

// likelySpaced reports whether a record seems to contain white space, by its first two fields. It saves most
// such records a second decoding.
func likelySpaced(raw []byte) bool {
	i := bytes.IndexByte(raw, ':')
	if i < 1 || i+1 >= len(raw) {
		return false
	}
	if raw[i-1] <= ' ' || raw[i+1] <= ' ' {
		return true
	}
	j := i + 1 + bytes.IndexByte(raw[i+1:], ',')
	return j > i && j+1 < len(raw) && raw[j+1] <= ' '
}

// scanner walks valid JSON.
type scanner struct {
	b      []byte
	i      int
	hashed func(name []byte) bool
	spaces bool   // white space was found inside
	nul    bool   // an escaped NUL was found
	deep   bool   // MaxDepth was exceeded; the rest was not scanned
	empty  bool   // the last value was null or empty
	absent bool   // an array element or an object was null or empty
	buf    []byte // scratch space for unescaping
}

// space skips white space and reports whether there was any.
func (s *scanner) space() bool {
	begin := s.i
	for s.i < len(s.b) && s.b[s.i] <= ' ' {
		s.i++
	}
	return s.i > begin
}

// inner skips white space inside the record.
func (s *scanner) inner() {
	if s.b[s.i] <= ' ' && s.space() {
		s.spaces = true
	}
}

// value hashes the value at the current position and moves past it. depth is the depth of the value if it is
// an array or object.
func (s *scanner) value(depth int) uint64 {
	switch s.b[s.i] {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		text := s.str()
		s.empty = len(text) == 0
		return xxhash.Sum64(text) ^ tagString
	case 'n':
		s.i += len("null")
		s.empty = true
		return hashNull
	}
	s.empty = false
	switch s.b[s.i] {
	case 't':
		s.i += len("true")
		return hashTrue
	case 'f':
		s.i += len("false")
		return hashFalse
	}
	begin := s.i
	for s.i < len(s.b) && isNumberByte(s.b[s.i]) {
		s.i++
	}
	return xxhash.Sum64(s.b[begin:s.i]) ^ tagNumber
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func (s *scanner) object(depth int) uint64 {
	if depth > MaxDepth {
		s.deep = true
		s.i = len(s.b)
		return 0
	}
	s.i++ // {
	var sum, count uint64
	empty := true
	s.inner()
	for s.b[s.i] != '}' {
		name := s.str()
		skip := depth == 1 && !s.hashed(name)
		nameHash := xxhash.Sum64(name)
		s.inner()
		s.i++ // :
		s.inner()
		h := s.value(depth + 1)
		if s.deep {
			return 0
		}
		empty = empty && s.empty
		if !skip {
			sum += mix(nameHash, h)
			count++
		}
		s.inner()
		if s.b[s.i] == ',' {
			s.i++
			s.inner()
		}
	}
	s.i++ // }
	s.empty = empty
	s.absent = s.absent || empty
	return mix(sum, count^tagObject)
}

func (s *scanner) array(depth int) uint64 {
	if depth > MaxDepth {
		s.deep = true
		s.i = len(s.b)
		return 0
	}
	s.i++ // [
	h := uint64(tagArray)
	empty := true
	s.inner()
	for s.b[s.i] != ']' {
		h = mix(bits.RotateLeft64(h, 23), s.value(depth+1))
		if s.deep {
			return 0
		}
		empty = empty && s.empty
		s.absent = s.absent || s.empty
		s.inner()
		if s.b[s.i] == ',' {
			s.i++
			s.inner()
		}
	}
	s.i++ // ]
	s.empty = empty
	return h
}

// str returns the unescaped string at the current position and moves past it. The bytes are valid until the
// next call.
func (s *scanner) str() []byte {
	begin := s.i + 1
	end := begin + bytes.IndexByte(s.b[begin:], '"')
	if bytes.IndexByte(s.b[begin:end], '\\') < 0 {
		s.i = end + 1
		return s.b[begin:end]
	}
	i := begin
	for s.b[i] != '"' {
		if s.b[i] == '\\' {
			i++
		}
		i++
	}
	s.i = i + 1
	text, err := jsontext.AppendUnquote(s.buf[:0], s.b[begin-1:s.i])
	s.buf = text
	if err != nil || bytes.IndexByte(text, 0) >= 0 {
		s.nul = true
	}
	return text
}

// locate returns the location of an error that the scanner found. It is slow and called for rejected records
// only.
func (s *scanner) locate(code, reason string) *ValidationError {
	bad := &ValidationError{Code: code, Reason: reason}
	decoder := jsontext.NewDecoder(bytes.NewReader(s.b))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return bad
		}
		found := decoder.StackDepth() > MaxDepth
		if code == CodeNULByte {
			found = token.Kind() == '"' && bytes.IndexByte([]byte(token.String()), 0) >= 0
		}
		if found {
			bad.Path = pathOf(decoder.StackPointer())
			return bad
		}
	}
}

// member is a field of an object, as slices of the object's bytes.
type member struct {
	name  []byte // unescaped, valid until the next step
	whole []byte // name and value, without a comma
	value []byte
}

// eachMember calls visit for the fields of a compact, valid JSON object.
func eachMember(object []byte, visit func(member)) {
	s := scanner{b: object, i: 1}
	for s.b[s.i] != '}' {
		begin := s.i
		name := s.str()
		s.i++ // :
		value := s.i
		s.pass()
		visit(member{name: name, whole: object[begin:s.i], value: object[value:s.i:s.i]})
		if s.b[s.i] == ',' {
			s.i++
		}
	}
}

// eachElement calls visit for the elements of a compact, valid JSON array.
func eachElement(list []byte, visit func(value []byte)) {
	s := scanner{b: list, i: 1}
	for s.b[s.i] != ']' {
		begin := s.i
		s.pass()
		visit(list[begin:s.i:s.i])
		if s.b[s.i] == ',' {
			s.i++
		}
	}
}

// pass skips a value without hashing it.
func (s *scanner) pass() {
	depth := 0
	for {
		switch s.b[s.i] {
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		case '"':
			s.passString()
		default:
			s.i++
			for depth == 0 && s.i < len(s.b) && s.b[s.i] != ',' && s.b[s.i] != '}' && s.b[s.i] != ']' {
				s.i++
			}
		}
		if depth == 0 {
			return
		}
	}
}

func (s *scanner) passString() {
	s.i++
	for {
		s.i += bytes.IndexByte(s.b[s.i:], '"') + 1
		// A quote is escaped by an odd number of backslashes before it.
		i := s.i - 2
		for s.b[i] == '\\' {
			i--
		}
		if (s.i-2-i)%2 == 0 {
			return
		}
	}
}

// replaceMember returns the object with a string as the value of a field. object must be compact and valid;
// text must not need escaping.
func replaceMember(object []byte, name, text string) []byte {
	out := []byte{'{'}
	eachMember(object, func(m member) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		whole := m.whole
		if string(m.name) == name {
			whole = []byte(`"` + name + `":"` + text + `"`)
		}
		out = append(out, whole...)
	})
	return append(out, '}')
}

// filterMembers returns the object with only the fields for which keep returns true. object must be compact
// and valid.
func filterMembers(object []byte, keep func(member) bool) []byte {
	out := []byte{'{'}
	eachMember(object, func(m member) {
		if !keep(m) {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, m.whole...)
	})
	return append(out, '}')
}
