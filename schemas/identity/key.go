package identity

import (
	"errors"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// Bounds of names, in bytes of UTF-8.
const (
	// MaxUsername is the maximum length of a username or slug. The longest known limit is 100 characters,
	// with up to four bytes each in non-Latin slugs.
	MaxUsername = 400
	// MaxEmail and maxEmailLocal are the limits of RFC 5321, 4.5.3.1, in bytes.
	MaxEmail      = 254
	maxEmailLocal = 64
)

// botSuffix is the suffix of the usernames of apps.
const botSuffix = "[bot]"

// NormalizeUsername returns the normalized form of a username or slug: without surrounding white space and a
// leading "@", percent-decoded, in lower case and composed (Unicode NFC). It is idempotent.
//
// It returns "" for invalid usernames: empty, longer than [MaxUsername] bytes, invalid UTF-8, with white
// space, control characters, or characters that separate parts of a URL or of a key. Brackets are allowed
// only in the suffix "[bot]" of a bot's account.
func NormalizeUsername(s string) string {
	if isPlainKey(s) {
		return s
	}
	name, ok := cleanUsername(s)
	if !ok {
		return ""
	}
	// Lower-casing can undo composition, and composition can enable another lower-case rule, so both are
	// applied until nothing changes.
	for range 4 {
		next := norm.NFC.String(strings.ToLower(name))
		if next == name {
			break
		}
		name = next
	}
	if len(name) > MaxUsername || !validUsername(name) {
		return ""
	}
	return name
}

// isPlainKey reports whether s is its own key: the usual username of lower-case ASCII letters, digits and
// hyphens.
func isPlainKey(s string) bool {
	if s == "" || len(s) > MaxUsername {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// cleanUsername normalizes the spelling of a username, except for case.
func cleanUsername(s string) (string, bool) {
	if len(s) > 3*MaxUsername+16 {
		return "", false
	}
	name := strings.TrimSpace(s)
	// Escapes may be escaped again. Each round shortens the text, so this terminates.
	for {
		decoded := PercentDecode(name)
		if decoded == name {
			break
		}
		name = decoded
	}
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	if len(name) > MaxUsername || !validUsername(name) {
		return "", false
	}
	return name, true
}

// PercentDecode decodes every valid percent-escape and keeps the rest.
func PercentDecode(s string) string {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i >= 0 {
		b.WriteString(s[:i])
		s = s[i:]
		if len(s) >= 3 && isHex(s[1]) && isHex(s[2]) {
			b.WriteByte(unhex(s[1])<<4 | unhex(s[2]))
			s = s[3:]
		} else {
			b.WriteByte('%')
			s = s[1:]
		}
		i = strings.IndexByte(s, '%')
	}
	b.WriteString(s)
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// validUsername accepts all letters, marks, digits and symbols of Unicode, since slugs of the professional
// network have any script and emoji. It rejects characters with a meaning in URLs, keys or addresses.
func validUsername(s string) bool {
	if n := len(s) - len(botSuffix); n > 0 && strings.EqualFold(s[n:], botSuffix) {
		s = s[:n]
	}
	if s == "" || s == "." || s == ".." || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		switch {
		case strings.ContainsRune("/\\?#%&=:;,@|\"<>{}[]^`", r):
			return false
		case r == '\u200c' || r == '\u200d': // joiners, in Indic and Persian names and in emoji
		case r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsGraphic(r):
			return false
		}
	}
	return true
}

// Errors of [NormalizeEmail].
var (
	errEmailEmpty = errors.New("is empty")
	errEmailLong  = errors.New("is longer than 254 bytes, or 64 before the @")
	errEmailForm  = errors.New("is not an e-mail address of the form name@domain")
)

// NormalizeEmail returns the normalized form of an e-mail address: without surrounding white space, "mailto:" and a
// display name, in lower case and composed (Unicode NFC). It is idempotent. The two forms of an international
// domain give different addresses: see [EmailForms]. It returns an error, without the address in its text, if
// the address is not an addr-spec of RFC 5322 within the lengths of RFC 5321. The suffix "[bot]" of a local
// part is allowed.
func NormalizeEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", errEmailEmpty
	}
	at := strings.LastIndexByte(s, '@')
	if isPlainEmail(s, at) && len(s) <= MaxEmail && at <= maxEmailLocal {
		return s, nil
	}
	s = bareEmail(s)
	if len(s) > MaxEmail || strings.LastIndexByte(s, '@') > maxEmailLocal {
		return "", errEmailLong
	}
	if !utf8.ValidString(s) {
		return "", errEmailForm
	}
	key := s
	for range 4 {
		next := norm.NFC.String(strings.ToLower(key))
		if next == key {
			break
		}
		key = next
	}
	if len(key) > MaxEmail || strings.LastIndexByte(key, '@') > maxEmailLocal {
		return "", errEmailLong
	}
	if strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }) {
		return "", errEmailForm
	}
	plain := withoutBot(key)
	addr, err := mail.ParseAddress(plain)
	if err != nil || addr.Name != "" || addr.Address != plain {
		return "", errEmailForm
	}
	return key, nil
}

// withoutBot returns an address without the suffix "[bot]" of its local part. RFC 5322 does not allow brackets there,
// but code hosts write "7+name[bot]@users.noreply.<host>" into the commits of their apps.
func withoutBot(address string) string {
	at := strings.LastIndexByte(address, '@')
	if name, ok := strings.CutSuffix(address[:max(at, 0)], botSuffix); ok {
		return name + address[at:]
	}
	return address
}

// bareEmail extracts an address from "Ada <ada@mail.example>" and "mailto:ada@mail.example?subject=x". Text
// with two addresses is returned unchanged.
func bareEmail(s string) string {
	if inner, ok := strings.CutSuffix(s, ">"); ok {
		if i := strings.LastIndexByte(inner, '<'); i >= 0 && !strings.Contains(inner[:i], "@") {
			s = strings.TrimSpace(inner[i+1:])
		}
	}
	const scheme = "mailto:"
	if len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
		s, _, _ = strings.Cut(s[len(scheme):], "?")
		s = strings.TrimSpace(PercentDecode(s))
	}
	return s
}

// EmailForms returns the other forms of an address (in the form of [NormalizeEmail]) with an international domain, such
// as "ada@xn--bcher-kva.example" for "ada@bücher.example" and vice versa; nil for most. Both reach the same mailbox,
// and records have either.
func EmailForms(key string) []string {
	at := strings.LastIndexByte(key, '@')
	domain := key[at+1:]
	if at < 0 || !strings.Contains(domain, "xn--") && !strings.ContainsFunc(domain,
		func(r rune) bool { return r >= utf8.RuneSelf }) {
		return nil
	}
	var forms []string
	for _, convert := range []func(string) (string, error){idna.Lookup.ToASCII, idna.Lookup.ToUnicode} {
		other, err := convert(domain)
		if err != nil {
			continue
		}
		if form, err := NormalizeEmail(key[:at+1] + other); err == nil && form != key {
			forms = append(forms, form)
		}
	}
	return forms
}

// isPlainEmail recognizes the usual address in lower-case ASCII without the cost of the full grammar:
// dot-separated atoms, an @, dot-separated labels.
func isPlainEmail(s string, at int) bool {
	if at <= 0 || at == len(s)-1 {
		return false
	}
	dot := true // at the start, or after a dot or @: another dot is not allowed
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_':
			dot = false
		case c == '+' && i < at:
			dot = false
		case c == '.' || i == at:
			if dot {
				return false
			}
			dot = true
		default:
			return false
		}
	}
	return !dot
}
