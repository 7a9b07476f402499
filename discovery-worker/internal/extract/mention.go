package extract

import (
	"regexp"
	"strings"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

// mentionPatterns match sentences that introduce a person in a text by others, with title or
// employer.
type mentionPatterns struct {
	inBrackets *regexp.Regexp // "Ada Moreau (CTO, Northwind)"
	apposition *regexp.Regexp // "Ada Moreau, head of research at Northwind"
	aged       *regexp.Regexp // "Ada Moreau, 81, of Salem, Oregon, a retired teacher, died"
	cued       *regexp.Regexp // "welcome Ada Moreau, who joins us as Analyst"
	announced  *regexp.Regexp // "Northwind announced the appointment of"
	asJob      *regexp.Regexp // ", who joins us as Analyst"
	from       *regexp.Regexp // "joins from Oakline, where she was a buyer"
	whereWas   *regexp.Regexp // "at Oakline, where she was a buyer from 2017 to 2021"
	retired    *regexp.Regexp
	ofOrg      *regexp.Regexp // " of the Delta Centre"
	dashed     *regexp.Regexp // "Ada Moreau — CTO at Northwind"
}

func newMentionPatterns(d *dates.Reader) *mentionPatterns {
	day := `(?i:` + d.Expr + `)`
	return &mentionPatterns{
		inBrackets: regexp.MustCompile(`(?:^|[\s,;:])(` + nameExpr + `)(?:\s+(?:today|yesterday|again` +
			`|earlier))?\s+\((?:[Cc]urrently |[Nn]ow )?([^()]{2,120})\)`),
		apposition: regexp.MustCompile(`(?:^|[\s:;(–—-])(` + nameExpr + `),\s+(?i:an? |the |our ` +
			`|its )?([^,.;:()]{3,90}?)\s+(?:at|of|@|with|for|bei|chez|hos|på)\s+` + article + orgExpr + `(?:$` +
			`|[\s,.;:!?)])`),
		aged: regexp.MustCompile(`^(` + nameExpr + `),\s+(?i:aged? )?\d{2,3},`),
		cued: regexp.MustCompile(`(?i:(?:^|\s)(?:reach|contact|e-?mail|find|follow|call|write to|connect with` +
			`|get in touch with|hire|welcome|welcomes|meet|introduc(?:e|es|ing)|featuring|guest|interview with` +
			`|joined by|with me (?:today )?(?:is|are)|with us (?:today )?is|thank|thanks to|appointment of` +
			`|promotion of|hiring of|` +
			`appoint(?:s|ed)|names|named|hire[sd]|promote[sd]|managing|supervising|mentoring|working with` +
			`|worked with|recommend|spoke (?:to|with)|(?:presented|written|hosted|produced|edited|photographed` +
			`|directed|designed|illustrated|translated|created|authored|published|recorded|taught|led) by` +
			`|spoke w/|call w/|met with|congratulations to|goes to|awarded to|honou?rs))\s+(?i:our ` +
			`|to )?(` + nameExpr + `)(?:$|[\s,.;:!?(])`),
		announced: regexp.MustCompile(`(?:^|[\s,–—-])` + orgExpr + `\s+(?i:today |has |have |also |proudly ` +
			`|is (?:pleased|proud|delighted|happy) to )*(?i:announce[sd]?|appoint(?:s|ed)?|name[sd]?|hire[sd]?` +
			`|promote[sd]?|welcome[sd]?)\s`),
		asJob: regexp.MustCompile(`^,?\s*(?i:(?:who )?(?:joins|joined|is joining|starts|started|will (?:join` +
			`|start|serve))?[^,.;]{0,30}?\s?\b(?:as|to the (?:role|position|post) of))\s+(?i:an? |the |its |our ` +
			`|new )*([\p{L}][^.,;:()!?]{2,80}?)(?:$|[.,;]|\s+(?i:at|effective|from|starting|in|on|and)\s)`),
		from: regexp.MustCompile(`(?i:joins?|joined|comes|came|moves|moved|arrives` +
			`|arrived)\b[^,.;]{0,20}?\s(?i:from)\s+(?i:the )?` + orgExpr +
			`(?:,\s+(?i:where (?:he|she|they) (?:most recently |last )?(?:was|served as|worked as|held the (?:role` +
			`|position) of|spent [^,.;]{3,30} as))\s+(?i:an? |the |its )?([\p{L}][^.,;:()!?]{2,80}?))?(?:$` +
			`|[.,;]|\s+(?i:from|for|and|until)\s)`),
		whereWas: regexp.MustCompile(`(?i:\bat)\s+(?i:the )?` + orgExpr + `,\s+(?i:where (?:he|she|they|i) (?:was` +
			`|were|served as|worked as))\s+(?i:an? |the |our |its )?([\p{L}][^.,;:()!?]{2,80}?)(?:\s+(?i:from` +
			`|between)\s+(` + day + `)\s+(?i:to|until|and|through)\s+(` + day + `))?(?:$|[.,;]|\s+(?i:for|and` +
			`|until|in)\s)`),
		ofOrg: regexp.MustCompile(`^,?\s+(?i:of|from|at)\s+(?i:the )?` + orgExpr + `(?:$|[\s,.;])`),
		dashed: regexp.MustCompile(`^(` + nameExpr + `)\s+[—–-]\s+([^.;:()—–]{3,90}?)\s+(?i:at|of|@|bei|chez|hos` +
			`|på|в(?: компании)?|w(?: firmie)?)\s+` + orgExpr + `(?:$|[\s,.;])`),
		retired: regexp.MustCompile(`(?i:\b(?:an?|the)\s+(?:retired|former)\s+)([\p{Ll}][^.,;:()!?]{2,60}?)(?:$` +
			`|[,.;]|\s+(?i:who|and|at|from)\s)`),
	}
}

// readMention reads a sentence that introduces a person, if the subject of the text is not known
// yet. It reports whether it did.
func (d *document) readMention(s view.Part) bool {
	e, f, t, x := d.e, d.f, s.Text(), d.e.mentionForms
	hasName := f.hasName(stated)
	if hasName && !strings.Contains(t, f.last.value) && !strings.Contains(t, f.first.value) {
		return false
	}
	// setName sets the name from group 1, if it is or may be the subject's.
	setName := func(m []int) bool {
		p := piece(s, m, 1)
		n, ok := d.longestName(p)
		if !ok || hasName && !f.isSubject(n.Full) {
			return false
		}
		f.addName(n, stated, view.Part{View: s.View, Start: p.Start,
			End: p.Start + len(strings.TrimRight(p.Text(), " "))}.Span())
		return true
	}
	if strings.IndexByte(t, '(') > 0 {
		if m := x.inBrackets.FindStringSubmatchIndex(t); m != nil {
			inner := piece(s, m, 2)
			p := position{confidence: stated, current: true, span: s.Span()}
			if pl, ok := d.readBrackets(inner, &p); ok && setName(m) {
				f.addPosition(p)
				f.addPlace(pl, stated)
				return true
			}
		}
	}
	if m := x.dashed.FindStringSubmatchIndex(t); m != nil && e.words.IsTitle(t[m[4]:m[5]]) && setName(m) {
		f.addPosition(position{title: valueOf(piece(s, m, 2), stated),
			company: valueOf(phrase.LeadingOrg(piece(s, m, 3)), stated), current: true, confidence: stated,
			span: s.Span()})
		return true
	}
	if m := x.apposition.FindStringSubmatchIndex(t); m != nil && e.words.IsTitle(t[m[4]:m[5]]) && setName(m) {
		title := piece(s, m, 2)
		past := false
		if at := formerWord.FindStringIndex(title.Text()); at != nil {
			title, past = title.Sub(at[1], title.End-title.Start), true
		}
		f.addPosition(position{title: valueOf(title, stated),
			company: valueOf(phrase.LeadingOrg(piece(s, m, 3)), stated), current: !past, past: past, confidence: stated,
			span: s.Span()})
		return true
	}
	if m := x.aged.FindStringSubmatchIndex(t); m != nil && setName(m) {
		if r := x.retired.FindStringSubmatchIndex(t); r != nil && e.words.IsTitle(t[r[2]:r[3]]) {
			f.addPosition(position{title: valueOf(piece(s, r, 1), stated), past: true, confidence: stated,
				span: s.Span()})
		}
		return true
	}
	if m := x.cued.FindStringSubmatchIndex(t); m != nil && setName(m) {
		rest := s.Sub(m[3], len(t))
		d.readIntroduced(s, rest, t[:m[2]])
		return true
	}
	return false
}

// readBrackets reads brackets after a name: a title and an organization, or an organization and a
// place. It returns false for anything else.
func (d *document) readBrackets(inner view.Part, p *position) (phrase.Location, bool) {
	e := d.e
	if pl, ok := e.Place(inner, strings.Contains(inner.Text(), ",")); ok && !pl.Empty() &&
		(e.words.Cities[strings.ToLower(pl.City.TextOrEmpty())] || pl.State.View != nil && pl.Country.View != nil) {
		return pl, true
	}
	parts := inner.Split(phrase.Comma)
	if title, company := e.SplitTitle(inner); company.View != nil && e.words.IsTitle(title.Text()) {
		p.title, p.company = valueOf(title, stated), valueOf(company, stated)
		if c := company.Split(phrase.Comma); len(c) == 2 { // "Polder Analytics, NL"
			if pl, ok := e.Place(c[1], phrase.IsCode(c[1].Text())); ok {
				p.company = valueOf(c[0], stated)
				return pl, true
			}
		}
		return phrase.Location{}, true
	}
	first := parts[0].Trim("")
	switch {
	case e.words.IsTitle(first.Text()) && e.IsTitlePhrase(first.Text()) && len(parts) == 2 && e.IsOrg(parts[1]):
		p.title, p.company = valueOf(first, stated), valueOf(parts[1], stated)
		return phrase.Location{}, true
	case e.IsOrg(first) && (e.words.IsSchool(first.Text()) || e.words.IsCompany(first.Text())):
		p.company = valueOf(first, stated)
		return phrase.Location{}, true
	}
	return phrase.Location{}, false
}

// readIntroduced reads the text after the name of an introduced person, and the introducing
// organization.
func (d *document) readIntroduced(s, rest view.Part, before string) {
	e, f, x := d.e, d.f, d.e.mentionForms
	if m := x.asJob.FindStringSubmatchIndex(rest.Text()); m != nil {
		if title := piece(rest, m, 1); e.words.IsTitle(title.Text()) {
			p := position{title: valueOf(title, stated), current: true, confidence: stated, span: s.Span()}
			if a := x.announced.FindStringSubmatchIndex(before + " "); a != nil {
				if org := phrase.LeadingOrg(piece(s, a, 1)); e.IsOrg(org) &&
					!e.words.NotNames[strings.ToLower(org.Text())] && !strings.EqualFold(org.Text(), "please") {
					p.company = valueOf(org, stated)
				}
			}
			f.addPosition(p)
		}
	}
	// "Dr Vanessa Tran of the Delta Centre, Can Tho, Vietnam"
	if m := x.ofOrg.FindStringSubmatchIndex(rest.Text()); m != nil {
		org := phrase.LeadingOrg(piece(rest, m, 1))
		if e.IsOrg(org) && (e.words.IsCompany(org.Text()) || e.words.IsSchool(org.Text()) ||
			len(strings.Fields(org.Text())) > 1) {
			f.addPosition(position{company: valueOf(org, stated), current: true, confidence: stated, span: s.Span()})
			if tail := placeTail.FindStringSubmatchIndex(s.View.Text[org.End:s.End]); tail != nil {
				if pl, ok := e.Place(piece(view.Part{View: s.View, Start: org.End, End: s.End}, tail, 1), false); ok {
					f.addPlace(pl, stated)
				}
			}
		}
	}
	d.readFormerJob(s)
}

var placeTail = regexp.MustCompile(`^,\s+(\p{Lu}[^,.;()]{1,40}(?:,\s+\p{Lu}[^,.;()]{1,40})?)(?:$|[,.;])`)

// readFormerJob reads a previous employer.
func (d *document) readFormerJob(s view.Part) bool {
	e, f, t, x := d.e, d.f, s.Text(), d.e.mentionForms
	if m := x.from.FindStringSubmatchIndex(t); m != nil {
		p := position{company: valueOf(phrase.LeadingOrg(piece(s, m, 1)), stated), past: true, confidence: stated,
			span: s.Span()}
		if title := piece(s, m, 2); title.View != nil && e.words.IsTitle(title.Text()) {
			p.title = valueOf(title, stated)
		}
		f.addPosition(p)
		return true
	}
	if m := x.whereWas.FindStringSubmatchIndex(t); m != nil {
		title := piece(s, m, 2)
		if !e.words.IsTitle(title.Text()) && len(strings.Fields(title.Text())) > 3 {
			return false
		}
		p := position{title: valueOf(title, stated), company: valueOf(phrase.LeadingOrg(piece(s, m, 1)), stated),
			past: true, confidence: stated, span: s.Span()}
		if m[6] >= 0 {
			p.start, _ = e.dates.Parse(t[m[6]:m[7]])
			p.end, _ = e.dates.Parse(t[m[8]:m[9]])
		}
		f.addPosition(p)
		return true
	}
	return false
}

// readNameBrackets reads brackets after a labeled name.
func (e *Extractor) readNameBrackets(f *facts, v view.Part, p *position) {
	t := v.Text()
	open := strings.IndexByte(t, '(')
	end := strings.LastIndexByte(t, ')')
	if open <= 0 || end < open {
		return
	}
	d := &document{e: e, f: f}
	inner := v.Sub(open+1, end).Trim("")
	if pl, ok := d.readBrackets(inner, p); ok {
		f.addPlace(pl, formed)
		return
	}
	if pl, ok := e.Place(inner, true); ok && pl.Country.View != nil {
		f.addPlace(pl, formed)
	}
}
