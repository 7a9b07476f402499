package post

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxExcerptBytes limits the excerpt of a response.
	maxExcerptBytes = 512
	// minPartLength is the minimum length in bytes of a word that counts as an echo if it is part
	// of a sent word. minEchoLength is that of a whole sent word.
	minPartLength = 4
	minEchoLength = 2
)

// redactor matches what may be personal or secret from any source: e-mail addresses, long digit
// sequences and tokens.
type redactor struct{ mail, token, digits *regexp.Regexp }

func newRedactor() redactor {
	return redactor{
		mail:   regexp.MustCompile(`[^\s"'<>,;:()\[\]{}]+(?:@|%40)[^\s"'<>,;:()\[\]{}]+`),
		token:  regexp.MustCompile(`[A-Za-z0-9+/_=-]{24,}`),
		digits: regexp.MustCompile(`\d[\d .()/-]{5,}\d`),
	}
}

// Redact returns the beginning of a response body as one line of at most 512 bytes. It removes
// e-mail addresses, numbers, tokens, and every word of the request's body or query: receivers echo
// what they receive, in various encodings.
func Redact(answer, body []byte, query string) string {
	if len(answer) == 0 {
		return ""
	}
	const beginning = 4 * maxExcerptBytes
	cut := len(answer) > beginning
	text := unescape(strings.ToValidUTF8(string(answer[:min(len(answer), beginning)]), ""))
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || !unicode.IsPrint(r)
	}), " ")
	r := newRedactor()
	text = r.mail.ReplaceAllString(text, "[e-mail]")
	text = r.token.ReplaceAllString(text, "[token]")
	text = r.digits.ReplaceAllString(text, "[number]")
	text = redactEchoedContent(text, sentStrings(body, query))
	if len(text) > maxExcerptBytes {
		return strings.ToValidUTF8(text[:maxExcerptBytes-len("…")], "") + "…"
	}
	if cut {
		return text + "…"
	}
	return text
}

// unescape decodes JSON, HTML and percent escapes.
func unescape(text string) string {
	text = regexp.MustCompile(`(?:\\u[0-9A-Fa-f]{4})+`).ReplaceAllStringFunc(text, func(escapes string) string {
		b, _ := jsontext.AppendUnquote(nil, `"`+escapes+`"`) // a lone surrogate becomes U+FFFD
		return string(b)
	})
	text = html.UnescapeString(text)
	return regexp.MustCompile(`(?:%[0-9A-Fa-f]{2})+`).ReplaceAllStringFunc(text, func(escapes string) string {
		s, err := url.PathUnescape(escapes)
		if err != nil {
			return ""
		}
		return strings.ToValidUTF8(s, "")
	})
}

// sentContent is the lower-case content of a request that a response may echo.
type sentContent struct {
	text  strings.Builder
	words map[string]bool
}

func sentStrings(body []byte, query string) *sentContent {
	s := &sentContent{words: make(map[string]bool)}
	s.text.WriteString(strings.ToLower(string(body)))
	add := func(text string) {
		text = strings.ToLower(text)
		s.text.WriteString("\n" + text)
		for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) }) {
			s.words[w] = true
		}
	}
	if query != "" {
		add(unescape(query))
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		t, err := d.ReadToken()
		// The end, or the body is not valid JSON.
		if err != nil {
			return s
		}
		// Object names are not personal data. An echoed name is still found in the whole text.
		if kind, n := d.StackIndex(d.StackDepth()); t.Kind() == '0' || t.Kind() == '"' && (kind != '{' || n%2 == 0) {
			add(t.String())
		}
	}
}

// contains reports whether a word was sent.
func (s *sentContent) contains(w string) bool {
	w = strings.ToLower(w)
	return len(w) >= minEchoLength && s.words[w] || len(w) >= minPartLength && strings.Contains(s.text.String(), w)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// redactEchoedContent replaces the words of text that were sent.
func redactEchoedContent(text string, all *sentContent) string {
	var out strings.Builder
	for text != "" {
		begin := strings.IndexFunc(text, isWord)
		if begin < 0 {
			out.WriteString(text)
			break
		}
		out.WriteString(text[:begin])
		text = text[begin:]
		end := strings.IndexFunc(text, func(r rune) bool { return !isWord(r) })
		if end < 0 {
			end = len(text)
		}
		w := text[:end]
		if all.contains(w) {
			w = "[…]"
		}
		out.WriteString(w)
		text = text[end:]
	}
	return out.String()
}
