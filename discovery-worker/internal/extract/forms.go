package extract

import (
	"regexp"
	"strings"

	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

var (
	labelLine     = regexp.MustCompile(`^(\p{L}[\p{L}\p{M}\d _/.,&\-–'’()・]{0,110}?)\s*[:=]\s*(.*)$`)
	vcardLine     = regexp.MustCompile(`^([A-Z]{1,12})((?:;[^:]{0,60})?):(.*)$`)
	bibliographic = regexp.MustCompile(`^@\w{3,20}\{`)
	beginVCard    = regexp.MustCompile(`(?i)^BEGIN:VCARD$`)
)

// block is what labels say of one job or school of a list, beside document.labelled.
type block struct {
	school school
	dated  bool
	last   int // line of its last label
}

// labels reads lines of a label and a value.
func (d *document) labels() {
	work := len(d.lines) > 0 && bibliographic.MatchString(d.lines[0].Text()) // its title is a book's
	for i, line := range d.lines {
		t := view.Unbulleted(line)
		text := t.Text()
		if len(text) > 2000 || !strings.ContainsAny(text, ":=") {
			continue
		}
		if cells := d.cells(t); len(cells) > 1 {
			for _, c := range cells {
				if m := labelLine.FindStringSubmatchIndex(c.Text()); m != nil {
					d.used[i] = d.label(i, d.e.words.Kind(c.Text()[m[2]:m[3]]), c.Sub(m[4], m[5]).Trim("")) || d.used[i]
				}
			}
			continue
		}
		if beginVCard.MatchString(text) {
			d.vcard = true
		}
		if d.vcard {
			if m := vcardLine.FindStringSubmatchIndex(text); m != nil {
				d.used[i] = true
				d.card(text[m[2]:m[3]], strings.ToLower(text[m[4]:m[5]]), t.Sub(m[6], m[7]).Trim(""))
				continue
			}
		}
		if d.headed(i, t) {
			continue
		}
		m := labelLine.FindStringSubmatchIndex(text)
		if m == nil || strings.HasPrefix(text[m[3]:], "://") || strings.HasPrefix(text[m[4]:], "//") {
			continue
		}
		kind := d.e.words.Kind(text[m[2]:m[3]])
		value := braced(t.Sub(m[4], m[5]).Trim("")).Trim("\"“”[]")
		if (kind == "" || kind == "person" || kind == "start") && d.isPeriod(value) {
			kind = "period"
		}
		if kind == "" && d.officer(t.Sub(m[2], m[3]), value) || (kind == "" || kind == "start") && d.e.introduction(d.f, value, &d.labelled, formed) {
			d.used[i] = true
			continue
		}
		if kind == "" || kind == "bio" || work && kind == "title" {
			continue
		}
		if value.Start == value.End {
			continue // a heading
		}
		d.used[i] = d.label(i, kind, value)
	}
	d.endBlock()
}

var (
	cellSplit = regexp.MustCompile(`\t+|\s{3,}|\s*[|│]\s*|\s+[·•;]\s+`)
	// cellLabel begins a label in scripts that need no wide space before it: "姓名:周子昂 性别:男".
	cellLabel = regexp.MustCompile(`\s+[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}]{2,8}\s?:`)
)

// cells are the labels and values of a line that has several, each of a known label.
func (d *document) cells(line view.Part) []view.Part {
	text := line.Text()
	if strings.Count(text, ":") < 2 || len(text) > 1000 {
		return nil
	}
	cells, least := line.Split(cellSplit), 2
	if len(cells) < 2 {
		from := 0
		cells, least = nil, 1
		for _, m := range cellLabel.FindAllStringIndex(text, 32) {
			cells = append(cells, line.Sub(from, m[0]).Trim(""))
			from = m[0]
		}
		cells = append(cells, line.Sub(from, len(text)).Trim(""))
	}
	known := 0
	for _, c := range cells {
		if m := labelLine.FindStringSubmatchIndex(c.Text()); m != nil && m[4] < m[5] && d.e.words.Kind(c.Text()[m[2]:m[3]]) != "" {
			known++
		}
	}
	if known < least {
		return nil
	}
	return cells
}

// isPeriod reports whether a value is a period of time and nothing else.
func (d *document) isPeriod(value view.Part) bool {
	when, ok := d.e.dates.Find(value.Text())
	return ok && when.At[0] < 4 && len(strings.Trim(value.Text()[when.At[1]:], " .)")) == 0
}

// label takes the value of a label. In lists of jobs and schools it tells one entry from the next. It reports
// whether it used the value.
func (d *document) label(i int, kind string, value view.Part) bool {
	if kind == "" || kind == "bio" {
		return false
	}
	adjacent := d.block.last > 0 && i-d.block.last <= 1
	switch kind {
	case "period":
		if !d.isPeriod(value) {
			return false
		}
		if d.block.dated || !adjacent && d.inBlock() {
			d.endBlock()
		}
		d.block.dated = true
	case "title", "company", "company address", "degree", "school name", "field":
		if d.block.dated && d.said(kind) {
			d.endBlock()
		}
	case "person":
		before := d.f.name
		d.e.value(d.f, kind, value, &d.labelled, labelled)
		return d.f.name != before || len(sentencesOf(value)) < 2
	case "email", "personal email", "work email", "phone": // sentences may follow
		d.e.value(d.f, kind, value, &d.labelled, labelled)
		return len(sentencesOf(value)) < 2
	default:
		d.e.value(d.f, kind, value, &d.labelled, labelled)
		return true
	}
	d.block.last = i
	switch s := &d.block.school; kind {
	case "degree":
		s.degree = value.Text()
	case "field":
		s.field = value.Text()
	case "school name":
		s.name, s.span = value.Split(phrase.Comma)[0].Text(), value.Span()
	default:
		d.e.value(d.f, kind, value, &d.labelled, labelled)
	}
	return true
}

// inBlock reports whether something is known of an entry.
func (d *document) inBlock() bool {
	return d.labelled.title.ok() || d.labelled.company.ok() || d.block.school != school{}
}

// said reports whether an entry has what a label names.
func (d *document) said(kind string) bool {
	switch kind {
	case "title":
		return d.labelled.title.ok()
	case "company", "company address":
		return d.labelled.company.ok()
	case "degree":
		return d.block.school.degree != ""
	case "school name":
		return d.block.school.name != ""
	}
	return false
}

// endBlock adds the job or school that the labels up to here tell of.
func (d *document) endBlock() {
	p, s := d.labelled, d.block.school
	if s.name != "" || s.degree != "" {
		s.start, s.end, s.confidence = p.start, p.end, labelled
		d.f.addSchool(s)
	}
	if p.title.ok() || p.company.ok() {
		p.confidence, p.listed = labelled, d.block.dated
		if !d.block.dated {
			p.past = p.end != ""
			p.current = !p.past
		}
		d.f.addPosition(p)
	}
	d.labelled, d.block = position{}, block{}
}

var (
	// mailboxLine is a label and a mailbox (RFC 5322), as headers of mails and of
	// commits have it.
	mailboxLine = regexp.MustCompile(`^([A-Za-z][A-Za-z -]{1,30}):\s*"?([^<>"@:]{3,80}?)"?\s*<([^<>\s]{3,254})>$`)
	// commonName is a parameter of iCalendar (RFC 5545, 3.2.2).
	commonName = regexp.MustCompile(`^(ORGANIZER|ATTENDEE)(?:;[^:]{0,200})?;CN="?([^";:]{3,80})"?[;:]`)
	// recipient is a header that names another person.
	recipient = regexp.MustCompile(`(?i)^(?:to|cc|bcc|resent-to|delivered-to|x-original-to|reply-to|list-\w+` +
		`|return-path|(?:reviewed|acked|tested|suggested|reported)-by|committer)$`)
)

// headed reads a line that names a person with an address.
func (d *document) headed(i int, line view.Part) bool {
	t := line.Text()
	if len(t) > 400 {
		return false
	}
	m := commonName.FindStringSubmatchIndex(t)
	if m == nil {
		m = mailboxLine.FindStringSubmatchIndex(t)
	}
	if m == nil || recipient.MatchString(t[m[2]:m[3]]) {
		return false
	}
	n, ok := d.e.Name(t[m[4]:m[5]], false)
	if !ok {
		return false
	}
	confidence := labelled
	if strings.EqualFold(t[m[2]:m[3]], "attendee") {
		confidence = probable
	}
	d.f.addName(n, confidence, line.Sub(m[4], m[5]).Span())
	d.used[i] = true
	return true
}

// officer reads a line that says who holds a post: "CEO: Stella Marsh".
func (d *document) officer(label, value view.Part) bool {
	if !d.e.IsTitlePhrase(label.Text()) || d.labelled.title.ok() {
		return false
	}
	n, ok := d.e.Name(value.Text(), false)
	if !ok || d.f.has(labelled) && !d.f.subject(n.Full) {
		return false
	}
	d.f.addName(n, labelled, value.Span())
	d.labelled.title = found{label.Text(), labelled, label.Span()}
	return true
}

// braced is a value without the braces and the comma that BibTeX and its like put
// around it.
func braced(v view.Part) view.Part {
	if t := strings.TrimRight(v.Text(), ", "); len(t) > 2 && t[0] == '{' && t[len(t)-1] == '}' {
		return v.Sub(1, len(t)-1).Trim("{}")
	}
	return v
}

// below reads labels that stand on a line of their own, their values on the next: a
// form that was sent by mail. One alone may be a heading.
func (d *document) below() {
	type pair struct {
		at    int
		kind  string
		value view.Part
	}
	var pairs []pair
	for i := 0; i+1 < len(d.lines); i++ {
		label := d.lines[i].Trim(":*")
		if d.used[i] || label.Start == label.End || len(label.Text()) > 40 || len(strings.Fields(label.Text())) > 4 {
			continue
		}
		next := i + 1
		if d.lines[next].Start == d.lines[next].End {
			continue
		}
		value := d.lines[next]
		switch kind := d.e.words.Kind(label.Text()); kind {
		case "", "bio", "experience", "education", "skills", "languages", "person", "current position":
		default:
			if d.e.words.Kind(value.Text()) == "" && len(value.Text()) <= 200 && !d.used[next] {
				pairs = append(pairs, pair{i, kind, value})
				i = next
			}
		}
	}
	if len(pairs) < 3 {
		return
	}
	for _, p := range pairs {
		d.used[p.at], d.used[p.at+1] = true, true
		d.e.value(d.f, p.kind, p.value, &d.labelled, labelled)
	}
}

// card reads a line of a vCard (RFC 6350).
func (d *document) card(name, params string, value view.Part) {
	f := d.f
	switch name {
	case "FN":
		d.e.value(f, "name", value, &d.labelled, certain)
	case "N":
		parts := value.Split(semicolon)
		if len(parts) > 1 {
			d.e.value(f, "last", parts[0], &d.labelled, certain)
			d.e.value(f, "first", parts[1], &d.labelled, certain)
		}
	case "ORG":
		d.e.value(f, "company", value.Split(semicolon)[0], &d.labelled, certain)
	case "TITLE", "ROLE":
		d.e.value(f, "title", value, &d.labelled, certain)
	case "EMAIL":
		kind := "email"
		if strings.Contains(params, "work") {
			kind = "work email"
		} else if strings.Contains(params, "home") {
			kind = "personal email"
		}
		d.e.value(f, kind, value, &d.labelled, certain)
	case "TEL":
		d.e.value(f, "phone", value, &d.labelled, certain)
	case "ADR":
		parts := value.Split(semicolon)
		if len(parts) == 7 {
			for i, kind := range map[int]string{3: "city", 4: "state", 6: "country"} {
				d.e.value(f, kind, parts[i], &d.labelled, labelled)
			}
		}
	}
}

var semicolon = regexp.MustCompile(`\s*;\s*`)

// mailbox is a name and an address (RFC 5322).
var mailbox = regexp.MustCompile(`^"?([^<>"@]{3,80}?)"?\s*<([^<>\s]{3,254})>$`)

// mailboxes reads lines that are a name and an address.
func (d *document) mailboxes() {
	for i, line := range d.lines {
		t := line.Text()
		if d.used[i] || len(t) > 400 || !strings.HasSuffix(t, ">") {
			continue
		}
		m := mailbox.FindStringSubmatchIndex(t)
		if m == nil || !strings.Contains(t[m[4]:m[5]], "@") {
			continue
		}
		if n, ok := d.e.Name(t[m[2]:m[3]], false); ok {
			d.f.addName(n, formed, line.Sub(m[2], m[3]).Span())
			d.used[i] = true
		}
	}
}
