package place

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxText is the maximum length of a text in bytes. Longer ones are prose.
	maxText = 200
	// maxParts is the maximum number of parts; more are a list of places.
	maxParts = 8
	// largeCity is the minimum population, in hundreds, of a city that may be combined with unknown words.
	largeCity = 5_000
	// largeCityShare is the minimum ratio to its namesakes' population in that case.
	largeCityShare = 5
)

// part is a part of a text between separators, or a field.
type part struct {
	refs []reference
	// noise is unrelated to the place: "remote".
	noise bool
	// unknown parts have no meaning.
	unknown bool
	// area: a region around the place, or a part of it.
	area bool
	// named: a country or state by its name, which is enough to ignore unknown parts.
	named bool
	// upper: an upper-case code.
	upper bool
}

// find returns the place that a text names. sure: see Gazetteer.place.
func (g *Gazetteer) find(text string) (s spot, sure bool) {
	if len(text) > maxText || text == "" {
		return unknownSpot(), false
	}
	if strings.Contains(text, "&") && strings.Contains(text, ";") {
		text = html.UnescapeString(text)
	}
	if strings.ContainsAny(text, "@<>{}=?") || strings.Contains(text, "://") || strings.Contains(text, "->") {
		return unknownSpot(), false
	}
	solve := solver{g: g}
	if !solve.read(text) {
		return unknownSpot(), false
	}
	return solve.solve()
}

// solver finds the meanings of parts that agree.
type solver struct {
	g     *Gazetteer
	parts []part
	key   [maxText]byte
}

// read splits a text into parts. It returns false if there are too many.
func (v *solver) read(text string) bool {
	begin := 0
	end := func(at int) bool {
		segment := strings.TrimSpace(text[begin:at])
		return segment == "" || v.segment(segment)
	}
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
		}
		if isFlagLetter(r) || r == blackFlag {
			if !end(i) {
				return false
			}
			n = v.flag(text[i:])
			begin = i + n
		} else if isSeparator(r) || (r == '-' || r == '~') && isSpaced(text, i) {
			if !end(i) {
				return false
			}
			begin = i + n
		}
		i += n
	}
	return end(len(text)) && len(v.parts) <= maxParts
}

// isSeparator reports whether a rune separates parts, as symbols and emoji do.
func isSeparator(r rune) bool {
	if r < utf8.RuneSelf {
		return strings.ContainsRune(",;/|\\()[]:\n\r\t&+*_\"", r)
	}
	switch r {
	case '·', '•', '–', '—', '、', '，', '／', '｜', '・', '‧', '∙', '«', '»', '“', '”', '：', '（', '）', '،', '؛':
		return true
	}
	return r > 0x2000 && unicode.In(r, unicode.So, unicode.Sm)
}

// isSpaced reports whether white space surrounds the character at i: a dash, not a hyphen.
func isSpaced(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+1:])
	return unicode.IsSpace(before) && unicode.IsSpace(after)
}

const (
	blackFlag   = '\U0001F3F4'
	firstLetter = '\U0001F1E6'
	tagSpace    = '\U000E0020'
)

func isFlagLetter(r rune) bool { return firstLetter <= r && r < firstLetter+26 }

// flag reads the emoji flag that text begins with and returns its length in bytes.
func (v *solver) flag(text string) int {
	var code []byte
	n := 0
	for i, r := range text {
		switch {
		case i == 0 && r == blackFlag:
		case text[0] == "\U0001F1E6"[0] && isFlagLetter(r) && len(code) < 2:
			code = append(code, byte(r-firstLetter)+'A') //nolint:gosec // one of 26 letters
		case r > tagSpace && r <= tagSpace+0x5f && len(code) < 8:
			code = append(code, byte(r-tagSpace)+0x20)
		default:
			v.flagOf(string(code))
			return max(n, i)
		}
		n = i + utf8.RuneLen(r)
	}
	v.flagOf(string(code))
	return n
}

func (v *solver) flagOf(code string) {
	region := map[string]string{"gbeng": "england", "gbsct": "scotland", "gbwls": "wales"}[strings.TrimRight(code,
		"\x7f")]
	if region != "" {
		v.parts = append(v.parts, part{refs: v.g.lookup([]byte(region)), named: true})
		return
	}
	if i, ok := v.g.byCode[code]; ok {
		v.parts = append(v.parts, part{refs: []reference{{kind: countryName, index: int(i)}}, named: true})
		return
	}
	v.parts = append(v.parts, part{noise: len(code) == 0, unknown: len(code) > 0})
}

// add adds a field for places of one level. It returns false if no such place has this name.
func (v *solver) add(field string, level int) bool {
	if len(field) > maxText {
		return false
	}
	p := v.meaning(appendFolded(v.key[:0], field))
	p.refs = slices.DeleteFunc(p.refs, func(r reference) bool { return r.kind.level() != level })
	if len(p.refs) == 0 {
		return false
	}
	for i := range p.refs {
		p.refs[i].weak = false // The field has no other words.
	}
	p.named, p.upper = true, true
	v.parts = append(v.parts, p)
	return true
}

// segment adds the parts of a text between separators. It returns false for a text that is too long.
func (v *solver) segment(text string) bool {
	if len(v.parts) >= maxParts {
		return false
	}
	key := appendFolded(v.key[:0], text)
	key = trimPhrases(trimCodes(key))
	if len(key) == 0 {
		return true // numbers only
	}
	p := v.meaning(key)
	p.upper = isUpperCode(text)
	if p.unknown && v.split(key, text) {
		return true
	}
	v.parts = append(v.parts, p)
	return true
}

// meaning looks up a folded name.
func (v *solver) meaning(key []byte) part {
	if isNoise(string(key)) {
		return part{noise: true}
	}
	if refs := v.g.lookup(key); len(refs) > 0 {
		p := part{refs: refs}
		for _, r := range refs {
			p.named = p.named || r.kind == countryName || r.kind == stateName || r.kind == regionName
			p.area = p.area || r.kind == regionName
		}
		return p
	}
	if rest, ok := trimArea(key); ok {
		if p := v.meaning(rest); !p.unknown && !p.noise {
			p.area = true
			return p
		}
	}
	if rest, state, ok := trimForm(key); ok {
		p := v.meaning(rest)
		if isState := func(r reference) bool { return r.kind.level() == 1 }; state && slices.ContainsFunc(p.refs,
			isState) {
			p.refs = slices.DeleteFunc(p.refs, func(r reference) bool { return !isState(r) })
		}
		return p
	}
	return part{unknown: true}
}

// split parses a text without separators that names a place and its location: "Austin TX", "日本 東京". All parts
// must agree.
func (v *solver) split(key []byte, text string) bool {
	parts := v.halves(bytes.Clone(key), 2)
	if len(parts) < 2 {
		v.parts = append(v.parts, parts...)
		return len(parts) > 0
	}
	all := solver{g: v.g, parts: parts}
	if s, _ := all.solve(); s.country < 0 {
		return false
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.named }) && !isUpperCode(lastWord(text)) {
		return false
	}
	v.parts = append(v.parts, parts...)
	return true
}

// halves divides a name into two known names, the first possibly divided again. It returns nil if there are
// none.
func (v *solver) halves(key []byte, depth int) []part {
	try := func(i, j int) []part {
		tail := v.meaning(key[j:])
		if tail.unknown {
			return nil
		}
		parts := []part{v.meaning(key[:i])}
		if parts[0].unknown && depth > 1 {
			parts = v.halves(key[:i], depth-1)
		}
		if len(parts) == 0 || parts[0].unknown {
			return nil
		}
		return slices.DeleteFunc(append(parts, tail), func(p part) bool { return p.noise })
	}
	for i := len(key) - 1; i > 0; i-- {
		if key[i] == ' ' {
			if parts := try(i, i+1); len(parts) > 0 {
				return parts
			}
		}
	}
	if !isDense(key) || len(key) > 60 {
		return nil
	}
	for i := len(key) - 1; i > 0; i-- {
		if utf8.RuneStart(key[i]) && key[i-1] != ' ' && key[i] != ' ' {
			if parts := try(i, i); len(parts) > 0 {
				return parts
			}
		}
	}
	return nil
}

// isDense reports whether a name is in a script that needs no spaces.
func isDense(key []byte) bool {
	r, _ := utf8.DecodeRune(key)
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

func lastWord(text string) string {
	return text[strings.LastIndexFunc(text, unicode.IsSpace)+1:]
}

// isUpperCode reports whether a text is an upper-case code of two or three letters.
func isUpperCode(text string) bool {
	text = strings.ReplaceAll(text, ".", "")
	if len(text) < 2 || len(text) > 3 {
		return false
	}
	for i := range len(text) {
		if text[i] < 'A' || text[i] > 'Z' {
			return false
		}
	}
	return true
}

// trimCodes removes words with digits: postal codes and numbers.
func trimCodes(key []byte) []byte {
	if bytes.IndexFunc(key, unicode.IsDigit) < 0 {
		return key
	}
	words := bytes.Fields(key)
	kept := words[:0]
	for _, w := range words {
		if bytes.IndexFunc(w, unicode.IsDigit) < 0 {
			kept = append(kept, w)
		}
	}
	return bytes.Join(kept, []byte(" "))
}

// trimPhrases removes phrases before a place that state that a person is there.
func trimPhrases(key []byte) []byte {
	for _, p := range [...]string{
		"currently living in ", "currently based in ", "currently in ", "based in ", "living in ", "located in ",
		"working from ",
		"somewhere in ", "remote in ", "remote from ", "lives in ", "live in ", "i live in ", "in ", "wohnhaft in ",
		"vivo en ", "base in ",
		"now in ",
	} {
		if rest, ok := bytes.CutPrefix(key, []byte(p)); ok {
			return rest
		}
	}
	return key
}

// trimArea removes words for a region around, or a part of, a place.
func trimArea(key []byte) ([]byte, bool) {
	for _, p := range [...]string{
		"greater ", "northern ", "southern ", "eastern ", "western ", "central ", "upstate ", "north ", "south ",
		"east ", "west ", "metro ",
		"metropolitan ", "near ", "outside ", "the ", "rural ", "suburban ", "around ",
	} {
		if rest, ok := bytes.CutPrefix(key, []byte(p)); ok {
			return rest, true
		}
	}
	for _, p := range [...]string{
		" metropolitan area", " metropolitan region", " metro area", " bay area", " area", " metro", " metroplex",
		" suburbs", " region", " and region",
		" and surroundings", " und umgebung", " et peripherie", " y alrededores", " e regiao",
	} {
		if rest, ok := bytes.CutSuffix(key, []byte(p)); ok {
			return rest, true
		}
	}
	return nil, false
}

// trimForm removes words for the kind of a place: "State of", "市". state reports that it is the kind of a
// state.
func trimForm(key []byte) (rest []byte, state, ok bool) {
	for i, p := range [...]string{
		"state of ", "province of ", "region of ", "canton of ", "city of ", "stadt ", "ciudad de ", "ville de ",
		"cidade de ", "republic of ",
	} {
		if rest, ok := bytes.CutPrefix(key, []byte(p)); ok {
			return rest, i < 4, true
		}
	}
	for i, p := range [...]string{
		" state", " province", " prefecture", " fylke", " lan", " county", " oblast", "府", "県", "县", "省", "도",
		" city", " shi", "市", "都", "시",
		"특별시", "광역시",
	} {
		if p[0] != ' ' {
			p = Fold(p)
		}
		if rest, ok := bytes.CutSuffix(key, []byte(p)); ok && len(rest) > 0 {
			return rest, i < 12, true
		}
	}
	return nil, false, false
}

// isNoise reports whether a part is unrelated to a person's location.
func isNoise(key string) bool {
	switch key {
	case "remote", "remotely", "full remote", "fully remote", "remote work", "remote only", "remote first",
		"hybrid", "on site", "onsite", "earth", "planet earth",
		"world", "the world", "worldwide", "global", "anywhere", "internet", "the internet", "online", "milky way",
		"solar system", "europe", "eu",
		"european union", "emea", "apac", "latam", "asia", "africa", "north america", "south america",
		"latin america", "oceania", "open to relocation",
		"open to relocate", "relocating", "home", "he", "him", "she", "her", "they", "them", "he him", "she her",
		"they them", "home office", "universe",
		"utc", "gmt", "cet", "cest", "est", "pst", "homeoffice", "teletrabajo", "citizen", "digital nomad", "nomad":
		return true
	}
	return false
}
