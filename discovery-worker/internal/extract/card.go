package extract

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/schemas/identity"
)

var (
	// atWord stands between a title and an employer.
	atWord    = regexp.MustCompile(`\s+(?:at|At|AT|@|bei(?: der| dem| den)?|beim|chez|presso|bij|na|no|hos|på|с)\s+|\s*@\s+|\s+@`)
	cardSplit = regexp.MustCompile(`\s+[|·•/–—-]+\s+|\s*[|·•]\s*|\t+`)
	// signOff ends a mail, before its signature.
	signOff = regexp.MustCompile(`(?i)^(?:--|—|(?:(?:with )?(?:best|kind|warm|many|yours)\b.{0,20}|regards|best|cheers|thanks(?:!| again)?|thank you|sincerely|warmly|respectfully|cordially` +
		`|mit (?:freundlichen|besten) gr(?:ü|ue)(?:ß|ss)en|(?:viele|beste|liebe|freundliche) gr(?:ü|ue)(?:ß|ss)e|cordialement|bien à vous|bien cordialement|saludos(?: cordiales)?|un saludo|atentamente|cordiali saluti|distinti saluti` +
		`|atenciosamente|com os melhores cumprimentos|met vriendelijke groet(?:en)?|vriendelijke groet|med vänliga hälsningar|med venlig hilsen|vennlig hilsen|pozdrawiam|z poważaniem|с уважением|敬具|saygılarımla)[\s,.!]*)$`)
	cvOf       = regexp.MustCompile(`(?i)^(?:(?:resume|résumé|cv|curriculum vitae|lebenslauf)\s+(?:of|von|de|for|[-–:])\s*)`)
	siteSuffix = regexp.MustCompile(`(?i)^(?:linkedin|github|twitter|x|codehost|network|microblog|profile|contact info|full-time|part-time|angestellt|angestellte[rn]?|selbstständig|freiberuflich|employed|contract|freelance|internship|permanent|remote|hybrid|self-employed|vollzeit|teilzeit)$`)
	sentence   = regexp.MustCompile(`[.!?]\s+\p{Lu}|[.!?]$`)
)

// titleAt splits a title from the employer that stands behind it; company.v is
// nil without one.
func (e *Extractor) titleAt(p part) (title, company part) {
	t := p.text()
	if m := atWord.FindStringIndex(t); m != nil && m[0] > 0 && m[1] < len(t) {
		if c := orgHead(p.sub(m[1], len(t))); c.start < c.end {
			return p.sub(0, m[0]).trim(",-–—|"), c
		}
	}
	for _, sep := range []*regexp.Regexp{cardSplit, comma} {
		parts := p.split(sep)
		if len(parts) > 2 && siteSuffix.MatchString(parts[0].text()) { // "Angestellt, Projektleiter, Nordwind GmbH"
			parts = parts[1:]
		}
		if len(parts) < 2 {
			continue
		}
		a, b := parts[0].trim(""), parts[1].trim("")
		if e.words.isTitle(a.text()) && e.words.departments[strings.ToLower(b.text())] { // "Vice President, Marketing"
			if len(parts) < 3 || !e.isOrg(parts[2].trim("")) {
				return p, part{}
			}
			a, b = p.sub(0, b.end-p.start), parts[2].trim("")
		}
		switch {
		case e.words.isTitle(a.text()) && e.isOrg(b) && (!e.words.isTitle(b.text()) || e.words.isCompany(b.text())):
			return a, b
		case e.words.isTitle(b.text()) && e.isOrg(a) && !e.words.isTitle(a.text()):
			return b, a
		}
	}
	return p, part{}
}

// orgEnd ends the name of an employer in a card or headline.
var orgEnd = regexp.MustCompile(`\s+[|·•–—]\s+|\s+-\s+|[;(]|[.!?](?:\s|$)|\s+and I\b|,\s+(?:[\p{Ll}]|[\p{Lu}][\p{L}]+(?:,|$))|\s+(?:in|where|and (?:the|a|an)|based|since|from|with)\s|\s+[iw]\s+\p{Lu}`)

// orgHead is the employer's name at the beginning of a phrase.
func orgHead(p part) part {
	t := p.text()
	if m := orgEnd.FindStringIndex(t); m != nil {
		if dot := t[m[0]:m[1]]; !(strings.HasPrefix(dot, ".") && abbreviated(t[:m[0]])) {
			p = p.sub(0, m[0])
		}
	}
	p = p.trim("@,")
	if len(p.text()) > 100 {
		return p.sub(0, 0)
	}
	return p
}

// abbreviated reports whether a dot behind s belongs to the word.
func abbreviated(s string) bool {
	word := s[strings.LastIndexAny(s, " .")+1:]
	switch strings.ToLower(word) {
	case "inc", "ltd", "co", "corp", "dr", "prof", "mr", "mrs", "ms", "st", "b", "v", "s", "a", "jr", "sr", "tel", "no", "vs", "e.g", "i.e", "dept", "univ", "m", "mme", "u":
		return true
	}
	return utf8.RuneCountInString(word) == 1 && strings.ToUpper(word) == word && !hasDigit(word)
}

// isOrg reports whether a phrase may be an organization's name.
func (e *Extractor) isOrg(p part) bool {
	t := p.text()
	if t == "" || len(t) > 80 || len(strings.Fields(t)) > 7 || strings.ContainsAny(t, "@<>{}=") || strings.Contains(t, "://") || isBlank(t) || siteSuffix.MatchString(t) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(t)
	if unicode.IsLower(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return false
	}
	if sentence.MatchString(t) && !e.words.isCompany(t) {
		return false
	}
	l := strings.ToLower(t)
	if e.words.cities[l] || e.words.countries[l] || e.words.states[l] || e.words.languages[l] || e.words.heading(t) != "" || e.words.labels[l] != "" {
		return false
	}
	if _, ok := e.place(p, false); ok {
		return false
	}
	if _, ok := e.dates.find(t); ok {
		return false
	}
	_, _, ok := e.dates.findOne(t)
	return !ok && phoneNumber.FindStringIndex(t) == nil
}

// cards reads the lines that stand like a card: at the beginning of a text, and
// below the end of a mail.
func (d *document) cards() {
	from := 0
	for i, line := range d.lines {
		if t := line.text(); len(t) < 60 && t != "" && signOff.MatchString(t) && i+1 < len(d.lines) {
			from = i + 1
		}
	}
	if from > 0 {
		d.firstPerson = true
		d.cardAt(from, true)
		return
	}
	d.cardAt(0, false)
}

// owner reads the name that stands beside an address made of it, where no name is known: below a list of jobs, at the end of a page. Of
// several people none is the owner.
func (d *document) owner() {
	if d.f.has(formed) {
		return
	}
	found, where := personName{}, part{}
	for i, line := range d.lines {
		line = unbulleted(line)
		if t := line.text(); t == "" || len(t) > 60 || d.listed[i] || strings.Contains(t, "@") {
			continue
		}
		n, ok := d.e.name(line.text(), false)
		if !ok || d.e.words.isCompany(line.text()) {
			continue
		}
		for j := max(0, i-2); j < len(d.lines) && j <= i+3; j++ {
			if d.isMailOf(d.lines[j].text(), n) {
				if found.full != "" && found.full != n.full {
					return
				}
				found, where = n, line
				break
			}
		}
	}
	if found.full != "" {
		d.f.addName(found, formed, where.span())
	}
}

// isMailOf reports whether a line has an address that is made of a name.
func (d *document) isMailOf(line string, n personName) bool {
	at := strings.IndexByte(line, '@')
	if at <= 0 || len(line) > 200 {
		return false
	}
	local := compact(line[strings.LastIndexAny(line[:at], " \t:<(|,;")+1 : at])
	first, last := compact(n.first), compact(n.last)
	return len(first) >= 3 && strings.Contains(local, first) || len(last) >= 3 && strings.Contains(local, last)
}

// Bounds of a card, in lines.
const (
	maxLead = 8  // before the name
	maxCard = 16 // after it
)

// cardAt reads the card whose name stands soon after a line.
func (d *document) cardAt(from int, signed bool) {
	at, name, where, rest := d.cardName(from)
	if at < 0 {
		return
	}
	if d.listed[at] { // the owner's name: what stands below it is no list
		clear(d.listed[at:d.entryEnd(at)])
	}
	job := position{confidence: formed, current: true}
	others := 0
	headline := false
	for i := from; i < at; i++ { // a letterhead
		if line := unbulleted(d.lines[i]); !d.used[i] && !strings.ContainsAny(line.text(), "\t|;") && d.e.isOrg(line) && d.e.words.isCompany(line.text()) {
			job.company = found{line.text(), stated, line.span()}
			break
		}
	}
	for i := at; i < len(d.lines) && i <= at+maxCard; i++ {
		line := unbulleted(d.lines[i])
		parts := rest
		if i > at {
			if d.used[i] {
				others++
				continue
			}
			if line.start == line.end || d.listed[i] {
				continue
			}
			if d.isProse(line) || d.heading(line) != "" {
				if first := sentencesOf(line)[0].trim("."); others == 0 && d.e.isTitlePhrase(first.text()) {
					others++ // "Rust developer in Gdańsk. I look after a parser."
				}
				break
			}
			parts = d.withoutAddress(line)
		}
		took := 0
		if i > at && len(parts) == 0 {
			took++
		}
		for _, p := range parts {
			p = unbulleted(p.trim(",;"))
			if d.cardPart(p, &job, i-at) {
				took++
			}
		}
		if i == at+1 && len(parts) > 1 && d.isPage() && !headline {
			headline = true
			d.f.headline.better(found{line.text(), formed, line.span()})
		}
		if took > 0 && i > at {
			d.used[i] = true
		}
		others += took
	}
	confidence := probable
	alone := true
	for i, line := range d.lines {
		alone = alone && (i == at || line.start == line.end)
	}
	if others > 0 || signed || alone {
		confidence = formed
	}
	d.used[at] = d.used[at] || others > 0
	d.f.addName(name, confidence, where.trim("").span())
	d.f.addPosition(job)
}

// withoutAddress is the parts of a line of a card before the address that it may end in: "Liffey Print Ltd | 22 Quay Street | Dublin 2 |
// Ireland".
func (d *document) withoutAddress(line part) []part {
	parts := line.split(cardSplit)
	for i := range parts {
		if rest := line.sub(parts[i].start-line.start, line.end-line.start); len(parts)-i > 1 && hasDigit(parts[i].text()) && !phoneNumber.MatchString(rest.text()) && !strings.Contains(rest.text(), "@") {
			if pl, ok := d.e.place(rest, false); ok && pl.city.v != nil {
				d.f.addPlace(pl, formed)
				return parts[:i]
			}
		}
	}
	return parts
}

// cardName finds the name at the beginning of a card: a line, or the first part
// of one. rest is the other parts of that line.
func (d *document) cardName(from int) (at int, name personName, where part, rest []part) {
	seen := 0
	for i := from; i < len(d.lines) && seen < maxLead; i++ {
		line := unbulleted(d.lines[i])
		if line.start == line.end {
			continue
		}
		seen++
		if d.used[i] || d.listed[i] && !d.isOwner(i) {
			continue
		}
		if m := cvOf.FindStringIndex(line.text()); m != nil {
			line = line.sub(m[1], line.end-line.start)
		}
		if d.isProse(line) {
			return -1, personName{}, part{}, nil
		}
		intro := d.e.prose.intro.FindStringSubmatchIndex(line.text())
		introduced := intro != nil && intro[0] == 0
		if introduced {
			line = line.sub(intro[2], line.end-line.start)
		}
		parts := line.split(cardSplit)
		if m := named.FindStringSubmatchIndex(parts[0].text()); m != nil { // "Ada Moreau @ada"
			parts = append([]part{parts[0].sub(m[2], m[3]), parts[0].sub(m[4], m[5])}, parts[1:]...)
		}
		if n, ok := d.e.name(parts[0].text(), false); ok && !d.e.words.isCompany(parts[0].text()) {
			return i, n, parts[0], parts[1:]
		}
		if c := line.split(comma); len(c) > 1 && !introduced { // "I'm Ada Moreau, a nurse" is a sentence
			rest := line.sub(c[1].start-line.start, line.end-line.start)
			_, lives := d.e.place(rest, false)
			if n, ok := d.e.name(c[0].text(), false); ok && (lives || d.e.words.isTitle(c[1].text())) {
				return i, n, c[0], []part{rest}
			}
		}
	}
	return -1, personName{}, part{}, nil
}

var named = regexp.MustCompile(`^([^@|]{3,60}?)\s+\(?(@[\w-]{2,40})\)?$`)

// isPage reports whether the text was copied from a profile's page.
func (d *document) isPage() bool {
	for i, line := range d.lines {
		if i > 12 {
			break
		}
		if t := strings.ToLower(line.text()); strings.Contains(t, "contact info") || strings.HasSuffix(t, "connections") {
			return true
		}
	}
	return false
}

// isProse reports whether a line is a sentence rather than an item.
func (d *document) isProse(p part) bool {
	t := p.text()
	words := strings.Fields(t)
	return len(t) > 300 || len(words) > 8 && sentence.MatchString(t) && len(cardSplit.FindAllString(t, 3)) < 2
}

// isTitlePhrase reports whether a phrase that stands alone is a job's title.
func (e *Extractor) isTitlePhrase(s string) bool {
	return len(s) <= 100 && len(strings.Fields(s)) <= 9 && strings.Count(s, ",") <= 2 && !strings.ContainsAny(s, "@={}<>\\|:") && !manyDigits.MatchString(s) && e.words.isTitle(s) && e.words.labels[labelKey(s)] == ""
}

var manyDigits = regexp.MustCompile(`\d{3}`)

// ofOneself begins what somebody says of themselves in a sentence, however short.
var ofOneself = regexp.MustCompile(`^(?i:i['’]m|i am|i['’]ve|i work|ich bin|ich arbeite|je suis|je travaille|soy|trabajo|sono|lavoro|sou|trabalho|ik ben|ik werk|jag är|jeg er)\s`)

var (
	handle  = regexp.MustCompile(`^@[\w-]{2,40}$`)
	onSites = regexp.MustCompile(`(?i)^(github|codehost|twitter|x|microblog|linkedin|network)\s*[:=]`)
)

// cardPart takes one item of a card. distance is how many lines it stands below
// the name.
func (d *document) cardPart(p part, job *position, distance int) bool {
	e, f, t := d.e, d.f, p.text()
	switch {
	case t == "" || siteSuffix.MatchString(t) || onSites.MatchString(t) || isBlank(t) || ofOneself.MatchString(t):
		return false
	case handle.MatchString(t):
		name := strings.ToLower(strings.ReplaceAll(t[1:], "_", ""))
		own := false
		for part := range strings.FieldsSeq(strings.ToLower(f.name.value + " " + d.lineName(p, distance))) {
			own = own || utf8.RuneCountInString(part) > 2 && strings.Contains(name, part)
		}
		if own {
			e.username(f, identity.Microblog, p, formed)
		} else if !job.company.ok() {
			job.company = found{t[1:], stated, p.sub(1, len(t)).span()}
		}
		return true
	case strings.Contains(t, "@") && !strings.Contains(t, " @ ") || strings.Contains(t, "://") || strings.HasPrefix(t, "www."):
		return true // an address, which is read elsewhere
	}
	if pl, ok := e.place(p, false); ok {
		f.addPlace(pl, formed)
		return true
	}
	if digits := len(number.FindAllString(t, 10)); digits > 0 && (phoneNumber.MatchString(t) || digits > 3) {
		return true
	}
	if m := endBrackets.FindStringSubmatchIndex(t); m != nil {
		if pl, ok := e.place(p.sub(m[2], m[3]), strings.Contains(t[m[2]:m[3]], ",")); ok {
			f.addPlace(pl, formed)
			p = p.sub(0, m[0]).trim(",;")
			t = p.text()
		}
	}
	if len(sentencesOf(p)) > 1 { // "Systems programmer. Rust and Zig."
		return d.fragments(p, job)
	}
	if m := e.prose.lives.FindStringSubmatchIndex(t); m != nil && !ofFirm.MatchString(t[:m[0]]) && !e.words.isCompany(t[:m[0]]) {
		if pl, ok := e.place(piece(p, m, 1), true); ok {
			f.addPlace(pl, formed)
			p = p.sub(0, m[0]).trim(",.;")
			t = p.text()
		}
	}
	if rest, pl, ok := e.placed(p); ok {
		f.addPlace(pl, formed)
		p = rest
		t = p.text()
	}
	title, company := e.titleAt(p)
	if e.isTitlePhrase(title.text()) && !job.title.ok() {
		job.title, job.span = found{title.text(), formed, title.span()}, p.span()
		if company.v != nil && e.isOrg(company) {
			job.company = found{company.text(), formed, company.span()}
		}
		return true
	}
	if c := p.split(comma); len(c) > 1 { // "Acme Group, Germany"
		rest := p.sub(c[1].start-p.start, len(t))
		if _, ok := e.place(rest, false); ok || e.words.states[strings.ToLower(rest.text())] {
			p = c[0]
			t = p.text()
		}
	}
	if !job.company.ok() && e.isOrg(p) && !hasDigitOnly(t) {
		switch {
		case e.words.isCompany(t):
			job.company = found{t, formed, p.span()}
			return true
		case job.title.ok() && distance > 0 && distance <= 4 && len(strings.Fields(t)) <= 5 && allCapitalised(t), job.title.ok() && distance == 0:
			job.company = found{t, stated, p.span()}
			return true
		}
	}
	return false
}

var endBrackets = regexp.MustCompile(`\s+\(([^()]{3,80})\)$`)

// lineName is the text of the card's name, for comparison with handles.
func (d *document) lineName(p part, distance int) string {
	for i, line := range d.lines {
		if line.start <= p.start && p.end <= line.end && i-distance >= 0 {
			return d.lines[i-distance].text()
		}
	}
	return ""
}

func hasDigitOnly(s string) bool { return !strings.ContainsFunc(s, unicode.IsLetter) }

// allCapitalised reports whether every word but small ones begins with a capital.
func allCapitalised(s string) bool {
	for w := range strings.FieldsSeq(s) {
		r, _ := utf8.DecodeRuneInString(w)
		if unicode.IsLower(r) && utf8.RuneCountInString(w) > 3 {
			return false
		}
	}
	return true
}

// fragments reads a bio of fragments: "Staff engineer @ Cobalt Search. Previously
// Ridgeline Maps. Rust, Go, Postgres."
func (d *document) fragments(p part, job *position) bool {
	took := false
	for i, s := range sentencesOf(p) {
		s = s.trim(".!")
		t := s.text()
		if t == "" || len(t) > 160 {
			continue
		}
		if m := previously.FindStringIndex(t); m != nil {
			if c := orgHead(s.sub(m[1], len(t))); d.e.isOrg(c) {
				d.f.addPosition(position{company: found{c.text(), stated, c.span()}, past: true, span: s.span(), confidence: stated})
				took = true
			}
			continue
		}
		if pl, ok := d.e.place(s, false); ok {
			d.f.addPlace(pl, stated)
			took = true
			continue
		}
		if i == 0 && !d.f.has(stated) && !job.title.ok() && d.e.introduction(d.f, s, job, stated) { // "Ada Moreau, data engineer."
			job.span = s.span()
			took = true
			continue
		}
		s, pl, _ := d.e.placed(s)
		title, company := d.e.titleAt(s)
		if !job.title.ok() && i == 0 && d.e.isTitlePhrase(title.text()) && len(strings.Fields(title.text())) <= 6 && !opening.MatchString(t) {
			job.title, job.span = found{title.text(), stated, title.span()}, s.span()
			if company.v != nil && d.e.isOrg(company) {
				job.company = found{company.text(), stated, company.span()}
			}
			d.f.addPlace(pl, stated)
			took = true
			continue
		}
		if d.allSkills(s) {
			took = true
		}
	}
	return took
}

var (
	previously = regexp.MustCompile(`^(?i:(?:previously|formerly|ex|prev|past|before|früher|vorher|avant|antes)\s*[:,@-]?\s*(?:at\s+|@\s*)?)`)
	opening    = regexp.MustCompile(`^(?i:looking for|hiring|seeking|we|our|my|the|this|i)\b`)
)

// allSkills takes a list when most of it are known technical terms.
func (d *document) allSkills(p part) bool {
	var items []part
	known := 0
	for _, x := range p.split(listSeparator) {
		for _, y := range x.split(andWord) {
			if y = y.trim("."); y.start < y.end {
				items = append(items, y)
				if d.e.words.skills[strings.ToLower(y.text())] {
					known++
				}
			}
		}
	}
	if known < 2 || known*3 < len(items)*2 {
		return false
	}
	for _, y := range items {
		d.f.skills = addEntry(d.f.skills, entry{y.text(), stated, y.span()})
	}
	return true
}
