package phrase

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/lexicon"
)

// Reader parses phrases as names, places, titles and organizations. It is immutable and safe for
// concurrent use.
type Reader struct {
	words *lexicon.Words
	dates *dates.Reader
}

// New returns a Reader with the word lists.
func New(words *lexicon.Words, dates *dates.Reader) *Reader { return &Reader{words, dates} }

// PersonName is a parsed name.
type PersonName struct {
	Full, First, Last string
}

var (
	// Honorific matches titles before a name.
	Honorific = regexp.MustCompile(`^(?i:(?:prof(?:essor)?|dr|mr|mrs|ms|mx|miss|sir|dame|herr|frau|hr|fr|m|mme` +
		`|mlle|monsieur|madame|sr|sra|srta|don|doña|dott|dott\.ssa|ing|dipl\.?-ing|mag|rev|hon|capt|col|lt|sgt|eng` +
		`|i\. ?a|i\. ?v|p\. ?p|ph\. ?d)\.?(?:-|\s)+)`)
	degrees = regexp.MustCompile(`(?:,\s*|\s+)(?:Ph\.?\s?D\.?|M\.?D\.?|M\.?B\.?A\.?|M\.?Sc\.?|B\.?Sc\.?|M\.?A\.?` +
		`|B\.?A\.?|LL\.?M\.?|J\.?D\.?|CPA|CFA|PMP|CISSP|PE|P\.?Eng\.?|RN|Esq\.?|FRS|OBE|MBE|CBE|DDS|DVM)\.?$`)
	// Brackets match a remark after a name.
	Brackets = regexp.MustCompile(`\s*(?:[(\[][^()\[\]]{0,60}[)\]]|（[^（）]{0,60}）)`)
)

// asianSuffix matches the sex or an honorific after a name in forms.
var asianSuffix = regexp.MustCompile(`\s+(?:男性?|女性?|様|さん|印|先生|女士|남성?|여성?|님|씨)$`)

// Particles are lower-case words in names that belong to the family name.
var Particles = lexicon.Set( //nolint:gochecknoglobals // a constant set
	"van\nvon\nder\nden\nde\ndel\ndella\ndi\nda\ndas\ndo\ndos\ndu\nla\nle\nel\nal\nbin\nbint\nibn\nben\nter\nten\n" +
		"te\ny\naf\nav\nzu\nzur\nzum\n't\nop\nst.\nst")

// chineseDouble lists family names of two characters.
const chineseDouble = "欧阳 司马 上官 诸葛 歐陽 司馬 諸葛 夏侯 东方 皇甫 尉迟 公孙 慕容 令狐"

// Name parses a phrase as a person's name. If labeled is true, letter case does not matter and one
// word suffices.
func (e *Reader) Name(s string, labeled bool) (PersonName, bool) {
	s = strings.TrimSpace(Brackets.ReplaceAllString(s, ""))
	for {
		m := Honorific.FindStringIndex(s)
		if m == nil || len(s) > 200 {
			break
		}
		s = s[m[1]:]
	}
	for m := degrees.FindStringIndex(s); m != nil && m[0] > 0; m = degrees.FindStringIndex(s) {
		s = s[:m[0]]
	}
	s = strings.Trim(s, " ,;\"“”")
	if s == "" || len(s) > 120 || strings.ContainsAny(s, "@/\\:|<>{}=_0123456789!?&+#*%$€;") {
		return PersonName{}, false
	}
	if family, given, ok := strings.Cut(s, ","); ok {
		if !labeled && !(len(family) > 2 && family == strings.ToUpper(family) && given != strings.ToUpper(given)) ||
			strings.Contains(given, ",") {
			return PersonName{}, false
		}
		s = strings.TrimSpace(given) + " " + strings.TrimSpace(family)
	}
	s = asianSuffix.ReplaceAllString(s, "")
	if n, ok := EastAsian(s); ok {
		return n, labeled
	}
	if !labeled && strings.ContainsFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
	}) {
		return PersonName{}, false
	}
	tokens := strings.Fields(s)
	if len(tokens) > 6 || len(tokens) < 2 && !labeled || len(tokens) == 0 {
		return PersonName{}, false
	}
	lower := labeled && s == strings.ToLower(s)
	for i, t := range tokens {
		if lower && !Particles[t] || t == strings.ToUpper(t) && utf8.RuneCountInString(t) > 2 &&
			!strings.ContainsAny(t, ".") {
			t = titleCase(t)
			tokens[i] = t
		}
		if l := strings.ToLower(t); s == strings.ToUpper(s) && Particles[l] && len(tokens) > 1 {
			t, tokens[i] = l, l
		}
		if !e.namePart(t, i > 0 && i < len(tokens)-1 || labeled && len(tokens) > 1) {
			return PersonName{}, false
		}
		if !labeled && (e.words.NotNames[strings.ToLower(strings.Trim(t, ".'’"))] || e.words.IsTitle(t) ||
			e.words.Companies[strings.ToLower(strings.Trim(t, "."))]) {
			return PersonName{}, false
		}
	}
	full := strings.Join(tokens, " ")
	l := strings.ToLower(full)
	if !labeled && (e.words.Countries[l] || e.words.Cities[l] || e.words.Languages[l] || e.words.IsSchool(full) ||
		e.words.Heading(full) != "" || e.words.Labels[l] != "") {
		return PersonName{}, false
	}
	// A handle or a common noun.
	if len(tokens) == 1 && lower {
		return PersonName{}, false
	}
	if len(tokens) == 1 {
		return PersonName{Full: full}, true
	}
	family := len(tokens) - 1
	for family > 1 && Particles[strings.ToLower(tokens[family-1])] {
		family--
	}
	if len(tokens) == 3 && family == 2 && spanishFamily(tokens[1]) && !strings.Contains(tokens[1], ".") {
		family = 1
	}
	if len(tokens) == 4 && family == 3 && spanishFamily(tokens[2]) {
		family = 2
	}
	return PersonName{Full: full, First: tokens[0], Last: strings.Join(tokens[family:], " ")}, true
}

// NameParts parses a name whose label names both parts: "Sanz Olivar, Nerea", "STEINMETZ Ronja".
// Without comma and capitals the first word is the first part, unless a particle joins it to the
// next.
func (e *Reader) NameParts(s string, familyFirst bool) (PersonName, bool) {
	a, b, ok := strings.Cut(s, ",")
	if !ok {
		words := strings.Fields(s)
		n := 1
		for n < len(words) && (Particles[strings.ToLower(words[n-1])] || len(words[n]) > 1 &&
			words[0] == strings.ToUpper(words[0]) && words[n] == strings.ToUpper(words[n]) && n+1 < len(words)) {
			n++
		}
		if !familyFirst {
			n = max(1, len(words)-n)
		}
		if len(words) < 2 {
			return e.Name(s, true)
		}
		a, b = strings.Join(words[:n], " "), strings.Join(words[n:], " ")
	}
	if !familyFirst {
		a, b = b, a
	}
	family, ok1 := e.Name(strings.TrimSpace(a), true)
	given, ok2 := e.Name(strings.TrimSpace(b), true)
	if !ok1 || !ok2 {
		return PersonName{}, false
	}
	if _, east := EastAsian(family.Full); east {
		return PersonName{Full: family.Full + " " + given.Full, First: given.Full, Last: family.Full}, true
	}
	return PersonName{Full: given.Full + " " + family.Full, First: given.Full, Last: family.Full}, true
}

// spanishFamily reports whether a word has a Spanish family name ending, where two family names
// follow each other.
func spanishFamily(s string) bool {
	return strings.HasSuffix(s, "ez") && utf8.RuneCountInString(s) > 4 || strings.HasSuffix(s, "ía") && s != "María" ||
		s == "Ruiz" || s == "Ortiz" || s == "Díaz"
}

// namePart reports whether a word can be part of a name.
func (e *Reader) namePart(t string, inside bool) bool {
	if inside && Particles[t] {
		return true
	}
	r, _ := utf8.DecodeRuneInString(t)
	if strings.HasPrefix(t, "O'") || strings.HasPrefix(t, "d'") || strings.HasPrefix(t, "O’") ||
		strings.HasPrefix(t, "D’") {
		r = 'O'
	}
	if !unicode.IsLetter(r) || unicode.IsLower(r) {
		return false
	}
	letters := 0
	for i, c := range t {
		switch {
		case unicode.IsLetter(c) || unicode.IsMark(c):
			letters++
		case c == '-' || c == '\'' || c == '’' || c == '\u200c' || c == '\u200d':
		case c == '.' && i == len(t)-1 && letters <= 2: // an initial
		default:
			return false
		}
	}
	return letters > 0 && letters < 30
}

// titleCase capitalizes a word, also after hyphens and apostrophes.
func titleCase(t string) string {
	up := true
	return strings.Map(func(r rune) rune {
		defer func() { up = !unicode.IsLetter(r) && !unicode.IsMark(r) }()
		if up {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, t)
}

// EastAsian parses names written with the family name first.
func EastAsian(s string) (PersonName, bool) {
	runes := []rune(s)
	if len(runes) < 2 || len(runes) > 12 {
		return PersonName{}, false
	}
	script := ""
	for _, r := range runes {
		switch {
		case unicode.Is(unicode.Hangul, r):
			script = "hangul"
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			script = "kana"
		case unicode.Is(unicode.Han, r):
			if script == "" {
				script = "han"
			}
		case r == ' ' || r == '・' || r == '々':
		default:
			return PersonName{}, false
		}
	}
	if family, given, ok := strings.Cut(s, " "); ok {
		return PersonName{Full: s, First: strings.TrimSpace(given), Last: family}, true
	}
	switch {
	case script == "hangul" && len(runes) <= 4:
		return PersonName{Full: s, First: string(runes[1:]), Last: string(runes[:1])}, true
	case script == "han" && len(runes) <= 4:
		n := 1
		if len(runes) > 2 && strings.Contains(chineseDouble, string(runes[:2])) || len(runes) == 4 {
			n = 2
		}
		return PersonName{Full: s, First: string(runes[n:]), Last: string(runes[:n])}, true
	}
	return PersonName{Full: s}, true
}
