package phrase

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/view"
)

var (
	// atWord separates a title from an employer.
	atWord = regexp.MustCompile(`\s+(?:at|At|AT|@|bei(?: der| dem| den)?|beim|chez|presso|bij|na|no|hos|på|с)\s+` +
		`|\s*@\s+|\s+@`)
	// CardSplit separates the items of a card line.
	CardSplit = regexp.MustCompile(`\s+[|·•/–—-]+\s+|\s*[|·•]\s*|\t+`)
	// SiteSuffix matches words next to a name or job on a page that are neither.
	SiteSuffix = regexp.MustCompile(`(?i)^(?:linkedin|github|twitter|x|codehost|network|microblog|profile` +
		`|contact info|full-time|part-time|angestellt|angestellte[rn]?|selbstständig|freiberuflich|employed` +
		`|contract|freelance|internship|permanent|remote|hybrid|self-employed|vollzeit|teilzeit)$`)
	// Sentence matches the end of a sentence.
	Sentence = regexp.MustCompile(`[.!?]\s+\p{Lu}|[.!?]$`)
)

// SplitTitle splits a title from the employer after it. company.View is nil if there is none.
func (e *Reader) SplitTitle(p view.Part) (title, company view.Part) {
	t := p.Text()
	if m := atWord.FindStringIndex(t); m != nil && m[0] > 0 && m[1] < len(t) {
		if c := LeadingOrg(p.Sub(m[1], len(t))); c.Start < c.End {
			return p.Sub(0, m[0]).Trim(",-–—|"), c
		}
	}
	for _, sep := range []*regexp.Regexp{CardSplit, Comma} {
		parts := p.Split(sep)
		if len(parts) > 2 && SiteSuffix.MatchString(parts[0].Text()) { // "Angestellt, Projektleiter, Nordwind GmbH"
			parts = parts[1:]
		}
		if len(parts) < 2 {
			continue
		}
		a, b := parts[0].Trim(""), parts[1].Trim("")
		if e.words.IsTitle(a.Text()) && e.words.Departments[strings.ToLower(b.Text())] { // "Vice President, Marketing"
			if len(parts) < 3 || !e.IsOrg(parts[2].Trim("")) {
				return p, view.Part{}
			}
			a, b = p.Sub(0, b.End-p.Start), parts[2].Trim("")
		}
		switch {
		case e.words.IsTitle(a.Text()) && e.IsOrg(b) && (!e.words.IsTitle(b.Text()) || e.words.IsCompany(b.Text())):
			return a, b
		case e.words.IsTitle(b.Text()) && e.IsOrg(a) && !e.words.IsTitle(a.Text()):
			return b, a
		}
	}
	return p, view.Part{}
}

// orgEnd matches the end of an employer's name in a card or headline.
var orgEnd = regexp.MustCompile(`\s+[|·•–—]\s+|\s+-\s+|[;(]|[.!?](?:\s|$)|\s+and I\b|,\s+(?:[\p{Ll}]` +
	`|[\p{Lu}][\p{L}]+(?:,|$))|\s+(?:in|where|and (?:the|a|an)|based|since|from|with)\s|\s+[iw]\s+\p{Lu}`)

// LeadingOrg returns the employer's name at the beginning of a phrase.
func LeadingOrg(p view.Part) view.Part {
	t := p.Text()
	if m := orgEnd.FindStringIndex(t); m != nil {
		if dot := t[m[0]:m[1]]; !(strings.HasPrefix(dot, ".") && Abbreviated(t[:m[0]])) {
			p = p.Sub(0, m[0])
		}
	}
	p = p.Trim("@,")
	if len(p.Text()) > 100 {
		return p.Sub(0, 0)
	}
	return p
}

// Abbreviated reports whether a dot after s is part of an abbreviation.
func Abbreviated(s string) bool {
	word := s[strings.LastIndexAny(s, " .")+1:]
	switch strings.ToLower(word) {
	case "inc", "ltd", "co", "corp", "dr", "prof", "mr", "mrs", "ms", "st", "b", "v", "s", "a", "jr", "sr", "tel", "no",
		"vs", "e.g", "i.e", "dept", "univ", "m", "mme", "u":
		return true
	}
	return utf8.RuneCountInString(word) == 1 && strings.ToUpper(word) == word && !HasDigit(word)
}

// IsOrg reports whether a phrase may be an organization's name.
func (e *Reader) IsOrg(p view.Part) bool {
	t := p.Text()
	if t == "" || len(t) > 80 || len(strings.Fields(t)) > 7 || strings.ContainsAny(t, "@<>{}=") ||
		strings.Contains(t, "://") || IsBlank(t) || SiteSuffix.MatchString(t) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(t)
	if unicode.IsLower(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return false
	}
	if Sentence.MatchString(t) && !e.words.IsCompany(t) {
		return false
	}
	l := strings.ToLower(t)
	if e.words.Cities[l] || e.words.Countries[l] || e.words.States[l] || e.words.Languages[l] ||
		e.words.Heading(t) != "" || e.words.Labels[l] != "" {
		return false
	}
	if _, ok := e.Place(p, false); ok {
		return false
	}
	if _, ok := e.dates.Find(t); ok {
		return false
	}
	_, _, ok := e.dates.FindOne(t)
	return !ok && PhoneNumber.FindStringIndex(t) == nil
}

// IsTitlePhrase reports whether a separate phrase is a job title.
func (e *Reader) IsTitlePhrase(s string) bool {
	return len(s) <= 100 && len(strings.Fields(s)) <= 9 && strings.Count(s, ",") <= 2 &&
		!strings.ContainsAny(s, "@={}<>\\|:") && !manyDigits.MatchString(s) && e.words.IsTitle(s) &&
		e.words.Labels[lexicon.LabelKey(s)] == ""
}

var manyDigits = regexp.MustCompile(`\d{3}`)

// HasDigitOnly reports whether a phrase has no letter.
func HasDigitOnly(s string) bool { return !strings.ContainsFunc(s, unicode.IsLetter) }

// AllCapitalized reports whether every word of more than three letters is capitalized.
func AllCapitalized(s string) bool {
	for w := range strings.FieldsSeq(s) {
		r, _ := utf8.DecodeRuneInString(w)
		if unicode.IsLower(r) && utf8.RuneCountInString(w) > 3 {
			return false
		}
	}
	return true
}

// blanks match placeholders for unknown values.
var blanks = regexp.MustCompile(`(?i)^(?:n\.?/?a\.?|none|null|nil|unknown|undefined|tbd|tba|not (?:available|known` +
	`|provided|specified|set)|[-–—?.]+|keine? angabe|k\. ?a\.|inconnu|desconocido)$`)

// IsBlank reports whether a phrase is empty or a placeholder.
func IsBlank(s string) bool { return s == "" || len(s) < 40 && blanks.MatchString(s) }

// PhoneNumber matches possible phone numbers: with a plus, or in North American format.
var PhoneNumber = regexp.MustCompile(`\+[\d(][\d\s().\-/·]{5,22}\d|\(\d{3}\)\s?\d{3}[-.\s]\d{4}` +
	`|\b(?:1[-.\s])?[2-9]\d{2}[-.][2-9]\d{2}[-.]\d{4}\b`)
