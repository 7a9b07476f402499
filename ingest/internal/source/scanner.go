package source

// scanner finds the end of one JSON value whose bytes arrive in pieces. It checks the structure:
// brackets, commas, colons and quotes. The syntax of strings and scalars is left to the decoder.
type scanner struct {
	stack   []byte // closing brackets of the open ones
	state   scanState
	isName  bool // the current string is a field name
	last    byte // the previous byte
	isField bool // the expected value is that of a field
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
	// scanMore means that the value continues after the given bytes.
	scanMore scanStatus = iota
	// scanDone means that the value ends where scanning stopped.
	scanDone
	// scanBad means that the byte where scanning stopped is invalid.
	scanBad
)

// maxScanDepth is the maximum nesting of a multi-line value. It bounds the work for input of only
// open brackets, where each line may start such a value.
const maxScanDepth = 128

// scan reads p, which continues the previous input, and returns how many bytes of p belong to the value.
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
		if s.isField && s.state == wantValue && last == '\n' && (c == '{' || c == '[') {
			// No program breaks a line here: the previous line was truncated, and a new record starts.
			return i, scanBad
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

// structure processes a byte outside strings and scalars and reports whether it is valid there.
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
		s.state, s.isField = wantValue, true
		return c == ':'
	}
	switch c {
	case ',':
		if s.state, s.isField = wantValue, false; s.closing() == '}' {
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

// closing returns the bracket that closes the innermost open one.
func (s *scanner) closing() byte { return s.stack[len(s.stack)-1] }

func (s *scanner) pop() { s.stack = s.stack[:len(s.stack)-1] }

// ended records the end of a value and reports whether it is the outermost one.
func (s *scanner) ended() bool {
	s.state = wantComma
	return len(s.stack) == 0
}

// isScalar reports whether a byte can be part of a number or a literal.
func isScalar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '+' || c == '.'
}
