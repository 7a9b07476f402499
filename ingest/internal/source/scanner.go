package source

// scanner finds the end of one JSON value whose bytes arrive in pieces. It checks what brackets, commas, colons and
// quotes say of the structure. How strings and scalars are spelled is left to the decoder.
type scanner struct {
	stack  []byte // the open brackets
	state  scanState
	isName bool // the string at hand is a member's name
	last   byte // the byte before
	member bool // the value wanted is that of a member
}

type scanState byte

const (
	wantValue scanState = iota
	wantElement
	wantMember
	wantName
	wantColon
	wantComma
	inString
	inEscape
	inScalar
)

type scanStatus byte

const (
	// scanMore says that the value goes on behind the bytes given.
	scanMore scanStatus = iota
	// scanDone says that the value ends where scanning stopped.
	scanDone
	// scanBad says that no value has the byte where scanning stopped.
	scanBad
)

// maxScanDepth bounds the brackets of a value that stands on several lines, and so the work for an input of nothing
// but open brackets, where each line may begin such a value.
const maxScanDepth = 128

// scan reads p, which follows what it was given before, and returns how many bytes of p belong to the value.
func (s *scanner) scan(p []byte) (int, scanStatus) {
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch s.state {
		case inString:
			switch c {
			case '"':
				if s.state = wantColon; !s.isName && s.ended() {
					return i + 1, scanDone
				}
			case '\\':
				s.state = inEscape
			case '\n':
				return i, scanBad
			}
			continue
		case inEscape:
			if c == '\n' {
				return i, scanBad
			}
			s.state = inString
			continue
		case inScalar:
			if isScalar(c) {
				continue
			}
			if s.ended() {
				return i, scanDone
			}
		}
		last := s.last
		s.last = c
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		if s.member && s.state == wantValue && last == '\n' && (c == '{' || c == '[') {
			return i, scanBad // no program breaks a line there: the line before was cut off, and here a record begins
		}
		if !s.structure(c) {
			return i, scanBad
		}
		if (c == '}' || c == ']') && s.ended() {
			return i + 1, scanDone
		}
	}
	return len(p), scanMore
}

// structure takes a byte outside of strings and scalars and reports whether it may stand there.
func (s *scanner) structure(c byte) bool {
	switch s.state {
	case wantElement, wantMember:
		if c == s.closing() {
			s.pop()
			return true
		}
		if s.state == wantMember {
			return s.name(c)
		}
		return s.value(c)
	case wantName:
		return s.name(c)
	case wantValue:
		return s.value(c)
	case wantColon:
		s.state, s.member = wantValue, true
		return c == ':'
	}
	switch c { // wantComma
	case ',':
		if s.state, s.member = wantValue, false; s.closing() == '}' {
			s.state = wantName
		}
		return true
	case s.closing():
		s.pop()
		return true
	}
	return false
}

func (s *scanner) name(c byte) bool {
	s.state, s.isName = inString, true
	return c == '"'
}

func (s *scanner) value(c byte) bool {
	switch {
	case c == '{' && len(s.stack) < maxScanDepth:
		s.stack = append(s.stack, '}')
		s.state = wantMember
	case c == '[' && len(s.stack) < maxScanDepth:
		s.stack = append(s.stack, ']')
		s.state = wantElement
	case c == '"':
		s.state, s.isName = inString, false
	case isScalar(c):
		s.state = inScalar
	default:
		return false
	}
	return true
}

// closing is the bracket that closes the innermost one.
func (s *scanner) closing() byte { return s.stack[len(s.stack)-1] }

func (s *scanner) pop() { s.stack = s.stack[:len(s.stack)-1] }

// ended notes the end of a value and reports whether it is the outermost one.
func (s *scanner) ended() bool {
	s.state = wantComma
	return len(s.stack) == 0
}

// isScalar reports whether a byte may stand in a number or a literal.
func isScalar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '+' || c == '.'
}
