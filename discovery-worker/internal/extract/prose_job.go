package extract

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

// sentenceJob is a job in a sentence. Missing pieces are empty.
type sentenceJob struct {
	title, company, since view.Part
	isFormer              bool // a word before the title marks the job as past
	isPast                bool // a word before the end of the match marks it as past
}

// job matches a sentence with a form, by the names of its groups.
func (x *prosePatterns) job(form *regexp.Regexp, s view.Part) (sentenceJob, bool) {
	t := s.Text()
	m := form.FindStringSubmatchIndex(t)
	if m == nil {
		return sentenceJob{}, false
	}
	group := func(name string) view.Part {
		if i := form.SubexpIndex(name); i > 0 {
			return piece(s, m, i)
		}
		return view.Part{}
	}
	return sentenceJob{
		title: group("title"), company: group("company"), since: group("since"),
		isFormer: group("former").View != nil, isPast: x.pastSign.MatchString(t[:m[1]]),
	}, true
}

// readJobs reads a job from a sentence about the person, with the first matching form.
func (d *document) readJobs(s view.Part) {
	x, words := d.e.prose, d.e.words
	if j, ok := x.job(x.joined, s); ok {
		d.addJoined(j, s)
		return
	}
	for _, form := range []*regexp.Regexp{x.worksAs, x.worksAtAs, x.worksAt, x.leads, x.isAt} {
		if j, ok := x.job(form, s); ok && d.addJob(j, s) {
			return
		}
	}
	if j, ok := x.job(x.isOf, s); ok {
		if j = restoreOrgHead(j); words.IsTitle(j.title.Text()) && d.addJob(j, s) {
			return
		}
	}
	if j, ok := x.job(x.isJob, s); ok && words.IsShortTitle(j.title.Text()) && !authorOf.MatchString(j.title.Text()) &&
		d.addJob(j, s) {
		if !j.isPast {
			d.readPlaceAfter(j.title, s)
		}
		return
	}
	if j, ok := d.jobAfterName(s); ok {
		d.addJob(j, s)
	}
}

// restoreOrgHead moves the first word of an organization from the title to the company: "CFO of
// Bank | of | America".
func restoreOrgHead(j sentenceJob) sentenceJob {
	title := j.title.Text()
	if i := strings.LastIndex(title, " of "); i > 0 && orgFirstWords[title[strings.LastIndexByte(title, ' ')+1:]] {
		j.company.Start = j.title.Start + i + len(" of ")
		j.title = j.title.Sub(0, i)
	}
	return j
}

// jobAfterName reads a job after a name: "I'm Ben Carter, a frontend developer at Papertrail
// Games".
func (d *document) jobAfterName(s view.Part) (sentenceJob, bool) {
	t := s.Text()
	m := afterName.FindStringIndex(t)
	if m == nil {
		return sentenceJob{}, false
	}
	rest := s.Sub(m[1], len(t))
	if clause, _, ok := strings.Cut(rest.Text(), ". "); ok {
		rest = rest.Sub(0, len(clause))
	}
	title, company := d.e.SplitTitle(rest)
	if company.View == nil {
		if in := titleEnd.FindStringIndex(title.Text()); in != nil {
			title = title.Sub(0, in[0])
		}
	}
	title = title.Trim(",.")
	return sentenceJob{title: title, company: company, isPast: d.e.prose.pastSign.MatchString(t[:m[1]])},
		d.e.words.IsShortTitle(title.Text())
}

// addJoined adds the job of a person who joined an organization.
func (d *document) addJoined(j sentenceJob, s view.Part) {
	p := position{company: valueOf(phrase.LeadingOrg(j.company), stated), current: true, confidence: stated,
		span: s.Span()}
	if j.title.View != nil && d.isJob(j.title.Text()) {
		p.title = valueOf(j.title, stated)
	}
	if j.since.View != nil {
		p.start, _ = d.e.dates.Parse(j.since.Text())
	}
	d.f.addPosition(p)
}

// addJob adds a job, unless its title cannot be one. It reports whether it did.
func (d *document) addJob(j sentenceJob, s view.Part) bool {
	t := s.Text()
	p := position{confidence: stated, span: s.Span()}
	p.past = j.isFormer || j.isPast && !presentSign.MatchString(t) && !untilPresent.MatchString(t)
	if j.title.View != nil {
		title := j.title.Trim(",")
		if !d.isJob(title.Text()) {
			return false
		}
		if m := formerWord.FindStringIndex(title.Text()); m != nil {
			p.past = true
			title = title.Sub(m[1], title.End-title.Start)
		}
		p.title = valueOf(title, stated)
	}
	if j.company.View != nil {
		p.company = d.readEmployer(phrase.LeadingOrg(j.company), s, p.past)
	}
	p.current = !p.past
	if j.since.View != nil {
		p.start, _ = d.e.dates.Parse(j.since.Text())
	} else if when, ok := d.e.dates.Find(t); ok && when.Current == p.current {
		p.start, p.end = when.Start, when.End
	}
	d.f.addPosition(p)
	return p.title.ok() || p.company.ok()
}

// readEmployer returns the organization of a job. The organization, or the text after it, may be a
// place, which is the person's unless the job is over.
func (d *document) readEmployer(org, s view.Part, past bool) textValue {
	e := d.e
	if name := strings.ToLower(org.Text()); e.words.Cities[name] || e.words.Countries[name] {
		if pl, ok := e.Place(org, true); ok && !past {
			d.f.addPlace(pl, stated)
		}
		return textValue{}
	}
	if !past {
		d.readPlaceAfter(org, s)
	}
	return valueOf(org, stated)
}

// readPlaceAfter reads the place after a piece of a sentence: "at Baobab Analytics in Accra".
func (d *document) readPlaceAfter(p, s view.Part) {
	rest := view.Part{View: s.View, Start: p.End, End: s.End}
	if m := inPlace.FindStringSubmatchIndex(rest.Text()); m != nil {
		if pl, ok := d.e.Place(piece(rest, m, 1), true); ok {
			d.f.addPlace(pl, stated)
		}
	}
}

var (
	untilPresent = regexp.MustCompile(`(?i)\b(?:for (?:the )?(?:last|past)|since)\b.{0,40}\b(?:have|has` +
		`|['’]ve) (?:worked|served|been)\b|\b(?:have|has|['’]ve) (?:worked|served|been)\b.{0,80}\b(?:since` +
		`|for (?:the )?(?:last|past))\b`)
	presentSign = regexp.MustCompile(`(?i)\b(?:is|now|currently|has been)\b`)
	formerWord  = regexp.MustCompile(`^(?i:former(?:ly)?|ex|retired|previous|ehemalige[rn]?|ancien(?:ne)?)[\s-]+`)
	inPlace     = regexp.MustCompile(`^,?\s+(?i:in|à|en|a|em|i|and based in` +
		`|based in)\s+(\p{Lu}[\p{L}\p{M}'’-]*(?:\s+\p{Lu}[\p{L}\p{M}'’-]*){0,3}(?:,\s+\p{Lu}[\p{L}\p{M}'’-]*(?:` +
		`\s+\p{Lu}[\p{L}\p{M}'’-]*){0,2})?)`)
	afterName = regexp.MustCompile(`(?:^|[\s,.!])` + introExpr + nameExpr + `,\s+(?i:an? |the |une? |una |uma? ` +
		`|een |eine? )?`)
	authorOf = regexp.MustCompile(`^(?i:author|writer|editor|creator|father|mother|winner|recipient|son` +
		`|daughter) of `)
	titleEnd = regexp.MustCompile(`\s+(?i:based|living|from|in|who|and i|with)\s|[,.;]`)
	notJob   = regexp.MustCompile(`(?i)^(?:looking|working|going|not|very|so|happy|glad|excited|thrilled` +
		`|delighted|pleased|honou?red|grateful|eager|keen|lucky|proud|known|born|married|interested|responsible` +
		`|available|here|based|best|currently|in|at|on|from|part|one|also|able|still)\b`)
)

// orgFirstWords are first words of organizations that continue with "of".
var orgFirstWords = map[string]bool{ //nolint:gochecknoglobals // a constant set
	"Bank": true, "University": true, "Institute": true, "School": true, "College": true, "Ministry": true,
	"Department": true, "Church": true, "Museum": true, "Academy": true, "House": true, "City": true,
}

// isJob reports whether a phrase between "is" and "at" may be a job.
func (d *document) isJob(s string) bool {
	words := strings.Fields(s)
	if len(words) == 0 || len(words) > 8 || notJob.MatchString(s) {
		return false
	}
	if d.e.words.IsTitle(s) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(s)
	return len(words) <= 3 && unicode.IsLetter(r)
}
