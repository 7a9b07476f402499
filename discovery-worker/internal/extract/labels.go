package extract

import (
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
	"regexp"
	"strings"
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

// label takes the value of a label. In lists of jobs and schools it tells one entry from the next. It reports whether it used the value.
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
