package extract

import (
	"regexp"
	"strings"
	"unicode"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

// headingKind returns the kind of section that a line heads, or "".
func (d *document) headingKind(p view.Part) string {
	return d.e.words.Heading(strings.TrimRight(view.TrimBullet(p).Text(), " :"))
}

// isList reports whether a heading starts a list that is not about the person. A heading among
// others is a menu entry.
func (d *document) isList(i int) bool {
	if i > 0 && d.headingKind(d.lines[i-1]) != "" || i+1 < len(d.lines) && d.headingKind(d.lines[i+1]) != "" {
		return false
	}
	kind := d.headingKind(d.lines[i])
	return kind == lexicon.HeadingList || kind == lexicon.HeadingWorks
}

// isOwner reports whether a name in such a list is that of the page's owner, if no person was named
// before. It is, if it is separated and follows a menu with a heading of works, with a title or
// place below it. Or it follows the first line of the text, which is such a heading, with both
// below it. If the list has a second such name, neither is the owner.
func (d *document) isOwner(i int) bool {
	title, hasPlace := d.describeLineBelow(i)
	if d.f.name.ok() || !title && !hasPlace || i == 0 || d.lines[i-1].Text() != "" {
		return false
	}
	above := d.previousLine(i)
	if first := above >= 0 && d.previousLine(above) < 0 &&
		d.headingKind(d.lines[above]) == lexicon.HeadingWorks; !(first && title && hasPlace) && !d.isMenu(above) {
		return false
	}
	for j := d.entryEnd(i); j < len(d.lines) && d.listed[j]; j++ {
		if _, ok := d.e.Name(view.TrimBullet(d.lines[j]).Split(phrase.CardSplit)[0].Text(), false); ok {
			if title, hasPlace := d.describeLineBelow(j); title || hasPlace {
				return false
			}
		}
	}
	return true
}

// describeLineBelow reports whether the line below a name starts with a title, and whether it has a
// place.
func (d *document) describeLineBelow(i int) (title, hasPlace bool) {
	below := d.nextLine(i)
	if below == len(d.lines) {
		return false, false
	}
	parts := d.lines[below].Split(phrase.CardSplit)
	for _, p := range parts {
		_, isPlace := d.e.Place(p, false)
		_, _, endsWithPlace := d.e.SplitPlace(p)
		hasPlace = hasPlace || isPlace || endsWithPlace
	}
	return d.e.IsTitlePhrase(thingDescription.ReplaceAllString(parts[0].Text(), "")), hasPlace
}

// isMenu reports whether a line ends a menu with a heading of works: at least three entries, which
// are headings and single words at equal distances.
func (d *document) isMenu(i int) bool {
	entries, gap, hasHeading := 0, 0, false
	for last := i; i >= 0; i = d.previousLine(i) {
		kind, text := d.headingKind(d.lines[i]), strings.TrimRight(view.TrimBullet(d.lines[i]).Text(), " :")
		if kind == "" && (text == "" || strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.IsLetter(r)
		})) || entries > 1 && last-i != gap {
			break
		}
		gap, last = last-i, i
		entries++
		hasHeading = hasHeading || kind == lexicon.HeadingWorks
	}
	return hasHeading && entries >= 3
}

// previousLine returns the previous non-blank line, or -1.
func (d *document) previousLine(i int) int {
	for i--; i >= 0 && d.lines[i].Text() == ""; i-- {
	}
	return i
}

// nextLine returns the next non-blank line, or the number of lines.
func (d *document) nextLine(i int) int {
	for i++; i < len(d.lines) && d.lines[i].Text() == ""; i++ {
	}
	return i
}

// entryEnd returns the blank line that ends the entry below a name, or the number of lines.
func (d *document) entryEnd(i int) int {
	for i = d.nextLine(i); i < len(d.lines) && d.lines[i].Text() != ""; i++ {
	}
	return i
}

// thingDescription matches the description of a thing, which may contain a profession: all of "A
// package manager", the end of "Poster for a baker".
var thingDescription = regexp.MustCompile(
	`(?i)^(?:an?|the|my|our|eine?|une?)\s.*|\s(?:for|of|by|with|about|to|that|für|von` +
		`|mit|pour|de|par|para|con|per|di)\s.*`)

// readSections reads the entries below headings.
func (d *document) readSections() {
	kind, list := "", false
	var block []int
	flush := func() {
		switch kind {
		case "experience":
			d.readExperience(block)
		case "education":
			d.readEducation(block)
		case "skills", "languages":
			for _, i := range block {
				d.used[i] = true
				if line := view.TrimBullet(d.lines[i]); kind == "skills" {
					d.e.readSkillList(d.f, line, labeled)
				} else {
					d.e.readLanguageList(d.f, line, labeled)
				}
			}
		}
		block = nil
	}
	for i, line := range d.lines {
		if h := d.headingKind(line); h != "" && !d.used[i] {
			flush()
			kind, list = h, d.isList(i)
			d.used[i] = true
			continue
		}
		list = list && !(len(line.Text()) < 60 && signOff.MatchString(line.Text()))
		d.listed[i] = list
		// A label, which may start its own section.
		if d.used[i] {
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
		if (kind == "skills" || kind == "languages") && line.Start == line.End && len(block) > 1 {
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

// spacedNames matches names separated by a space, in scripts that have none within names.
var (
	spacedNames = regexp.MustCompile(`^[\p{Han}\p{Hiragana}\p{Katakana}ー]+\s+[\p{Han}\p{Hiragana}\p{Katakana}ー]+$`)
	space       = regexp.MustCompile(`\s+`)
)

// entryTrim are the characters around the pieces of an entry.
const entryTrim = ` ,;:|·•–—-/()[]`

// cutPeriod returns the parts of a line before and after its period.
func cutPeriod(p view.Part, at [2]int) []view.Part {
	var rest []view.Part
	for _, x := range []view.Part{p.Sub(0, at[0]), p.Sub(at[1], p.End-p.Start)} {
		if y := x.Trim(entryTrim); y.Start < y.End {
			rest = append(rest, y)
		}
	}
	return rest
}

// splitEntry splits the pieces of an entry in a list of jobs.
func (d *document) splitEntry(pieces []view.Part) []view.Part {
	var all []view.Part
	for _, p := range pieces {
		for _, x := range p.Split(entrySplit) {
			x = x.Trim(entryTrim)
			if t := x.Text(); strings.Trim(t, ".") != "" && !phrase.SiteSuffix.MatchString(t) &&
				!duration.MatchString(t) {
				all = append(all, x)
			}
		}
	}
	return all
}

// readExperience reads a list of jobs. Every period makes an entry of the text on its line, or on
// the lines before it.
func (d *document) readExperience(block []int) {
	var before []view.Part // lines since the last entry
	var pending *position
	flush := func() {
		if pending != nil && len(before) > 0 {
			var pieces []view.Part
			for _, line := range before[:min(2, len(before))] {
				if strings.HasSuffix(line.Text(), ".") || d.e.words.IsCompany(line.Text()) && len(pieces) > 1 {
					break
				}
				pieces = append(pieces, d.splitEntry([]view.Part{line})...)
			}
			d.fillPosition(pending, pieces[:min(2, len(pieces))])
			if pending.company.ok() || d.e.words.IsTitle(pending.title.value) {
				d.f.addPosition(*pending)
			}
			before = nil
		}
		pending = nil
	}
	defer flush()
	for _, i := range block {
		raw := d.lines[i]
		line := view.TrimBullet(raw)
		if line.Start == line.End {
			continue
		}
		d.used[i] = true
		t := line.Text()
		when, ok := d.e.dates.Find(t)
		if !ok || len(t) > 300 {
			if pl, isPlace := d.e.Place(line, false); isPlace && !pl.Empty() {
				continue // the place of the job
			}
			if isDetail(raw.Text()) {
				flush()
				before = nil
				continue
			}
			before = append(before, line)
			continue
		}
		flush()
		entry := position{start: when.Start, end: when.End, current: when.Current, listed: true, confidence: formed,
			span: line.Span()}
		pieces := d.splitEntry(cutPeriod(line, when.At))
		// Below an unknown heading.
		if d.isStudy(pieces) {
			d.e.readSchoolLine(d.f, line, formed)
			before = nil
			continue
		}
		if len(pieces) == 0 || !d.hasName(pieces) {
			pieces = append(d.nameAbove(before), pieces...)
			// The name follows below.
			if len(before) == 0 && !d.hasName(pieces) {
				pending = &entry
				continue
			}
		}
		before = nil
		d.fillPosition(&entry, pieces)
		if entry.company.ok() || d.e.words.IsTitle(entry.title.value) {
			d.f.addPosition(entry)
		}
	}
}

// isStudy reports whether an entry is a degree at a school.
func (d *document) isStudy(pieces []view.Part) bool {
	studied, at := false, false
	for _, p := range pieces {
		for _, x := range p.Split(phrase.Comma) {
			if _, _, ok := splitDegree(x); ok {
				studied = true
			} else if d.e.words.IsSchool(x.Text()) {
				at = true
			}
		}
	}
	return studied && at
}

// isDetail reports whether a line describes the work: a bullet or a sentence.
func isDetail(t string) bool {
	return (strings.HasPrefix(t, "- ") || strings.HasPrefix(t, "• ") || strings.HasSuffix(t, ".")) &&
		len(strings.Fields(t)) > 3
}

// hasName reports whether pieces contain the name of an entry.
func (d *document) hasName(pieces []view.Part) bool {
	for _, p := range pieces {
		if _, ok := d.e.Place(p, false); !ok && len(p.Text()) > 2 {
			return true
		}
	}
	return false
}

// nameAbove returns the name of an entry from the lines above its period: the nearest line if it
// has both title and company, or the two nearest.
func (d *document) nameAbove(before []view.Part) []view.Part {
	n := len(before)
	if n == 0 {
		return nil
	}
	last := d.splitEntry(before[n-1 : n])
	if title, company := d.e.SplitTitle(before[n-1]); company.View != nil && d.e.words.IsTitle(title.Text()) && n != 2 {
		return last
	}
	if len(last) >= 2 || n == 1 {
		return last
	}
	return append(d.splitEntry(before[n-2:n-1]), last...)
}

// fillPosition sets title and company from the pieces of an entry.
func (d *document) fillPosition(p *position, pieces []view.Part) {
	e := d.e
	if len(pieces) == 1 && spacedNames.MatchString(pieces[0].Text()) { // 株式会社青空 システムエンジニア
		pieces = pieces[0].Split(space)
	}
	if len(pieces) == 1 {
		title, company := e.SplitTitle(pieces[0])
		if company.View != nil {
			pieces = []view.Part{title, company}
		} else if c := pieces[0].Split(phrase.Comma); len(c) == 2 {
			pieces = c
		}
	}
	var rest []view.Part
	for _, x := range pieces {
		if _, ok := e.Place(x, false); ok {
			continue
		}
		if len(rest) < 2 {
			rest = append(rest, x)
		}
	}
	if len(rest) == 0 {
		return
	}
	title, company := rest[0], view.Part{}
	if len(rest) == 2 {
		company = rest[1]
		if e.words.IsTitle(company.Text()) &&
			(!e.words.IsTitle(title.Text()) || e.words.IsCompany(title.Text()) && !e.words.IsCompany(company.Text())) {
			title, company = company, title
		}
	} else if t, c := e.SplitTitle(title); c.View != nil {
		title, company = t, c
	} else if e.words.IsCompany(title.Text()) && !e.words.IsTitle(title.Text()) {
		title, company = view.Part{}, title
	}
	confidence := p.confidence
	if words := strings.Fields(strings.ToLower(title.TextOrEmpty())); company.View == nil && len(words) > 2 &&
		e.words.IsTitle(title.Text()) && legalForm[words[len(words)-1]] {
		return // "MECHANICAL DESIGNER OFFICINE ALPINE SRL" is ambiguous
	}
	if title.View != nil && len(title.Text()) <= 120 {
		if !e.words.IsTitle(title.Text()) && company.View == nil {
			confidence = probable
		}
		p.title = textValue{title.Text(), confidence, title.Span()}
	}
	if company.View != nil && len(company.Text()) <= 120 {
		if c := company.Split(phrase.Comma); len(c) == 2 { // "Northwind, Berlin"
			if e.words.Cities[strings.ToLower(c[1].Text())] {
				company = c[0]
			}
		}
		p.company = textValue{company.Text(), confidence, company.Span()}
	}
}

// degreeWord matches the start of a degree; the field may follow.
var degreeWord = regexp.MustCompile(`^(?:(?i:bachelor(?:'s|’s)?(?: degree)?(?: of (?:arts|science|engineering|laws` +
	`|business administration|fine arts|education|technology|commerce))?|master(?:'s` +
	`|’s)?(?: degree)?(?: of (?:arts|science|engineering|laws|business administration|fine arts|education` +
	`|technology|philosophy))?` +
	`|doctorate|doctor of philosophy|diploma?|diplôme|diplom|licence|licenciatura|grado|máster|mestrado` +
	`|laurea(?: magistrale| triennale)?|magister|mgr|staatsexamen|promotion|abitur|baccalauréat` +
	`|associate degree|postgraduate diploma|doctorat|doctorado|dottorato|doutorado)` +
	`|Ph\.?\s?D\.?|D\.?Phil\.?|M\.?D\.?|J\.?D\.?|LL\.?[BM]\.?|M\.?B\.?A\.?|M\.?Sc\.?|B\.?Sc\.?|M\.?Eng\.?` +
	`|B\.?Eng\.?|M\.?Tech\.?|B\.?Tech\.?|B\.?Com\.?|M\.?Phil\.?|M\.?F\.?A\.?|B\.?F\.?A\.?|M\.\s?S\.|B\.\s?S\.` +
	`|M\.\s?A\.|B\.\s?A\.|MS|BS|MA|BA|BEng|MEng|Dipl\.-Ing\.)(?:$|[\s,(:])`)

var fieldWord = regexp.MustCompile(`^(?i:(?:in|of|en|de|di|em|for|der|in der|the|,|-|–|:)\s+)+`)

// splitDegree splits a piece into a degree and its field.
func splitDegree(p view.Part) (deg, field view.Part, ok bool) {
	t := p.Text()
	m := degreeWord.FindStringIndex(t)
	if m == nil {
		return view.Part{}, view.Part{}, false
	}
	end := m[1]
	if end > 0 && strings.ContainsRune(" ,(:\t", rune(t[end-1])) {
		end--
	}
	deg = p.Sub(0, end)
	rest := p.Sub(end, len(t)).Trim(" ,()")
	if f := fieldWord.FindStringIndex(rest.Text()); f != nil {
		rest = rest.Sub(f[1], rest.End-rest.Start)
	}
	if rest.Start == rest.End {
		rest = view.Part{}
	}
	return deg, rest, true
}

// readEducation reads a list of schools.
func (d *document) readEducation(block []int) {
	var s school
	s.confidence = formed
	flush := func() {
		if s.name != "" {
			d.f.addSchool(s)
		}
		s = school{confidence: formed}
	}
	for _, i := range block {
		line := view.TrimBullet(d.lines[i])
		if line.Start == line.End {
			flush()
			continue
		}
		if d.isProse(line) {
			continue
		}
		d.used[i] = true
		dated := d.readSchoolPieces(line, &s, flush)
		if dated {
			flush()
		}
	}
	flush()
}

// readSchoolPieces adds the pieces of a line to an entry. dated reports whether the line has the
// entry's period, which ends the entry.
func (d *document) readSchoolPieces(line view.Part, s *school, flush func()) (dated bool) {
	e := d.e
	pieces := []view.Part{line}
	if when, ok := e.dates.Find(line.Text()); ok {
		pieces, dated = cutPeriod(line, when.At), true
		defer func(start, end string) { s.start, s.end = start, end }(when.Start, when.End)
	} else if date, at, ok := e.dates.FindOne(line.Text()); ok {
		pieces, dated = cutPeriod(line, at), true
		defer func() { s.end = date }()
	}
	for _, p := range pieces {
		for _, x := range p.Split(entrySplit) {
			sep := phrase.Comma
			if spacedNames.MatchString(x.Text()) {
				sep = space
			}
			for _, y := range x.Split(sep) {
				y = y.Trim(entryTrim)
				e.readSchoolPiece(y, s, flush)
			}
		}
	}
	return dated
}

func (e *Extractor) readSchoolPiece(y view.Part, s *school, flush func()) {
	t := y.Text()
	if t == "" || len(t) > 150 {
		return
	}
	if deg, field, ok := splitDegree(y); ok {
		if s.degree == "" {
			s.degree = deg.Text()
		}
		if field.View != nil && s.field == "" && !e.words.IsSchool(field.Text()) {
			s.field = field.Text()
		}
		return
	}
	if e.words.IsSchool(t) {
		if s.name != "" && s.name != t && flush != nil {
			flush()
		}
		if s.name == "" {
			s.name, s.span = t, y.Span()
		}
		return
	}
	if s.degree != "" && s.field == "" && !e.words.Cities[strings.ToLower(t)] &&
		!e.words.Countries[strings.ToLower(t)] {
		s.field = t
	}
}

// readSchoolLine reads an entry of education from one line.
func (e *Extractor) readSchoolLine(f *facts, v view.Part, confidence float64) {
	s := school{confidence: confidence, span: v.Span()}
	d := &document{e: e, f: f}
	d.readSchoolPieces(v, &s, nil)
	if s.name != "" {
		s.span = v.Span()
		f.addSchool(s)
	}
}
