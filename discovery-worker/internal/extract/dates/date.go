package dates

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"muster/discovery-worker/internal/extract/lexicon"
)

// Reader reads dates and periods, in the languages of monthNames. It is safe for concurrent use.
type Reader struct {
	months     map[string]int
	Expr       string // expression of one date
	single     *regexp.Regexp
	period     *regexp.Regexp
	open       *regexp.Regexp
	periodOnly *regexp.Regexp
	ending     *regexp.Regexp // open period: "2020 -"
}

// monthNames are the names of months and their abbreviations, in lower case.
const monthNames = `
january jan januar janvier enero ene gennaio gen janeiro januari styczeń
february feb februar février févr fevrier febrero febbraio fevereiro fev februari luty
march mar märz mär mars marzo março maart mrt marzec
april apr avril avr abril abr aprile kwiecień
may mai mayo maggio mag maio mei maj
june jun juni juin junio giugno giu junho czerwiec
july jul juli juillet juil julio luglio lug julho lipiec
august aug août aout agosto ago augustus sierpień
september sep sept septembre septiembre settembre set setembro wrzesień
october oct oktober okt octobre octubre ottobre ott outubro październik
november nov novembre noviembre novembro listopad
december dec dezember dez décembre diciembre dic dicembre dezembro december grudzień
`

const (
	presentWords = `present|now|today|current|currently|ongoing|to date|heute|jetzt|laufend|aujourd['’]hui` +
		`|à ce jour|présent|actualidad|actual|presente|hoy|oggi|attuale|atual|hoje|heden|nu|idag|obecnie|н\.в\.` +
		`|настоящее время|現在|至今|현재|dosud|doposud|doteraz|jelenleg|máig|nykyinen|nykyään|günümüz|halen|devam ediyor` +
		`|obecnie|nadal|teraz|nuværende|nåværende|nåtid|nå|nutid|dd\.?|d\.d\.|dziś|dzisiaj|aktualnie` +
		`|настоящий момент|наст\. ?время|сегодня|по сей день|н\. ?в\.|bis dato|momento actual|la fecha|a la fecha` +
		`|data odierna|presente momento|o momento|maintenant|ce jour|heutigen tag|до сих пор|σήμερα|الآن|حتى الآن` +
		`|היום|pågående|în prezent|prezent|danas|дотепер|теперішній час|sekarang|saat ini|hiện tại|hiện nay`
	sinceWords = `since|seit|depuis|desde|dal|da|sinds|sedan|from|ab|od|с`
)

// New returns a Reader. It compiles its expressions once.
func New() *Reader {
	d := &Reader{months: map[string]int{}}
	var names []string
	month := 0
	for line := range lexicon.Lines(monthNames) {
		month++
		for _, name := range strings.Fields(line) {
			if d.months[name] == 0 {
				d.months[name] = month
				names = append(names, regexp.QuoteMeta(name))
			}
		}
	}
	year := `(?:19|20)\d\d`
	d.Expr = `(?:(?:\d{1,2}\.?\s+(?:de\s+)?)?(?:` + strings.Join(names, "|") + `)\.?,?\s+(?:\d{1,2},?\s+)?(?:de\s+` +
		`|of\s+)?` + year +
		`|` + year + `[-/.]\d{1,2}(?:[-/.]\d{1,2})?|(?:\d{1,2}[./])?\d{1,2}[./]` + year + `` +
		`|` + year + `年(?:\d{1,2}月)?|` + year + `)`
	d.single = regexp.MustCompile(`(?i)(?:^|[^\p{L}\d/.-])(` + d.Expr + `)(?:$|[^\p{L}\d/-])`)
	d.period = regexp.MustCompile(`(?i)(?:^|[^\p{L}\d/.-])(` + d.Expr + `)\s*(?:-|–|—|−|~|〜|～|→|➔|to|bis|until` +
		`|till|through|à|au|a|al|hasta|até|tot|till|и по|по)+\s*(` + d.Expr + `|` + presentWords + `)(?:$` +
		`|[^\p{L}\d/-])`)
	d.open = regexp.MustCompile(`(?i)(?:^|[^\p{L}\d])(?:` + sinceWords + `)\s+(` + d.Expr + `)(?:$|[^\p{L}\d/-])`)
	d.ending = regexp.MustCompile(`(?i)^(` + d.Expr + `)\s*(?:-|–|—|→|~)\s*$`)
	d.periodOnly = regexp.MustCompile(`(?i)^` + d.Expr + `(?:T[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?$`)
	return d
}

// Period is a period of time, in its written precision. Current means that it has not ended.
type Period struct {
	Start, End string
	Current    bool
	At         [2]int // offsets of the period, including a word before it
}

// Find returns the first period of a line: a range, or an open one ("since 2018").
func (d *Reader) Find(s string) (Period, bool) {
	if !strings.ContainsFunc(s, unicode.IsDigit) {
		return Period{}, false
	}
	if m := d.period.FindStringSubmatchIndex(s); m != nil {
		start, ok := d.Parse(s[m[2]:m[3]])
		end, ended := d.Parse(s[m[4]:m[5]])
		if ok {
			return Period{Start: start, End: end, Current: !ended, At: [2]int{m[2], m[5]}}, true
		}
	}
	if m := d.ending.FindStringSubmatchIndex(s); m != nil {
		if start, ok := d.Parse(s[m[2]:m[3]]); ok {
			return Period{Start: start, Current: true, At: [2]int{m[2], m[1]}}, true
		}
	}
	if m := d.open.FindStringSubmatchIndex(s); m != nil {
		if start, ok := d.Parse(s[m[2]:m[3]]); ok {
			from := m[0]
			for from < m[2] && strings.IndexByte(" \t(,.;:-", s[from]) >= 0 {
				from++
			}
			return Period{Start: start, Current: true, At: [2]int{from, m[3]}}, true
		}
	}
	return Period{}, false
}

// FindOne returns the first date of a line.
func (d *Reader) FindOne(s string) (date string, at [2]int, ok bool) {
	if !strings.ContainsFunc(s, unicode.IsDigit) {
		return "", at, false
	}
	m := d.single.FindStringSubmatchIndex(s)
	if m == nil {
		return "", at, false
	}
	date, ok = d.Parse(s[m[2]:m[3]])
	return date, [2]int{m[2], m[3]}, ok
}

var (
	numbers   = regexp.MustCompile(`\d+`)
	timeOfDay = regexp.MustCompile(`t\d.*$`)
)

// Parse parses one date. It returns "YYYY", "YYYY-MM" or "YYYY-MM-DD".
func (d *Reader) Parse(s string) (string, bool) {
	s = strings.TrimSpace(strings.ToLower(s))
	if !d.periodOnly.MatchString(s) {
		return "", false
	}
	s = timeOfDay.ReplaceAllString(s, "")
	year, month, day := 0, 0, 0
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune(" .,0123456789", r) }) {
		if m := d.months[word]; m > 0 {
			month = m
		}
	}
	named := month > 0
	var rest []int
	for _, t := range numbers.FindAllString(s, 4) {
		n, err := strconv.Atoi(t)
		if err != nil {
			return "", false
		}
		if len(t) == 4 && year == 0 {
			year = n
			continue
		}
		rest = append(rest, n)
	}
	yearFirst := len(s) >= 4 && unicode.IsDigit(rune(s[0])) && len(numbers.FindString(s)) == 4
	switch {
	case named && len(rest) > 0:
		day = rest[0]
	case len(rest) == 1:
		month = rest[0]
	case len(rest) == 2 && yearFirst:
		month, day = rest[0], rest[1]
	case len(rest) == 2 && strings.Contains(s, "."):
		day, month = rest[0], rest[1]
	case len(rest) == 2 && rest[0] > 12:
		day, month = rest[0], rest[1]
	// Day and month are ambiguous unless one exceeds 12.
	case len(rest) == 2:
		if rest[1] > 12 {
			month, day = rest[0], rest[1]
		}
	}
	switch {
	case year < 1900 || year > 2099 || month > 12 || day > 31:
		return "", false
	case month == 0:
		return strconv.Itoa(year), true
	case day == 0:
		return fmt.Sprintf("%04d-%02d", year, month), true
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, month, day), true
}

// Full completes a partial date (rulings.md, Names: "filled with -01 where a full date is shown").
func Full(date string) string {
	switch len(date) {
	case 4:
		return date + "-01-01"
	case 7:
		return date + "-01"
	}
	return date
}
