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

// labelBlock is the labeled school of a list entry; the job is in document.labeledJob.
type labelBlock struct {
	school school
	dated  bool
	last   int // line of its last label
}

// readLabels reads lines with a label and a value.
func (d *document) readLabels() {
	work := len(d.lines) > 0 && bibliographic.MatchString(d.lines[0].Text()) // the title is that of a book
	for i, line := range d.lines {
		t := view.TrimBullet(line)
		text := t.Text()
		if len(text) > 2000 || !strings.ContainsAny(text, ":=") {
			continue
		}
		if cells := d.labeledCells(t); len(cells) > 1 {
			for _, c := range cells {
				if m := labelLine.FindStringSubmatchIndex(c.Text()); m != nil {
					d.used[i] = d.readLabel(i, d.e.words.Kind(c.Text()[m[2]:m[3]]), c.Sub(m[4], m[5]).Trim("")) ||
						d.used[i]
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
				d.readVCardLine(text[m[2]:m[3]], strings.ToLower(text[m[4]:m[5]]), t.Sub(m[6], m[7]).Trim(""))
				continue
			}
		}
		if d.readMailboxHeader(i, t) {
			continue
		}
		m := labelLine.FindStringSubmatchIndex(text)
		if m == nil || strings.HasPrefix(text[m[3]:], "://") || strings.HasPrefix(text[m[4]:], "//") {
			continue
		}
		kind := d.e.words.Kind(text[m[2]:m[3]])
		value := trimBraces(t.Sub(m[4], m[5]).Trim("")).Trim("\"“”[]")
		if (kind == "" || kind == "person" || kind == "start") && d.isPeriod(value) {
			kind = "period"
		}
		if kind == "" && d.readOfficer(t.Sub(m[2], m[3]), value) || (kind == "" || kind == "start") &&
			d.e.readIntroduction(d.f, value, &d.labeledJob, formed) {
			d.used[i] = true
			continue
		}
		if kind == "" || kind == "bio" || work && kind == "title" {
			continue
		}
		if value.Start == value.End {
			continue // a heading
		}
		d.used[i] = d.readLabel(i, kind, value)
	}
	d.flushBlock()
}

var (
	cellSplit = regexp.MustCompile(`\t+|\s{3,}|\s*[|│]\s*|\s+[·•;]\s+`)
	// cellLabel matches a label in scripts that need no wide space before it: "姓名:周子昂 性别:男".
	cellLabel = regexp.MustCompile(`\s+[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}]{2,8}\s?:`)
)

// labeledCells returns the cells of a line with several known labels and their values.
func (d *document) labeledCells(line view.Part) []view.Part {
	text := line.Text()
	if strings.Count(text, ":") < 2 || len(text) > 1000 {
		return nil
	}
	cells, minLabels := line.Split(cellSplit), 2
	if len(cells) < 2 {
		from := 0
		cells, minLabels = nil, 1
		for _, m := range cellLabel.FindAllStringIndex(text, 32) {
			cells = append(cells, line.Sub(from, m[0]).Trim(""))
			from = m[0]
		}
		cells = append(cells, line.Sub(from, len(text)).Trim(""))
	}
	labeled := 0
	for _, c := range cells {
		if m := labelLine.FindStringSubmatchIndex(c.Text()); m != nil && m[4] < m[5] &&
			d.e.words.Kind(c.Text()[m[2]:m[3]]) != "" {
			labeled++
		}
	}
	if labeled < minLabels {
		return nil
	}
	return cells
}

// isPeriod reports whether a value is a period and nothing else.
func (d *document) isPeriod(value view.Part) bool {
	when, ok := d.e.dates.Find(value.Text())
	return ok && when.At[0] < 4 && len(strings.Trim(value.Text()[when.At[1]:], " .)")) == 0
}

// readLabel reads the value of a label. In lists of jobs and schools it separates the entries. It
// reports whether it used the value.
func (d *document) readLabel(i int, kind string, value view.Part) bool {
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
			d.flushBlock()
		}
		d.block.dated = true
	case "title", "company", "company address", "degree", "school name", "field":
		if d.block.dated && d.hasValue(kind) {
			d.flushBlock()
		}
	case "person":
		before := d.f.name
		d.e.readValue(d.f, kind, value, &d.labeledJob, labeled)
		return d.f.name != before || len(sentencesOf(value)) < 2
	case "email", "personal email", "work email", "phone": // sentences may follow
		d.e.readValue(d.f, kind, value, &d.labeledJob, labeled)
		return len(sentencesOf(value)) < 2
	default:
		d.e.readValue(d.f, kind, value, &d.labeledJob, labeled)
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
		d.e.readValue(d.f, kind, value, &d.labeledJob, labeled)
	}
	return true
}

// inBlock reports whether the current entry has a value.
func (d *document) inBlock() bool {
	return d.labeledJob.title.ok() || d.labeledJob.company.ok() || d.block.school != school{}
}

// hasValue reports whether the current entry has the value that a label names.
func (d *document) hasValue(kind string) bool {
	switch kind {
	case "title":
		return d.labeledJob.title.ok()
	case "company", "company address":
		return d.labeledJob.company.ok()
	case "degree":
		return d.block.school.degree != ""
	case "school name":
		return d.block.school.name != ""
	}
	return false
}

// flushBlock adds the job or school of the labels read so far.
func (d *document) flushBlock() {
	p, s := d.labeledJob, d.block.school
	if s.name != "" || s.degree != "" {
		s.start, s.end, s.confidence = p.start, p.end, labeled
		d.f.addSchool(s)
	}
	if p.title.ok() || p.company.ok() {
		p.confidence, p.listed = labeled, d.block.dated
		if !d.block.dated {
			p.past = p.end != ""
			p.current = !p.past
		}
		d.f.addPosition(p)
	}
	d.labeledJob, d.block = position{}, labelBlock{}
}

var (
	// mailboxLine matches a label and a mailbox (RFC 5322), as in headers of e-mails and commits.
	mailboxLine = regexp.MustCompile(`^([A-Za-z][A-Za-z -]{1,30}):\s*"?([^<>"@:]{3,80}?)"?\s*<([^<>\s]{3,254})>$`)
	// commonName matches the CN parameter of iCalendar (RFC 5545, section 3.2.2).
	commonName = regexp.MustCompile(`^(ORGANIZER|ATTENDEE)(?:;[^:]{0,200})?;CN="?([^";:]{3,80})"?[;:]`)
	// recipientHeader matches a header that names another person.
	recipientHeader = regexp.MustCompile(`(?i)^(?:to|cc|bcc|resent-to|delivered-to|x-original-to|reply-to|list-\w+` +
		`|return-path|(?:reviewed|acked|tested|suggested|reported)-by|committer)$`)
)

// readMailboxHeader reads a line that names a person with an address.
func (d *document) readMailboxHeader(i int, line view.Part) bool {
	t := line.Text()
	if len(t) > 400 {
		return false
	}
	m := commonName.FindStringSubmatchIndex(t)
	if m == nil {
		m = mailboxLine.FindStringSubmatchIndex(t)
	}
	if m == nil || recipientHeader.MatchString(t[m[2]:m[3]]) {
		return false
	}
	n, ok := d.e.Name(t[m[4]:m[5]], false)
	if !ok {
		return false
	}
	confidence := labeled
	if strings.EqualFold(t[m[2]:m[3]], "attendee") {
		confidence = probable
	}
	d.f.addName(n, confidence, line.Sub(m[4], m[5]).Span())
	d.used[i] = true
	return true
}

// readOfficer reads a line with a post and its holder: "CEO: Stella Marsh".
func (d *document) readOfficer(label, value view.Part) bool {
	if !d.e.IsTitlePhrase(label.Text()) || d.labeledJob.title.ok() {
		return false
	}
	n, ok := d.e.Name(value.Text(), false)
	if !ok || d.f.hasName(labeled) && !d.f.isSubject(n.Full) {
		return false
	}
	d.f.addName(n, labeled, value.Span())
	d.labeledJob.title = textValue{label.Text(), labeled, label.Span()}
	return true
}

// trimBraces removes the braces and the comma of BibTeX values.
func trimBraces(v view.Part) view.Part {
	if t := strings.TrimRight(v.Text(), ", "); len(t) > 2 && t[0] == '{' && t[len(t)-1] == '}' {
		return v.Sub(1, len(t)-1).Trim("{}")
	}
	return v
}

// readStackedLabels reads labels whose values are on the next line, as in forms sent by e-mail. It
// needs at least three, because one may be a heading.
func (d *document) readStackedLabels() {
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
		d.e.readValue(d.f, p.kind, p.value, &d.labeledJob, labeled)
	}
}

// readVCardLine reads a line of a vCard (RFC 6350).
func (d *document) readVCardLine(name, params string, value view.Part) {
	f := d.f
	switch name {
	case "FN":
		d.e.readValue(f, "name", value, &d.labeledJob, certain)
	case "N":
		parts := value.Split(semicolon)
		if len(parts) > 1 {
			d.e.readValue(f, "last", parts[0], &d.labeledJob, certain)
			d.e.readValue(f, "first", parts[1], &d.labeledJob, certain)
		}
	case "ORG":
		d.e.readValue(f, "company", value.Split(semicolon)[0], &d.labeledJob, certain)
	case "TITLE", "ROLE":
		d.e.readValue(f, "title", value, &d.labeledJob, certain)
	case "EMAIL":
		kind := "email"
		if strings.Contains(params, "work") {
			kind = "work email"
		} else if strings.Contains(params, "home") {
			kind = "personal email"
		}
		d.e.readValue(f, kind, value, &d.labeledJob, certain)
	case "TEL":
		d.e.readValue(f, "phone", value, &d.labeledJob, certain)
	case "ADR":
		parts := value.Split(semicolon)
		if len(parts) == 7 {
			for i, kind := range map[int]string{3: "city", 4: "state", 6: "country"} {
				d.e.readValue(f, kind, parts[i], &d.labeledJob, labeled)
			}
		}
	}
}

var semicolon = regexp.MustCompile(`\s*;\s*`)

// mailbox matches a name and an address (RFC 5322).
var mailbox = regexp.MustCompile(`^"?([^<>"@]{3,80}?)"?\s*<([^<>\s]{3,254})>$`)

// readMailboxes reads lines with a name and an address.
func (d *document) readMailboxes() {
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
