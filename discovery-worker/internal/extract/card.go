package extract

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/view"
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
func (e *Extractor) titleAt(p view.Part) (title, company view.Part) {
	t := p.Text()
	if m := atWord.FindStringIndex(t); m != nil && m[0] > 0 && m[1] < len(t) {
		if c := orgHead(p.Sub(m[1], len(t))); c.Start < c.End {
			return p.Sub(0, m[0]).Trim(",-–—|"), c
		}
	}
	for _, sep := range []*regexp.Regexp{cardSplit, comma} {
		parts := p.Split(sep)
		if len(parts) > 2 && siteSuffix.MatchString(parts[0].Text()) { // "Angestellt, Projektleiter, Nordwind GmbH"
			parts = parts[1:]
		}
		if len(parts) < 2 {
			continue
		}
		a, b := parts[0].Trim(""), parts[1].Trim("")
		if e.words.IsTitle(a.Text()) && e.words.Departments[strings.ToLower(b.Text())] { // "Vice President, Marketing"
			if len(parts) < 3 || !e.isOrg(parts[2].Trim("")) {
				return p, view.Part{}
			}
			a, b = p.Sub(0, b.End-p.Start), parts[2].Trim("")
		}
		switch {
		case e.words.IsTitle(a.Text()) && e.isOrg(b) && (!e.words.IsTitle(b.Text()) || e.words.IsCompany(b.Text())):
			return a, b
		case e.words.IsTitle(b.Text()) && e.isOrg(a) && !e.words.IsTitle(a.Text()):
			return b, a
		}
	}
	return p, view.Part{}
}

// orgEnd ends the name of an employer in a card or headline.
var orgEnd = regexp.MustCompile(`\s+[|·•–—]\s+|\s+-\s+|[;(]|[.!?](?:\s|$)|\s+and I\b|,\s+(?:[\p{Ll}]|[\p{Lu}][\p{L}]+(?:,|$))|\s+(?:in|where|and (?:the|a|an)|based|since|from|with)\s|\s+[iw]\s+\p{Lu}`)

// orgHead is the employer's name at the beginning of a phrase.
func orgHead(p view.Part) view.Part {
	t := p.Text()
	if m := orgEnd.FindStringIndex(t); m != nil {
		if dot := t[m[0]:m[1]]; !(strings.HasPrefix(dot, ".") && abbreviated(t[:m[0]])) {
			p = p.Sub(0, m[0])
		}
	}
	p = p.Trim("@,")
	if len(p.Text()) > 100 {
		return p.Sub(0, 0)
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
func (e *Extractor) isOrg(p view.Part) bool {
	t := p.Text()
	if t == "" || len(t) > 80 || len(strings.Fields(t)) > 7 || strings.ContainsAny(t, "@<>{}=") || strings.Contains(t, "://") || isBlank(t) || siteSuffix.MatchString(t) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(t)
	if unicode.IsLower(r) || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return false
	}
	if sentence.MatchString(t) && !e.words.IsCompany(t) {
		return false
	}
	l := strings.ToLower(t)
	if e.words.Cities[l] || e.words.Countries[l] || e.words.States[l] || e.words.Languages[l] || e.words.Heading(t) != "" || e.words.Labels[l] != "" {
		return false
	}
	if _, ok := e.place(p, false); ok {
		return false
	}
	if _, ok := e.dates.Find(t); ok {
		return false
	}
	_, _, ok := e.dates.FindOne(t)
	return !ok && phoneNumber.FindStringIndex(t) == nil
}

// cards reads the lines that stand like a card: at the beginning of a text, and
// below the end of a mail.
func (d *document) cards() {
	from := 0
	for i, line := range d.lines {
		if t := line.Text(); len(t) < 60 && t != "" && signOff.MatchString(t) && i+1 < len(d.lines) {
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
	found, where := personName{}, view.Part{}
	for i, line := range d.lines {
		line = view.Unbulleted(line)
		if t := line.Text(); t == "" || len(t) > 60 || d.listed[i] || strings.Contains(t, "@") {
			continue
		}
		n, ok := d.e.name(line.Text(), false)
		if !ok || d.e.words.IsCompany(line.Text()) {
			continue
		}
		for j := max(0, i-2); j < len(d.lines) && j <= i+3; j++ {
			if d.isMailOf(d.lines[j].Text(), n) {
				if found.full != "" && found.full != n.full {
					return
				}
				found, where = n, line
				break
			}
		}
	}
	if found.full != "" {
		d.f.addName(found, formed, where.Span())
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
		if line := view.Unbulleted(d.lines[i]); !d.used[i] && !strings.ContainsAny(line.Text(), "\t|;") && d.e.isOrg(line) && d.e.words.IsCompany(line.Text()) {
			job.company = found{line.Text(), stated, line.Span()}
			break
		}
	}
	for i := at; i < len(d.lines) && i <= at+maxCard; i++ {
		line := view.Unbulleted(d.lines[i])
		parts := rest
		if i > at {
			if d.used[i] {
				others++
				continue
			}
			if line.Start == line.End || d.listed[i] {
				continue
			}
			if d.isProse(line) || d.heading(line) != "" {
				if first := sentencesOf(line)[0].Trim("."); others == 0 && d.e.isTitlePhrase(first.Text()) {
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
			p = view.Unbulleted(p.Trim(",;"))
			if d.cardPart(p, &job, i-at) {
				took++
			}
		}
		if i == at+1 && len(parts) > 1 && d.isPage() && !headline {
			headline = true
			d.f.headline.better(found{line.Text(), formed, line.Span()})
		}
		if took > 0 && i > at {
			d.used[i] = true
		}
		others += took
	}
	confidence := probable
	alone := true
	for i, line := range d.lines {
		alone = alone && (i == at || line.Start == line.End)
	}
	if others > 0 || signed || alone {
		confidence = formed
	}
	d.used[at] = d.used[at] || others > 0
	d.f.addName(name, confidence, where.Trim("").Span())
	d.f.addPosition(job)
}

// withoutAddress is the parts of a line of a card before the address that it may end in: "Liffey Print Ltd | 22 Quay Street | Dublin 2 |
// Ireland".
func (d *document) withoutAddress(line view.Part) []view.Part {
	parts := line.Split(cardSplit)
	for i := range parts {
		if rest := line.Sub(parts[i].Start-line.Start, line.End-line.Start); len(parts)-i > 1 && hasDigit(parts[i].Text()) && !phoneNumber.MatchString(rest.Text()) && !strings.Contains(rest.Text(), "@") {
			if pl, ok := d.e.place(rest, false); ok && pl.city.V != nil {
				d.f.addPlace(pl, formed)
				return parts[:i]
			}
		}
	}
	return parts
}

// cardName finds the name at the beginning of a card: a line, or the first part
// of one. rest is the other parts of that line.
func (d *document) cardName(from int) (at int, name personName, where view.Part, rest []view.Part) {
	seen := 0
	for i := from; i < len(d.lines) && seen < maxLead; i++ {
		line := view.Unbulleted(d.lines[i])
		if line.Start == line.End {
			continue
		}
		seen++
		if d.used[i] || d.listed[i] && !d.isOwner(i) {
			continue
		}
		if m := cvOf.FindStringIndex(line.Text()); m != nil {
			line = line.Sub(m[1], line.End-line.Start)
		}
		if d.isProse(line) {
			return -1, personName{}, view.Part{}, nil
		}
		intro := d.e.prose.intro.FindStringSubmatchIndex(line.Text())
		introduced := intro != nil && intro[0] == 0
		if introduced {
			line = line.Sub(intro[2], line.End-line.Start)
		}
		parts := line.Split(cardSplit)
		if m := named.FindStringSubmatchIndex(parts[0].Text()); m != nil { // "Ada Moreau @ada"
			parts = append([]view.Part{parts[0].Sub(m[2], m[3]), parts[0].Sub(m[4], m[5])}, parts[1:]...)
		}
		if n, ok := d.e.name(parts[0].Text(), false); ok && !d.e.words.IsCompany(parts[0].Text()) {
			return i, n, parts[0], parts[1:]
		}
		if c := line.Split(comma); len(c) > 1 && !introduced { // "I'm Ada Moreau, a nurse" is a sentence
			rest := line.Sub(c[1].Start-line.Start, line.End-line.Start)
			_, lives := d.e.place(rest, false)
			if n, ok := d.e.name(c[0].Text(), false); ok && (lives || d.e.words.IsTitle(c[1].Text())) {
				return i, n, c[0], []view.Part{rest}
			}
		}
	}
	return -1, personName{}, view.Part{}, nil
}

var named = regexp.MustCompile(`^([^@|]{3,60}?)\s+\(?(@[\w-]{2,40})\)?$`)

// isPage reports whether the text was copied from a profile's page.
func (d *document) isPage() bool {
	for i, line := range d.lines {
		if i > 12 {
			break
		}
		if t := strings.ToLower(line.Text()); strings.Contains(t, "contact info") || strings.HasSuffix(t, "connections") {
			return true
		}
	}
	return false
}

// isProse reports whether a line is a sentence rather than an item.
func (d *document) isProse(p view.Part) bool {
	t := p.Text()
	words := strings.Fields(t)
	return len(t) > 300 || len(words) > 8 && sentence.MatchString(t) && len(cardSplit.FindAllString(t, 3)) < 2
}

// isTitlePhrase reports whether a phrase that stands alone is a job's title.
func (e *Extractor) isTitlePhrase(s string) bool {
	return len(s) <= 100 && len(strings.Fields(s)) <= 9 && strings.Count(s, ",") <= 2 && !strings.ContainsAny(s, "@={}<>\\|:") && !manyDigits.MatchString(s) && e.words.IsTitle(s) && e.words.Labels[lexicon.LabelKey(s)] == ""
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
func (d *document) cardPart(p view.Part, job *position, distance int) bool {
	e, f, t := d.e, d.f, p.Text()
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
			job.company = found{t[1:], stated, p.Sub(1, len(t)).Span()}
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
		if pl, ok := e.place(p.Sub(m[2], m[3]), strings.Contains(t[m[2]:m[3]], ",")); ok {
			f.addPlace(pl, formed)
			p = p.Sub(0, m[0]).Trim(",;")
			t = p.Text()
		}
	}
	if len(sentencesOf(p)) > 1 { // "Systems programmer. Rust and Zig."
		return d.fragments(p, job)
	}
	if m := e.prose.lives.FindStringSubmatchIndex(t); m != nil && !ofFirm.MatchString(t[:m[0]]) && !e.words.IsCompany(t[:m[0]]) {
		if pl, ok := e.place(piece(p, m, 1), true); ok {
			f.addPlace(pl, formed)
			p = p.Sub(0, m[0]).Trim(",.;")
			t = p.Text()
		}
	}
	if rest, pl, ok := e.placed(p); ok {
		f.addPlace(pl, formed)
		p = rest
		t = p.Text()
	}
	title, company := e.titleAt(p)
	if e.isTitlePhrase(title.Text()) && !job.title.ok() {
		job.title, job.span = found{title.Text(), formed, title.Span()}, p.Span()
		if company.V != nil && e.isOrg(company) {
			job.company = found{company.Text(), formed, company.Span()}
		}
		return true
	}
	if c := p.Split(comma); len(c) > 1 { // "Acme Group, Germany"
		rest := p.Sub(c[1].Start-p.Start, len(t))
		if _, ok := e.place(rest, false); ok || e.words.States[strings.ToLower(rest.Text())] {
			p = c[0]
			t = p.Text()
		}
	}
	if !job.company.ok() && e.isOrg(p) && !hasDigitOnly(t) {
		switch {
		case e.words.IsCompany(t):
			job.company = found{t, formed, p.Span()}
			return true
		case job.title.ok() && distance > 0 && distance <= 4 && len(strings.Fields(t)) <= 5 && allCapitalised(t), job.title.ok() && distance == 0:
			job.company = found{t, stated, p.Span()}
			return true
		}
	}
	return false
}

var endBrackets = regexp.MustCompile(`\s+\(([^()]{3,80})\)$`)

// lineName is the text of the card's name, for comparison with handles.
func (d *document) lineName(p view.Part, distance int) string {
	for i, line := range d.lines {
		if line.Start <= p.Start && p.End <= line.End && i-distance >= 0 {
			return d.lines[i-distance].Text()
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
func (d *document) fragments(p view.Part, job *position) bool {
	took := false
	for i, s := range sentencesOf(p) {
		s = s.Trim(".!")
		t := s.Text()
		if t == "" || len(t) > 160 {
			continue
		}
		if m := previously.FindStringIndex(t); m != nil {
			if c := orgHead(s.Sub(m[1], len(t))); d.e.isOrg(c) {
				d.f.addPosition(position{company: found{c.Text(), stated, c.Span()}, past: true, span: s.Span(), confidence: stated})
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
			job.span = s.Span()
			took = true
			continue
		}
		s, pl, _ := d.e.placed(s)
		title, company := d.e.titleAt(s)
		if !job.title.ok() && i == 0 && d.e.isTitlePhrase(title.Text()) && len(strings.Fields(title.Text())) <= 6 && !opening.MatchString(t) {
			job.title, job.span = found{title.Text(), stated, title.Span()}, s.Span()
			if company.V != nil && d.e.isOrg(company) {
				job.company = found{company.Text(), stated, company.Span()}
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
func (d *document) allSkills(p view.Part) bool {
	var items []view.Part
	known := 0
	for _, x := range p.Split(listSeparator) {
		for _, y := range x.Split(andWord) {
			if y = y.Trim("."); y.Start < y.End {
				items = append(items, y)
				if d.e.words.Skills[strings.ToLower(y.Text())] {
					known++
				}
			}
		}
	}
	if known < 2 || known*3 < len(items)*2 {
		return false
	}
	for _, y := range items {
		d.f.skills = addEntry(d.f.skills, entry{y.Text(), stated, y.Span()})
	}
	return true
}
