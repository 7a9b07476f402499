package analysis

// ascii is Analyze for ASCII text, the most common case: it implements the rules of UAX#29 for letters,
// digits, underscores and the punctuation between them. s must be in lower case. It returns false and dst
// unchanged for text that is not ASCII or has a token to split; a fuzz test compares it with general.
func ascii(dst []Token, s string) ([]Token, bool) {
	position := 0
	n := len(dst)
	for i := 0; i < len(s); {
		if s[i] >= 0x80 {
			return dst[:n], false
		}
		if classes[s[i]] == 0 {
			i++
			continue
		}
		start, isToken := i, false
		for i < len(s) {
			if s[i] >= 0x80 {
				return dst[:n], false
			}
			if c := classes[s[i]]; c != 0 {
				isToken = isToken || c != joiner
				i++
				continue
			}
			if i+1 >= len(s) || s[i+1] >= 0x80 || !connects(s[i], classes[s[i-1]], classes[s[i+1]]) {
				break
			}
			i++ // the mark; a letter or digit follows
		}
		if i-start > MaxToken {
			return dst[:n], false
		}
		if isToken {
			dst = append(dst, Token{Text: s[start:i], Position: position})
			position++
		}
	}
	return dst, true
}

// class is the word-boundary class of an ASCII character; 0 for all that are not part of a word by
// themselves.
type class uint8

const (
	letter class = iota + 1
	digit
	joiner // ExtendNumLet: a low line
)

// connects reports whether a punctuation mark between two characters joins them into one word (rules WB6,
// WB7, WB11 and WB12).
func connects(mark byte, before, after class) bool {
	if before != after {
		return false
	}
	switch mark {
	case '.', '\'':
		return before == letter || before == digit
	case ':':
		return before == letter
	case ',', ';':
		return before == digit
	}
	return false
}

//nolint:gochecknoglobals // a table, never written
var classes = [128]class{
	'_': joiner,
	'0': digit, '1': digit, '2': digit, '3': digit, '4': digit, '5': digit, '6': digit, '7': digit, '8': digit,
	'9': digit,
	'a': letter, 'b': letter, 'c': letter, 'd': letter, 'e': letter, 'f': letter, 'g': letter, 'h': letter, 'i': letter,
	'j': letter, 'k': letter, 'l': letter, 'm': letter, 'n': letter, 'o': letter, 'p': letter, 'q': letter, 'r': letter,
	's': letter, 't': letter, 'u': letter, 'v': letter, 'w': letter, 'x': letter, 'y': letter, 'z': letter,
}
