package lexicon

import (
	_ "embed" // word lists of headings
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

//go:embed data/headings.txt
var headingsText string

// Limits of a heading.
const (
	maxHeading      = 80 // bytes
	maxHeadingWords = 6
)

// Kinds of headings, in addition to those of labels (experience, education, skills, languages).
const (
	headingDocument = "document" // the kind of document: "Curriculum Vitae"
	HeadingList     = "list"     // of other people or things: interests, awards
	HeadingWorks    = "works"    // of the person: projects, publications
	headingOther    = "other"
)

// headingPriority orders the kinds if the words of a heading have several: "Language skills".
var headingPriority = []string{ //nolint:gochecknoglobals // a constant list
	"languages", headingDocument, headingOther, "education", "experience", "skills", HeadingWorks, HeadingList,
}

// headings are the words of section headings, by language.
type headings struct {
	languages   []map[string]string // word to class
	languagesOf map[string][]int    // word to languages
	whole       map[string]string   // letters of a phrase to kind
}

func newHeadings() (*headings, error) {
	h := &headings{languagesOf: map[string][]int{}, whole: map[string]string{}}
	language := ""
	for line := range Lines(headingsText) {
		head, list, ok := strings.Cut(line, ":")
		fields := strings.Fields(head)
		if !ok || len(fields) < 2 {
			return nil, fmt.Errorf("headings: %q: missing language or class", head)
		}
		class := fields[len(fields)-1]
		for word := range strings.SplitSeq(list, ",") {
			word = strings.ToLower(strings.TrimSpace(word))
			if len(fields) == 3 {
				h.whole[Letters(word)] = class
				continue
			}
			if language != fields[0] {
				language = fields[0]
				h.languages = append(h.languages, map[string]string{})
			}
			words := h.languages[len(h.languages)-1]
			for _, form := range []string{fold(word), fold(UmlautReplacer.Replace(word))} {
				if words[form] == "" {
					words[form] = class
					h.languagesOf[form] = append(h.languagesOf[form], len(h.languages)-1)
				}
			}
		}
	}
	return h, nil
}

// Letters returns the letters and digits of a phrase, in lower case and without accents.
func Letters(s string) string {
	return fold(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s))
}

// UmlautReplacer spells umlauts with an e.
var UmlautReplacer = strings.NewReplacer( //nolint:gochecknoglobals // a constant table
	"ä", "ae", "ö", "oe", "ü", "ue", "å", "aa", "ø", "oe",
)

// strokeReplacer replaces letters that have no Unicode decomposition.
var strokeReplacer = strings.NewReplacer( //nolint:gochecknoglobals // a constant table
	"ø", "o", "ł", "l", "ß", "ss", "æ", "ae", "œ", "oe", "đ", "d", "ı", "i", "ς", "σ",
)

// fold returns a lower-case word without accents.
func fold(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return s
	}
	var b strings.Builder
	for _, r := range norm.NFD.String(strokeReplacer.Replace(s)) {
		if !unicode.Is(unicode.Mn, r) || unicode.In(r, unicode.Hebrew, unicode.Arabic) || r == '\u3099' ||
			r == '\u309a' {
			b.WriteRune(r)
		}
	}
	return norm.NFC.String(b.String())
}

// headingNumber matches the number of a heading: "1.", "2.3", "IV.", "b)".
var headingNumber = regexp.MustCompile(`^(?:\d{1,2}(?:\.\d{1,2})*[.):]?|[IVX]{1,5}[.)]|[a-zA-Z][.)])\s+`)

// kind returns the kind of section that a line heads, or "".
func (h *headings) kind(line string) string {
	if line == "" || len(line) > maxHeading {
		return ""
	}
	line = headingNumber.ReplaceAllString(strings.TrimFunc(line, isDecoration), "")
	words := strings.FieldsFunc(strings.ToLower(joinSpacedLetters(line)), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
	})
	if len(words) == 0 || len(words) > maxHeadingWords {
		return ""
	}
	for i := range words {
		words[i] = fold(words[i])
	}
	joined := Letters(line)
	if kind := h.whole[joined]; kind != "" {
		return kind
	}
	for _, part := range []string{"・", "·", "/", "／", "、", "と", "&"} {
		if a, b, ok := strings.Cut(line, part); ok && h.whole[Letters(a)] != "" && h.whole[Letters(b)] != "" {
			return h.whole[Letters(b)]
		}
	}
	if strings.ContainsFunc(line, unicode.IsDigit) {
		return ""
	}
	for _, i := range h.languagesOf[words[0]] {
		if kind := kindOfWords(h.languages[i], words); kind != "" {
			return kind
		}
	}
	// "PERSONALINFORMATION", from a text that lost its spaces.
	if len(words) == 1 && len(joined) >= 10 && line == strings.ToUpper(line) {
		for _, language := range h.languages {
			if kind := kindOfWords(language, segments(language, joined, 3)); kind != "" {
				return kind
			}
		}
	}
	return ""
}

// kindOfWords returns the kind of a heading with these words in a language, or "".
func kindOfWords(language map[string]string, words []string) string {
	found := map[string]bool{}
	for _, w := range words {
		class := language[w]
		if class == "" {
			return ""
		}
		found[class] = true
	}
	for _, kind := range headingPriority {
		if found[kind] {
			return kind
		}
	}
	if found["weak"] && (found["modifier"] || len(words) > 1) {
		return headingOther
	}
	return ""
}

// segments splits letters into at most n known words of at least three letters.
func segments(language map[string]string, text string, n int) []string {
	if text == "" || n == 0 || len(text) > maxHeading {
		return nil
	}
	for end := len(text) - 3; end >= 3; end-- {
		if language[text[:end]] == "" {
			continue
		}
		if language[text[end:]] != "" {
			return []string{text[:end], text[end:]}
		}
		if rest := segments(language, text[end:], n-1); rest != nil {
			return append([]string{text[:end]}, rest...)
		}
	}
	return nil
}

// isDecoration reports whether a rune only decorates a heading.
func isDecoration(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && r != '.' && r != ')'
}

var wideGap = regexp.MustCompile(`\s{2,}`)

// joinSpacedLetters joins the letters of spaced words: "P R O F I L E".
func joinSpacedLetters(line string) string {
	single := strings.Fields(line)
	if len(single) < 4 {
		return line
	}
	for _, l := range single {
		if runes := []rune(l); len(runes) != 1 || !unicode.IsLetter(runes[0]) {
			return line
		}
	}
	var words []string
	for _, word := range wideGap.Split(line, -1) {
		words = append(words, strings.Join(strings.Fields(word), ""))
	}
	return strings.Join(words, " ")
}
