package post

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
)

const (
	// excerptLimit bounds what is kept of an answer, in bytes.
	excerptLimit = 512
	// echoLength is the shortest word that is taken for an echo of the body.
	echoLength = 4
)

// redactor finds what may be personal or secret whoever wrote it: e-mail
// addresses, long runs of digits, and what looks like a token.
type redactor struct{ mail, token, digits *regexp.Regexp }

func newRedactor() redactor {
	return redactor{
		mail:   regexp.MustCompile(`[^\s"'<>,;:()\[\]{}]+(?:@|%40)[^\s"'<>,;:()\[\]{}]+`),
		token:  regexp.MustCompile(`[A-Za-z0-9+/_=-]{24,}`),
		digits: regexp.MustCompile(`\d[\d .()/-]{5,}\d`),
	}
}

// Redact returns the beginning of an answer as one line of at most 512 bytes,
// without e-mail addresses, numbers, tokens and any word that the body has too:
// receivers echo what they were sent.
func Redact(answer, body []byte) string {
	if len(answer) == 0 {
		return ""
	}
	const beginning = 4 * excerptLimit
	cut := len(answer) > beginning
	text := strings.ToValidUTF8(string(answer[:min(len(answer), beginning)]), "")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsPrint(r)
	}), " ")
	r := newRedactor()
	text = r.mail.ReplaceAllString(text, "[e-mail]")
	text = r.token.ReplaceAllString(text, "[token]")
	text = r.digits.ReplaceAllString(text, "[number]")
	text = removeEchoes(text, body)
	if len(text) > excerptLimit {
		return strings.ToValidUTF8(text[:excerptLimit-len("…")], "") + "…"
	}
	if cut {
		return text + "…"
	}
	return text
}

// removeEchoes replaces the words that the body has.
func removeEchoes(text string, body []byte) string {
	lower := bytes.ToLower(body)
	var out strings.Builder
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for text != "" {
		begin := strings.IndexFunc(text, word)
		if begin < 0 {
			out.WriteString(text)
			break
		}
		out.WriteString(text[:begin])
		text = text[begin:]
		end := strings.IndexFunc(text, func(r rune) bool { return !word(r) })
		if end < 0 {
			end = len(text)
		}
		w := text[:end]
		if len(w) >= echoLength && bytes.Contains(lower, bytes.ToLower([]byte(w))) {
			w = "[…]"
		}
		out.WriteString(w)
		text = text[end:]
	}
	return out.String()
}
