package extract

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

var (
	// signOff ends an e-mail, before its signature.
	signOff = regexp.MustCompile(`(?i)^(?:--|—|(?:(?:with )?(?:best|kind|warm|many|yours)\b.{0,20}|regards|best` +
		`|cheers|thanks(?:!| again)?|thank you|sincerely|warmly|respectfully|cordially` +
		`|mit (?:freundlichen|besten) gr(?:ü|ue)(?:ß|ss)en|(?:viele|beste|liebe|freundliche) gr(?:ü|ue)(?:ß|ss)e` +
		`|cordialement|bien à vous|bien cordialement|saludos(?: cordiales)?|un saludo|atentamente` +
		`|cordiali saluti|distinti saluti` +
		`|atenciosamente|com os melhores cumprimentos|met vriendelijke groet(?:en)?|vriendelijke groet` +
		`|med vänliga hälsningar|med venlig hilsen|vennlig hilsen|pozdrawiam|z poważaniem|с уважением|敬具` +
		`|saygılarımla)[\s,.!]*)$`)
	cvTitle = regexp.MustCompile(
		`(?i)^(?:(?:resume|résumé|cv|curriculum vitae|lebenslauf)\s+(?:of|von|de|for|[-–:])\s*)`)
)

// readCards reads a card: lines at the beginning of a text, or after the sign-off of an e-mail.
func (d *document) readCards() {
	from := 0
	for i, line := range d.lines {
		if t := line.Text(); len(t) < 60 && t != "" && signOff.MatchString(t) && i+1 < len(d.lines) {
			from = i + 1
		}
	}
	if from > 0 {
		d.firstPerson = true
		d.readCard(from, true)
		return
	}
	d.readCard(0, false)
}

// readOwner reads the name next to an address derived from it, if no name is known yet: below a
// list of jobs, or at the end of a page. If several people qualify, it reads none.
func (d *document) readOwner() {
	if d.f.hasName(formed) {
		return
	}
	found, part := phrase.PersonName{}, view.Part{}
	for i, line := range d.lines {
		line = view.TrimBullet(line)
		if t := line.Text(); t == "" || len(t) > 60 || d.listed[i] || strings.Contains(t, "@") {
			continue
		}
		n, ok := d.e.Name(line.Text(), false)
		if !ok || d.e.words.IsCompany(line.Text()) {
			continue
		}
		for j := max(0, i-2); j < len(d.lines) && j <= i+3; j++ {
			if d.isMailOf(d.lines[j].Text(), n) {
				if found.Full != "" && found.Full != n.Full {
					return
				}
				found, part = n, line
				break
			}
		}
	}
	if found.Full != "" {
		d.f.addName(found, formed, part.Span())
	}
}

// isUnknownHeading reports whether a line that looks like a name precedes a name with its own title
// or address. Such a line is a heading in an unsupported language.
func (d *document) isUnknownHeading(i int) bool {
	next := d.nextLine(i)
	if next == i+1 || next == len(d.lines) {
		return false
	}
	n, ok := d.e.Name(view.TrimBullet(d.lines[next]).Text(), false)
	if !ok || d.listed[next] {
		return false
	}
	title, _ := d.describeLineBelow(next)
	for j := next + 1; j < len(d.lines) && j <= next+3; j++ {
		title = title || d.isMailOf(d.lines[j].Text(), n)
	}
	return title
}

// isMailOf reports whether a line has an address derived from a name.
func (d *document) isMailOf(line string, n phrase.PersonName) bool {
	at := strings.IndexByte(line, '@')
	if at <= 0 || len(line) > 200 {
		return false
	}
	local := compact(line[strings.LastIndexAny(line[:at], " \t:<(|,;")+1 : at])
	first, last := compact(n.First), compact(n.Last)
	return len(first) >= 3 && strings.Contains(local, first) || len(last) >= 3 && strings.Contains(local, last)
}

// Limits of a card, in lines.
const (
	maxLead = 8  // before the name
	maxCard = 16 // after it
)

// readCard reads the card whose name follows within a few lines.
func (d *document) readCard(from int, signed bool) {
	at, name, part, rest := d.findCardName(from)
	if at < 0 {
		return
	}
	// The lines below the owner's name are not a list.
	if d.listed[at] {
		clear(d.listed[at:d.entryEnd(at)])
	}
	job := position{confidence: formed, current: true}
	others := 0
	headline := false
	// A letterhead.
	for i := from; i < at; i++ {
		if line := view.TrimBullet(d.lines[i]); !d.used[i] && !strings.ContainsAny(line.Text(), "\t|;") &&
			d.e.IsOrg(line) && d.e.words.IsCompany(line.Text()) {
			job.company = textValue{line.Text(), stated, line.Span()}
			break
		}
	}
	for i := at; i < len(d.lines) && i <= at+maxCard; i++ {
		line := view.TrimBullet(d.lines[i])
		parts := rest
		if i > at {
			if d.used[i] {
				others++
				continue
			}
			if line.Start == line.End || d.listed[i] {
				continue
			}
			if d.isProse(line) || d.headingKind(line) != "" {
				if first := sentencesOf(line)[0].Trim("."); others == 0 && d.e.IsTitlePhrase(first.Text()) {
					others++ // "Rust developer in Gdańsk. I look after a parser."
				}
				break
			}
			parts = d.cutAddress(line)
		}
		took := 0
		if i > at && len(parts) == 0 {
			took++
		}
		for _, p := range parts {
			p = view.TrimBullet(p.Trim(",;"))
			if d.readCardPart(p, &job, i-at) {
				took++
			}
		}
		if i == at+1 && len(parts) > 1 && d.isPage() && !headline {
			headline = true
			d.f.headline.keepSurer(textValue{line.Text(), formed, line.Span()})
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
	d.f.addName(name, confidence, part.Trim("").Span())
	d.f.addPosition(job)
}

// cutAddress returns the parts of a card line without the address at its end, which it adds to the
// facts: "Liffey Print Ltd | 22 Quay Street | Dublin 2 | Ireland".
func (d *document) cutAddress(line view.Part) []view.Part {
	parts := line.Split(phrase.CardSplit)
	for i := range parts {
		if rest := line.Sub(parts[i].Start-line.Start, line.End-line.Start); len(parts)-i > 1 &&
			phrase.HasDigit(parts[i].Text()) && !phrase.PhoneNumber.MatchString(rest.Text()) &&
			!strings.Contains(rest.Text(), "@") {
			if pl, ok := d.e.Place(rest, false); ok && pl.City.View != nil {
				d.f.addPlace(pl, formed)
				return parts[:i]
			}
		}
	}
	return parts
}

// findCardName finds the name at the beginning of a card: a line, or the first part of one. rest
// has the other parts of that line.
func (d *document) findCardName(from int) (at int, name phrase.PersonName, part view.Part, rest []view.Part) {
	seen := 0
	for i := from; i < len(d.lines) && seen < maxLead; i++ {
		line := view.TrimBullet(d.lines[i])
		if line.Start == line.End {
			continue
		}
		seen++
		if d.used[i] || d.listed[i] && !d.isOwner(i) {
			continue
		}
		if m := cvTitle.FindStringIndex(line.Text()); m != nil {
			line = line.Sub(m[1], line.End-line.Start)
		}
		if d.isProse(line) {
			return -1, phrase.PersonName{}, view.Part{}, nil
		}
		intro := d.e.prose.intro.FindStringSubmatchIndex(line.Text())
		introduced := intro != nil && intro[0] == 0
		if introduced {
			line = line.Sub(intro[2], line.End-line.Start)
		}
		parts := line.Split(phrase.CardSplit)
		if m := nameWithHandle.FindStringSubmatchIndex(parts[0].Text()); m != nil { // "Ada Moreau @ada"
			parts = append([]view.Part{parts[0].Sub(m[2], m[3]), parts[0].Sub(m[4], m[5])}, parts[1:]...)
		}
		if n, ok := d.e.Name(parts[0].Text(), false); ok && !d.e.words.IsCompany(parts[0].Text()) {
			if len(parts) == 1 && d.isUnknownHeading(i) {
				continue
			}
			return i, n, parts[0], parts[1:]
		}
		// "I'm Ada Moreau, a nurse" is a sentence.
		if c := line.Split(phrase.Comma); len(c) > 1 && !introduced {
			rest := line.Sub(c[1].Start-line.Start, line.End-line.Start)
			_, hasPlace := d.e.Place(rest, false)
			if n, ok := d.e.Name(c[0].Text(), false); ok && (hasPlace || d.e.words.IsTitle(c[1].Text())) {
				return i, n, c[0], []view.Part{rest}
			}
		}
	}
	return -1, phrase.PersonName{}, view.Part{}, nil
}

var nameWithHandle = regexp.MustCompile(`^([^@|]{3,60}?)\s+\(?(@[\w-]{2,40})\)?$`)

// isPage reports whether the text was copied from a profile page.
func (d *document) isPage() bool {
	for i, line := range d.lines {
		if i > 12 {
			break
		}
		if t := strings.ToLower(line.Text()); strings.Contains(t, "contact info") ||
			strings.HasSuffix(t, "connections") {
			return true
		}
	}
	return false
}

// isProse reports whether a line is a sentence rather than an item.
func (d *document) isProse(p view.Part) bool {
	t := p.Text()
	words := strings.Fields(t)
	return len(t) > 300 || len(words) > 8 && phrase.Sentence.MatchString(t) &&
		len(phrase.CardSplit.FindAllString(t, 3)) < 2
}

// firstPersonStart matches the start of a sentence in the first person, however short.
var firstPersonStart = regexp.MustCompile(
	`^(?i:i['’]m|i am|i['’]ve|i work|ich bin|ich arbeite|je suis|je travaille|soy` +
		`|trabajo|sono|lavoro|sou|trabalho|ik ben|ik werk|jag är|jeg er)\s`)

var (
	handleItem = regexp.MustCompile(`^@[\w-]{2,40}$`)
	siteLabel  = regexp.MustCompile(`(?i)^(github|codehost|twitter|x|microblog|linkedin|network)\s*[:=]`)
)

// readCardPart reads one item of a card. distance is the number of lines below the name. It reports
// whether the item was used.
func (d *document) readCardPart(p view.Part, job *position, distance int) bool {
	e, f, t := d.e, d.f, p.Text()
	switch {
	case t == "" || phrase.SiteSuffix.MatchString(t) || siteLabel.MatchString(t) || phrase.IsBlank(t) ||
		firstPersonStart.MatchString(t):
		return false
	case handleItem.MatchString(t):
		name := strings.ToLower(strings.ReplaceAll(t[1:], "_", ""))
		own := false
		for part := range strings.FieldsSeq(strings.ToLower(f.name.value + " " + d.cardNameText(p, distance))) {
			own = own || utf8.RuneCountInString(part) > 2 && strings.Contains(name, part)
		}
		if own {
			e.addUsername(f, identity.Microblog, p, formed)
		} else if !job.company.ok() {
			job.company = textValue{t[1:], stated, p.Sub(1, len(t)).Span()}
		}
		return true
	case strings.Contains(t, "@") && !strings.Contains(t, " @ ") || strings.Contains(t, "://") ||
		strings.HasPrefix(t, "www."):
		return true // addresses are read by findIdentifiers
	}
	if pl, ok := e.Place(p, false); ok {
		f.addPlace(pl, formed)
		return true
	}
	if digits := len(phrase.Number.FindAllString(t, 10)); digits > 0 &&
		(phrase.PhoneNumber.MatchString(t) || digits > 3) {
		return true
	}
	if m := endBrackets.FindStringSubmatchIndex(t); m != nil {
		if pl, ok := e.Place(p.Sub(m[2], m[3]), strings.Contains(t[m[2]:m[3]], ",")); ok {
			f.addPlace(pl, formed)
			p = p.Sub(0, m[0]).Trim(",;")
			t = p.Text()
		}
	}
	if len(sentencesOf(p)) > 1 { // "Systems programmer. Rust and Zig."
		return d.readFragments(p, job)
	}
	if m := e.prose.residence.FindStringSubmatchIndex(t); m != nil && !firmContext.MatchString(t[:m[0]]) &&
		!e.words.IsCompany(t[:m[0]]) {
		if pl, ok := e.Place(piece(p, m, 1), true); ok {
			f.addPlace(pl, formed)
			p = p.Sub(0, m[0]).Trim(",.;")
			t = p.Text()
		}
	}
	if rest, pl, ok := e.SplitPlace(p); ok {
		f.addPlace(pl, formed)
		p = rest
		t = p.Text()
	}
	title, company := e.SplitTitle(p)
	if e.IsTitlePhrase(title.Text()) && !job.title.ok() {
		job.title, job.span = textValue{title.Text(), formed, title.Span()}, p.Span()
		if company.View != nil && e.IsOrg(company) {
			job.company = textValue{company.Text(), formed, company.Span()}
		}
		return true
	}
	if c := p.Split(phrase.Comma); len(c) > 1 { // "Acme Group, Germany"
		rest := p.Sub(c[1].Start-p.Start, len(t))
		if _, ok := e.Place(rest, false); ok || e.words.States[strings.ToLower(rest.Text())] {
			p = c[0]
			t = p.Text()
		}
	}
	if !job.company.ok() && e.IsOrg(p) && !phrase.HasDigitOnly(t) {
		switch {
		case e.words.IsCompany(t):
			job.company = textValue{t, formed, p.Span()}
			return true
		case job.title.ok() && distance > 0 && distance <= 4 && len(strings.Fields(t)) <= 5 && phrase.AllCapitalized(t),
			job.title.ok() && distance == 0:
			job.company = textValue{t, stated, p.Span()}
			return true
		}
	}
	return false
}

var endBrackets = regexp.MustCompile(`\s+\(([^()]{3,80})\)$`)

// cardNameText returns the line of the card's name, for comparison with handles.
func (d *document) cardNameText(p view.Part, distance int) string {
	for i, line := range d.lines {
		if line.Start <= p.Start && p.End <= line.End && i-distance >= 0 {
			return d.lines[i-distance].Text()
		}
	}
	return ""
}

// readFragments reads a bio of fragments: "Staff engineer @ Cobalt Search. Previously Ridgeline
// Maps. Rust, Go, Postgres."
func (d *document) readFragments(p view.Part, job *position) bool {
	took := false
	for i, s := range sentencesOf(p) {
		s = s.Trim(".!")
		t := s.Text()
		if t == "" || len(t) > 160 {
			continue
		}
		if m := formerStart.FindStringIndex(t); m != nil {
			if c := phrase.LeadingOrg(s.Sub(m[1], len(t))); d.e.IsOrg(c) {
				d.f.addPosition(position{company: textValue{c.Text(), stated, c.Span()}, past: true, span: s.Span(),
					confidence: stated})
				took = true
			}
			continue
		}
		if pl, ok := d.e.Place(s, false); ok {
			d.f.addPlace(pl, stated)
			took = true
			continue
		}
		// "Ada Moreau, data engineer."
		if i == 0 && !d.f.hasName(stated) && !job.title.ok() && d.e.readIntroduction(d.f, s, job, stated) {
			job.span = s.Span()
			took = true
			continue
		}
		s, pl, _ := d.e.SplitPlace(s)
		title, company := d.e.SplitTitle(s)
		if !job.title.ok() && i == 0 && d.e.IsTitlePhrase(title.Text()) && len(strings.Fields(title.Text())) <= 6 &&
			!opening.MatchString(t) {
			job.title, job.span = textValue{title.Text(), stated, title.Span()}, s.Span()
			if company.View != nil && d.e.IsOrg(company) {
				job.company = textValue{company.Text(), stated, company.Span()}
			}
			d.f.addPlace(pl, stated)
			took = true
			continue
		}
		if d.readSkillSentence(s) {
			took = true
		}
	}
	return took
}

var (
	formerStart = regexp.MustCompile(`^(?i:(?:previously|formerly|ex|prev|past|before|früher|vorher|avant` +
		`|antes)\s*[:,@-]?\s*(?:at\s+|@\s*)?)`)
	opening = regexp.MustCompile(`^(?i:looking for|hiring|seeking|we|our|my|the|this|i)\b`)
)

// readSkillSentence reads a list as skills if most of its items are known technical terms.
func (d *document) readSkillSentence(p view.Part) bool {
	var items []view.Part
	skills := 0
	for _, x := range p.Split(listSeparator) {
		for _, y := range x.Split(andWord) {
			if y = y.Trim("."); y.Start < y.End {
				items = append(items, y)
				if d.e.words.Skills[strings.ToLower(y.Text())] {
					skills++
				}
			}
		}
	}
	if skills < 2 || skills*3 < len(items)*2 {
		return false
	}
	for _, y := range items {
		d.f.skills = addEntry(d.f.skills, entry{y.Text(), stated, y.Span()})
	}
	return true
}

// readIntroduction reads a name followed by title and employer: "Nadia Rahman, Senior Broker,
// Bayfront Realty".
func (e *Extractor) readIntroduction(f *facts, v view.Part, p *position, confidence float64) bool {
	parts := v.Split(phrase.Comma)
	if len(parts) < 2 || len(parts) > 4 || len(v.Text()) > 200 || p.title.ok() {
		return false
	}
	n, ok := e.Name(parts[0].Text(), false)
	if !ok || !e.IsTitlePhrase(parts[1].Text()) {
		return false
	}
	f.addName(n, confidence, parts[0].Span())
	title, company := e.SplitTitle(parts[1])
	p.title = textValue{title.Text(), confidence, title.Span()}
	if company.View == nil && len(parts) > 2 && e.IsOrg(parts[2]) {
		company = parts[2]
	}
	if company.View != nil {
		p.company = textValue{company.Text(), confidence - 0.01, company.Span()}
	}
	return true
}
