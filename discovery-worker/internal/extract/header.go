package extract

import (
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
	"regexp"
	"strings"
)

var (
	// mailboxLine is a label and a mailbox (RFC 5322), as headers of mails and of
	// commits have it.
	mailboxLine = regexp.MustCompile(`^([A-Za-z][A-Za-z -]{1,30}):\s*"?([^<>"@:]{3,80}?)"?\s*<([^<>\s]{3,254})>$`)
	// commonName is a parameter of iCalendar (RFC 5545, 3.2.2).
	commonName = regexp.MustCompile(`^(ORGANIZER|ATTENDEE)(?:;[^:]{0,200})?;CN="?([^";:]{3,80})"?[;:]`)
	// recipient is a header that names somebody else.
	recipient = regexp.MustCompile(`(?i)^(?:to|cc|bcc|resent-to|delivered-to|x-original-to|reply-to|list-\w+|return-path|(?:reviewed|acked|tested|suggested|reported)-by|committer)$`)
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

// viewed finds identifiers in what a text says rather than in how it is written: a form of a browser, LaTeX.
func (e *Extractor) viewed(f *facts, v *view.View) {
	for _, line := range v.Lines() {
		found := facts{seen: map[string]int{}}
		e.identifiers(&found, v.Path, line.Text())
		for _, id := range found.identifiers { // offsets are those of the line
			id.Span = line.Sub(id.Span.Start, id.Span.End).Span()
			f.addIdentifier(id, identifierKey(id))
		}
	}
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

// introduction reads a name with title and employer behind it: "Nadia Rahman, Senior
// Broker, Bayfront Realty".
func (e *Extractor) introduction(f *facts, v view.Part, p *position, confidence float64) bool {
	parts := v.Split(phrase.Comma)
	if len(parts) < 2 || len(parts) > 4 || len(v.Text()) > 200 || p.title.ok() {
		return false
	}
	n, ok := e.Name(parts[0].Text(), false)
	if !ok || !e.IsTitlePhrase(parts[1].Text()) {
		return false
	}
	f.addName(n, confidence, parts[0].Span())
	title, company := e.TitleAt(parts[1])
	p.title = found{title.Text(), confidence, title.Span()}
	if company.V == nil && len(parts) > 2 && e.IsOrg(parts[2]) {
		company = parts[2]
	}
	if company.V != nil {
		p.company = found{company.Text(), confidence - 0.01, company.Span()}
	}
	return true
}
