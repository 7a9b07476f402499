package readmodel

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mailRemoved replaces an e-mail address.
const mailRemoved = "[e-mail removed]"

// Other spellings of the at sign that e-mail removal knows.
const (
	fullwidthAt = "\uff20"
	smallAt     = "\ufe6b"
	escapedAt   = "%40"
)

// ownAddresses are the addresses of the record being written, collected and sorted on first use.
type ownAddresses struct {
	lists  [][]string
	ready  bool
	sorted []string // lower case, longest first
}

// set sets the record's addresses; the lists are not copied.
func (o *ownAddresses) set(lists ...[]string) {
	o.ready = false
	clear(o.lists)
	o.lists = append(o.lists[:0], lists...)
}

func (o *ownAddresses) all() []string {
	if o.ready {
		return o.sorted
	}
	o.ready, o.sorted = true, o.sorted[:0]
	for _, list := range o.lists {
		for _, address := range list {
			if interiorAt(address) {
				o.sorted = append(o.sorted, lowerASCII(address))
			}
		}
	}
	slices.SortFunc(o.sorted, func(a, b string) int { return len(b) - len(a) })
	return o.sorted
}

// interiorAt reports whether an "@" is between two other characters.
func interiorAt(s string) bool {
	return len(s) > 2 && strings.IndexByte(s[1:len(s)-1], '@') >= 0
}

// removeMail replaces text that looks like an e-mail address, and then the record's own addresses, in s.
func (w *writer) removeMail(s string) (clean string, changed bool) {
	clean, changed = removeShaped(s)
	if strings.IndexByte(clean, '@') < 0 {
		return clean, changed
	}
	for _, address := range w.own.all() {
		next := replaceFold(clean, address)
		if len(next) != len(clean) || next != clean {
			clean, changed = next, true
		}
	}
	return clean, changed
}

// removeShaped replaces e-mail-shaped substrings (schemas/MAPPING.md,
// "E-mail removal", 1).
func removeShaped(s string) (string, bool) {
	var out strings.Builder
	copied, floor := 0, 0 // Bytes written; earliest begin of a local part.
	for i := 0; i < len(s); {
		width := atSign(s[i:])
		if width == 0 {
			i++
			continue
		}
		begin := localBegin(s, floor, i)
		end := domainEnd(s, i+width)
		if begin == i || end < 0 {
			i += width
			floor = i
			continue
		}
		out.WriteString(s[copied:begin])
		out.WriteString(mailRemoved)
		i, copied, floor = end, end, end
	}
	if copied == 0 {
		return s, false
	}
	out.WriteString(s[copied:])
	return out.String(), true
}

// WithoutMail returns a text of which substrings that look like e-mail addresses are replaced (schemas/MAPPING.md,
// "E-mail removal", 1).
func WithoutMail(s string) string {
	clean, _ := removeShaped(s)
	return clean
}

// atSign returns the width of the at sign at the start of s, 0 if there is none.
func atSign(s string) int {
	switch s[0] {
	case '@':
		return 1
	case '%':
		if strings.HasPrefix(s, escapedAt) {
			return len(escapedAt)
		}
	case 0xef:
		if strings.HasPrefix(s, fullwidthAt) || strings.HasPrefix(s, smallAt) {
			return len(fullwidthAt)
		}
	}
	return 0
}

// localBegin returns the start of the local part before the at sign at end.
func localBegin(s string, floor, end int) int {
	for end > floor {
		r, width := utf8.DecodeLastRuneInString(s[floor:end])
		if !isLocalRune(r) {
			break
		}
		end -= width
	}
	return end
}

// domainEnd returns the end of the domain that starts at begin, or -1 without one.
func domainEnd(s string, begin int) int {
	end, last := begin, begin
	for end < len(s) {
		r, width := utf8.DecodeRuneInString(s[end:])
		if r != '-' && r != '.' && !isWordRune(r) {
			break
		}
		end += width
		if r != '-' && r != '.' {
			last = end
		}
	}
	if last == begin || s[begin] == '.' || strings.IndexByte(s[begin:last], '.') < 0 {
		return -1
	}
	return last
}

func isLocalRune(r rune) bool {
	if r < utf8.RuneSelf {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return true
		}
		return strings.ContainsRune(".!#$%&'*+-=?^_`{|}~", r)
	}
	return isWordRune(r)
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// replaceFold replaces every occurrence of lower (in lower case) in s, ignoring the case of ASCII letters.
func replaceFold(s, lower string) string {
	folded := lowerASCII(s)
	if !strings.Contains(folded, lower) {
		return s
	}
	var out strings.Builder
	for {
		i := strings.Index(folded, lower)
		if i < 0 {
			break
		}
		out.WriteString(s[:i])
		out.WriteString(mailRemoved)
		s, folded = s[i+len(lower):], folded[i+len(lower):]
	}
	out.WriteString(s)
	return out.String()
}

// lowerASCII lowers ASCII letters only, so that the length does not change.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// isMailName reports whether a field of an unknown value is dropped because of its name (schemas/MAPPING.md,
// "E-mail removal").
func isMailName(name string) bool {
	for i := 0; i+len("mail") <= len(name); i++ {
		if name[i]|0x20 == 'm' && strings.EqualFold(name[i:i+len("mail")], "mail") {
			return true
		}
	}
	_, shaped := removeShaped(name)
	return shaped
}
