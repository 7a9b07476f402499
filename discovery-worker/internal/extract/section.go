package extract

import (
	"regexp"
	"strings"
	"unicode"
)

// heading is the kind of the part that a line begins, "" when the line is no heading.
func (d *document) heading(p part) string {
	return d.e.words.heading(strings.TrimRight(unbulleted(p).text(), " :"))
}

// isList reports whether a heading begins a list of what is not of the person. One among others is an entry of a menu.
func (d *document) isList(i int) bool {
	if i > 0 && d.heading(d.lines[i-1]) != "" || i+1 < len(d.lines) && d.heading(d.lines[i+1]) != "" {
		return false
	}
	kind := d.heading(d.lines[i])
	return kind == headingList || kind == headingWorks
}

// isOwner reports whether a name in a list is that of whose page it is, where nobody is named yet. It stands apart below a menu with a heading of what
// somebody made, and a title or a place below it; or below the first line of all, which is such a heading, and both below it. Where the list has a
// second name like that, neither is.
func (d *document) isOwner(i int) bool {
	title, lives := d.besideName(i)
	if d.f.name.ok() || !title && !lives || i == 0 || d.lines[i-1].text() != "" {
		return false
	}
	above := d.previous(i)
	if first := above >= 0 && d.previous(above) < 0 && d.heading(d.lines[above]) == headingWorks; !(first && title && lives) && !d.isMenu(above) {
		return false
	}
	for j := d.entryEnd(i); j < len(d.lines) && d.listed[j]; j++ {
		if _, ok := d.e.name(unbulleted(d.lines[j]).split(cardSplit)[0].text(), false); ok {
			if title, lives := d.besideName(j); title || lives {
				return false
			}
		}
	}
	return true
}

// besideName reports whether the line below a name begins with a title, and whether it names a place.
func (d *document) besideName(i int) (title, lives bool) {
	below := d.next(i)
	if below == len(d.lines) {
		return false, false
	}
	parts := d.lines[below].split(cardSplit)
	for _, p := range parts {
		_, isPlace := d.e.place(p, false)
		_, _, ends := d.e.placed(p)
		lives = lives || isPlace || ends
	}
	return d.e.isTitlePhrase(ofThing.ReplaceAllString(parts[0].text(), "")), lives
}

// isMenu reports whether a line ends a menu with a heading of what somebody made: three entries or more, headings and single words, one as far from the next
// as the others are.
func (d *document) isMenu(i int) bool {
	entries, gap, made := 0, 0, false
	for last := i; i >= 0; i = d.previous(i) {
		kind, text := d.heading(d.lines[i]), strings.TrimRight(unbulleted(d.lines[i]).text(), " :")
		if kind == "" && (text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })) || entries > 1 && last-i != gap {
			break
		}
		gap, last = last-i, i
		entries++
		made = made || kind == headingWorks
	}
	return made && entries >= 3
}

// previous is the line above one that is not blank, or -1.
func (d *document) previous(i int) int {
	for i--; i >= 0 && d.lines[i].text() == ""; i-- {
	}
	return i
}

// next is the line below one that is not blank, or the number of lines.
func (d *document) next(i int) int {
	for i++; i < len(d.lines) && d.lines[i].text() == ""; i++ {
	}
	return i
}

// entryEnd is the blank line that ends what stands below a name, or the number of lines.
func (d *document) entryEnd(i int) int {
	for i = d.next(i); i < len(d.lines) && d.lines[i].text() != ""; i++ {
	}
	return i
}

// ofThing is what tells of a thing, in which a profession may stand: all of "A package manager", the end of "Poster for a baker".
var ofThing = regexp.MustCompile(`(?i)^(?:an?|the|my|our|eine?|une?)\s.*|\s(?:for|of|by|with|about|to|that|für|von|mit|pour|de|par|para|con|per|di)\s.*`)

// sections reads the entries below headings.
func (d *document) sections() {
	kind, list := "", false
	var block []int
	flush := func() {
		switch kind {
		case "experience":
			d.experience(block)
		case "education":
			d.education(block)
		case "skills", "languages":
			for _, i := range block {
				d.used[i] = true
				if line := unbulleted(d.lines[i]); kind == "skills" {
					d.e.skillList(d.f, line, labelled)
				} else {
					d.e.languageList(d.f, line, labelled)
				}
			}
		}
		block = nil
	}
	for i, line := range d.lines {
		if h := d.heading(line); h != "" && !d.used[i] {
			flush()
			kind, list = h, d.isList(i)
			d.used[i] = true
			continue
		}
		list = list && !(len(line.text()) < 60 && signOff.MatchString(line.text()))
		d.listed[i] = list
		if d.used[i] { // a label, which may begin a part of its own
			if kind == "skills" || kind == "languages" {
				flush()
				kind = ""
			}
			continue
		}
		switch kind {
		case "experience", "education", "skills", "languages":
			block = append(block, i)
		}
		if (kind == "skills" || kind == "languages") && line.start == line.end && len(block) > 1 {
			flush()
			kind = ""
		}
	}
	flush()
}

var (
	entrySplit = regexp.MustCompile(`\s+[|·•–—/-]+\s+|\s*[|·•]\s*|\t+|\s{3,}`)
	duration   = regexp.MustCompile(`^\d+\s*(?:yrs?|years?|mos?|months?|Jahre?|ans?)\b.*`)
)

// spaced is names that only a space separates, in scripts that need none within
// them.
var (
	spaced = regexp.MustCompile(`^[\p{Han}\p{Hiragana}\p{Katakana}ー]+\s+[\p{Han}\p{Hiragana}\p{Katakana}ー]+$`)
	space  = regexp.MustCompile(`\s+`)
)

// edges is what stands around the pieces of an entry.
const edges = ` ,;:|·•–—-/()[]`

// undated is a line without its period: what stands before it and behind it.
func undated(p part, at [2]int) []part {
	var rest []part
	for _, x := range []part{p.sub(0, at[0]), p.sub(at[1], p.end-p.start)} {
		if y := x.trim(edges); y.start < y.end {
			rest = append(rest, y)
		}
	}
	return rest
}

// items are the pieces of a line that is an entry of a list of jobs.
func (d *document) items(pieces []part) []part {
	var all []part
	for _, p := range pieces {
		for _, x := range p.split(entrySplit) {
			x = x.trim(edges)
			if t := x.text(); strings.Trim(t, ".") != "" && !siteSuffix.MatchString(t) && !duration.MatchString(t) {
				all = append(all, x)
			}
		}
	}
	return all
}

// experience reads a list of jobs: every period of time makes an entry of what
// stands on its line or on the lines before it.
func (d *document) experience(block []int) {
	var before []part // lines since the last entry
	var pending *position
	flush := func() {
		if pending != nil && len(before) > 0 {
			var pieces []part
			for _, line := range before[:min(2, len(before))] {
				if strings.HasSuffix(line.text(), ".") || d.e.words.isCompany(line.text()) && len(pieces) > 1 {
					break
				}
				pieces = append(pieces, d.items([]part{line})...)
			}
			d.fill(pending, pieces[:min(2, len(pieces))])
			if pending.company.ok() || d.e.words.isTitle(pending.title.value) {
				d.f.addPosition(*pending)
			}
			before = nil
		}
		pending = nil
	}
	defer flush()
	for _, i := range block {
		raw := d.lines[i]
		line := unbulleted(raw)
		if line.start == line.end {
			continue
		}
		d.used[i] = true
		t := line.text()
		when, ok := d.e.dates.find(t)
		if !ok || len(t) > 300 {
			if pl, isPlace := d.e.place(line, false); isPlace && !pl.empty() {
				continue // where the job was
			}
			if isDetail(raw.text()) {
				flush()
				before = nil
				continue
			}
			before = append(before, line)
			continue
		}
		flush()
		entry := position{start: when.start, end: when.end, current: when.current, listed: true, confidence: formed, span: line.span()}
		pieces := d.items(undated(line, when.at))
		if d.isStudy(pieces) { // below a heading that is not known
			d.e.schoolLine(d.f, line, formed)
			before = nil
			continue
		}
		if len(pieces) == 0 || !d.named(pieces) {
			pieces = append(d.above(before), pieces...)
			if len(before) == 0 && !d.named(pieces) { // the name stands below
				pending = &entry
				continue
			}
		}
		before = nil
		d.fill(&entry, pieces)
		if entry.company.ok() || d.e.words.isTitle(entry.title.value) {
			d.f.addPosition(entry)
		}
	}
}

// isStudy reports whether an entry is of a degree at a school.
func (d *document) isStudy(pieces []part) bool {
	studied, at := false, false
	for _, p := range pieces {
		for _, x := range p.split(comma) {
			if _, _, ok := degree(x); ok {
				studied = true
			} else if d.e.words.isSchool(x.text()) {
				at = true
			}
		}
	}
	return studied && at
}

// isDetail reports whether a line tells of the work: a bullet or a sentence.
func isDetail(t string) bool {
	return (strings.HasPrefix(t, "- ") || strings.HasPrefix(t, "• ") || strings.HasSuffix(t, ".")) && len(strings.Fields(t)) > 3
}

// named reports whether pieces of an entry's own line hold its name.
func (d *document) named(pieces []part) bool {
	for _, p := range pieces {
		if _, ok := d.e.place(p, false); !ok && len(p.text()) > 2 {
			return true
		}
	}
	return false
}

// above is the entry's name on the lines above its period: the line that holds
// both, or the two nearest.
func (d *document) above(before []part) []part {
	n := len(before)
	if n == 0 {
		return nil
	}
	last := d.items(before[n-1 : n])
	if title, company := d.e.titleAt(before[n-1]); company.v != nil && d.e.words.isTitle(title.text()) && n != 2 {
		return last
	}
	if len(last) >= 2 || n == 1 {
		return last
	}
	return append(d.items(before[n-2:n-1]), last...)
}

// fill reads title and company out of the pieces of an entry.
func (d *document) fill(p *position, pieces []part) {
	e := d.e
	if len(pieces) == 1 && spaced.MatchString(pieces[0].text()) { // 株式会社青空 システムエンジニア
		pieces = pieces[0].split(space)
	}
	if len(pieces) == 1 {
		title, company := e.titleAt(pieces[0])
		if company.v != nil {
			pieces = []part{title, company}
		} else if c := pieces[0].split(comma); len(c) == 2 {
			pieces = c
		}
	}
	var rest []part
	for _, x := range pieces {
		if _, ok := e.place(x, false); ok {
			continue
		}
		if len(rest) < 2 {
			rest = append(rest, x)
		}
	}
	if len(rest) == 0 {
		return
	}
	title, company := rest[0], part{}
	if len(rest) == 2 {
		company = rest[1]
		if e.words.isTitle(company.text()) && (!e.words.isTitle(title.text()) || e.words.isCompany(title.text()) && !e.words.isCompany(company.text())) {
			title, company = company, title
		}
	} else if t, c := e.titleAt(title); c.v != nil {
		title, company = t, c
	} else if e.words.isCompany(title.text()) && !e.words.isTitle(title.text()) {
		title, company = part{}, title
	}
	confidence := p.confidence
	if words := strings.Fields(strings.ToLower(title.textOr())); company.v == nil && len(words) > 2 && e.words.isTitle(title.text()) && legalForm[words[len(words)-1]] {
		return // "MECHANICAL DESIGNER OFFICINE ALPINE SRL": where one ends and the other begins is not known
	}
	if title.v != nil && len(title.text()) <= 120 {
		if !e.words.isTitle(title.text()) && company.v == nil {
			confidence = probable
		}
		p.title = found{title.text(), confidence, title.span()}
	}
	if company.v != nil && len(company.text()) <= 120 {
		if c := company.split(comma); len(c) == 2 { // "Northwind, Berlin"
			if e.words.cities[strings.ToLower(c[1].text())] {
				company = c[0]
			}
		}
		p.company = found{company.text(), confidence, company.span()}
	}
}

// degreeWord begins a degree; the field may follow.
var degreeWord = regexp.MustCompile(`^(?:(?i:bachelor(?:'s|’s)?(?: degree)?(?: of (?:arts|science|engineering|laws|business administration|fine arts|education|technology|commerce))?|master(?:'s|’s)?(?: degree)?(?: of (?:arts|science|engineering|laws|business administration|fine arts|education|technology|philosophy))?` +
	`|doctorate|doctor of philosophy|diploma?|diplôme|diplom|licence|licenciatura|grado|máster|mestrado|laurea(?: magistrale| triennale)?|magister|mgr|staatsexamen|promotion|abitur|baccalauréat|associate degree|postgraduate diploma|doctorat|doctorado|dottorato|doutorado)` +
	`|Ph\.?\s?D\.?|D\.?Phil\.?|M\.?D\.?|J\.?D\.?|LL\.?[BM]\.?|M\.?B\.?A\.?|M\.?Sc\.?|B\.?Sc\.?|M\.?Eng\.?|B\.?Eng\.?|M\.?Tech\.?|B\.?Tech\.?|B\.?Com\.?|M\.?Phil\.?|M\.?F\.?A\.?|B\.?F\.?A\.?|M\.\s?S\.|B\.\s?S\.|M\.\s?A\.|B\.\s?A\.|MS|BS|MA|BA|BEng|MEng|Dipl\.-Ing\.)(?:$|[\s,(:])`)

var fieldWord = regexp.MustCompile(`^(?i:(?:in|of|en|de|di|em|for|der|in der|the|,|-|–|:)\s+)+`)

// degree splits a piece into a degree and its field.
func degree(p part) (deg, field part, ok bool) {
	t := p.text()
	m := degreeWord.FindStringIndex(t)
	if m == nil {
		return part{}, part{}, false
	}
	end := m[1]
	if end > 0 && strings.ContainsRune(" ,(:\t", rune(t[end-1])) {
		end--
	}
	deg = p.sub(0, end)
	rest := p.sub(end, len(t)).trim(" ,()")
	if f := fieldWord.FindStringIndex(rest.text()); f != nil {
		rest = rest.sub(f[1], rest.end-rest.start)
	}
	if rest.start == rest.end {
		rest = part{}
	}
	return deg, rest, true
}

// education reads a list of schools.
func (d *document) education(block []int) {
	var s school
	s.confidence = formed
	flush := func() {
		if s.name != "" {
			d.f.addSchool(s)
		}
		s = school{confidence: formed}
	}
	for _, i := range block {
		line := unbulleted(d.lines[i])
		if line.start == line.end {
			flush()
			continue
		}
		if d.isProse(line) {
			continue
		}
		d.used[i] = true
		dated := d.schoolPieces(line, &s, flush)
		if dated {
			flush()
		}
	}
	flush()
}

// schoolPieces adds the pieces of a line to an entry of education; dated says
// that it held the entry's time, which comes last.
func (d *document) schoolPieces(line part, s *school, flush func()) (dated bool) {
	e := d.e
	pieces := []part{line}
	if when, ok := e.dates.find(line.text()); ok {
		pieces, dated = undated(line, when.at), true
		defer func(start, end string) { s.start, s.end = start, end }(when.start, when.end)
	} else if date, at, ok := e.dates.findOne(line.text()); ok {
		pieces, dated = undated(line, at), true
		defer func() { s.end = date }()
	}
	for _, p := range pieces {
		for _, x := range p.split(entrySplit) {
			sep := comma
			if spaced.MatchString(x.text()) {
				sep = space
			}
			for _, y := range x.split(sep) {
				y = y.trim(edges)
				e.schoolPiece(y, s, flush)
			}
		}
	}
	return dated
}

func (e *Extractor) schoolPiece(y part, s *school, flush func()) {
	t := y.text()
	if t == "" || len(t) > 150 {
		return
	}
	if deg, field, ok := degree(y); ok {
		if s.degree == "" {
			s.degree = deg.text()
		}
		if field.v != nil && s.field == "" && !e.words.isSchool(field.text()) {
			s.field = field.text()
		}
		return
	}
	if e.words.isSchool(t) {
		if s.name != "" && s.name != t && flush != nil {
			flush()
		}
		if s.name == "" {
			s.name, s.span = t, y.span()
		}
		return
	}
	if s.degree != "" && s.field == "" && !e.words.cities[strings.ToLower(t)] && !e.words.countries[strings.ToLower(t)] {
		s.field = t
	}
}

// schoolLine reads one entry of education in one line.
func (e *Extractor) schoolLine(f *facts, v part, confidence float64) {
	s := school{confidence: confidence, span: v.span()}
	d := &document{e: e, f: f}
	d.schoolPieces(v, &s, nil)
	if s.name != "" {
		s.span = v.span()
		f.addSchool(s)
	}
}
