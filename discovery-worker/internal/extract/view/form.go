package view

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Web forms. Their view has lines with a label and a value.
var (
	queryForm = regexp.MustCompile(`^\s*\??[\w.%\[\]-]{1,60}=[^&=\s]*(?:&[\w.%\[\]-]{1,60}=[^&=\s]*)+\s*$`)
)

// IsForm reports whether a text is an encoded web form.
func IsForm(text string) bool { return len(text) < 64<<10 && queryForm.MatchString(text) }

// addForm adds a form (application/x-www-form-urlencoded).
func (b *builder) addForm(text string) {
	value := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '&':
			b.add("\n", i)
			value = false
		case c == '=' && !value:
			b.add(": ", i)
			value = true
		case c == '+':
			b.add(" ", i)
		case c == '%' && i+2 < len(text):
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				b.add(text[i:i+1], i)
				continue
			}
			b.add(string([]byte{byte(n)}), i)
			i += 2
		default:
			b.add(text[i:i+1], i)
		}
	}
}

// ValidQuery reports whether a form decodes to valid text.
func ValidQuery(text string) bool {
	s, err := url.QueryUnescape(strings.TrimSpace(text))
	return err == nil && Valid(s) == s && !strings.ContainsAny(s, "\x00\n\r")
}
