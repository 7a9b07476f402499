package extract

import (
	"regexp"
	"strings"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

// readValue reads a value of a labeled kind. It sets the parts of a job in p.
func (e *Extractor) readValue(f *facts, kind string, v view.Part, p *position, confidence float64) {
	v = v.Trim("*_")
	t := v.Text()
	if phrase.IsBlank(t) {
		return
	}
	span := v.Span()
	f1 := textValue{t, confidence, span}
	switch kind {
	case "name":
		if n, ok := e.Name(t, true); ok {
			f.addName(n, confidence, span)
		}
	case lexicon.FamilyGiven, lexicon.GivenFamily:
		if n, ok := e.NameParts(t, kind == lexicon.FamilyGiven); ok {
			f.addName(n, confidence, span)
		}
	case "person":
		if n, ok := e.Name(t, false); ok {
			f.addName(n, confidence, span)
			e.readNameBrackets(f, v, p)
		} else {
			e.readIntroduction(f, v, p, confidence)
		}
	case "first", "last":
		if n, ok := e.Name(t, true); ok && len(t) <= 80 {
			to := &f.first
			if kind == "last" {
				to = &f.last
			}
			to.keepSurer(textValue{n.Full, confidence + 0.001, span})
		}
	case "title":
		if len(t) <= 150 && !strings.ContainsAny(t, "{}<>=\\") && !strings.Contains(t, "://") && !isHonorific(t) &&
			!p.title.ok() && e.words.Heading(t) == "" {
			v, pl, _ := e.SplitPlace(v)
			// The place of a job in a list need not be the person's.
			if !p.listed {
				f.addPlace(pl, stated)
			}
			title, company := e.SplitTitle(v)
			p.title = textValue{title.Text(), confidence, title.Span()}
			if company.View != nil && !p.company.ok() {
				p.company = textValue{company.Text(), confidence - 0.01, company.Span()}
			}
		}
	case "company":
		if c := v.Trim("@"); len(t) <= 150 && (!p.company.ok() || p.company.confidence < confidence) {
			p.company = textValue{c.Text(), confidence, c.Span()}
		}
	// The name precedes the address.
	case "company address":
		e.readValue(f, "company", v.Split(phrase.PlaceSplit)[0], p, confidence)
	case "period":
		if when, ok := e.dates.Find(t); ok {
			p.start, p.end, p.current, p.past, p.span = when.Start, when.End, when.Current, !when.Current, span
		}
	case "company url":
		if _, err := e.platforms.ParseCompany(t); err == nil {
			p.companyURL = textValue{cleanURL(t, true), confidence, span}
		}
	case "start", "end":
		if date, ok := e.dates.Parse(t); ok && kind == "start" {
			p.start, p.span = date, span
		} else if ok {
			p.end = date
		}
	case "email", "personal email", "work email":
		for _, x := range v.Split(emailSeparator) {
			e.addEmail(f, x.Trim("<>").Text(), strings.TrimSuffix(strings.TrimSuffix(kind, "email"), " "), confidence,
				x.Trim("<>").Span())
		}
	case "phone":
		e.addPhone(f, v, "ZZ", confidence)
	case "website":
		if strings.HasPrefix(t, "@") {
			return
		}
		e.findIdentifiers(f, span.Path, t)
	case identity.Codehost, identity.Network, identity.Microblog:
		if _, _, err := e.platforms.ParseAny(t); err != nil {
			e.addUsername(f, kind, v, confidence)
		}
	case "codehost id":
		if phrase.Number.FindString(t) == t {
			f.codehostID.keepSurer(f1)
		}
	case "headline":
		f.headline.keepSurer(f1)
	default:
		e.readPlaceOrList(f, kind, v, p, confidence)
	}
}

// readPlaceOrList reads values of places and lists.
func (e *Extractor) readPlaceOrList(f *facts, kind string, v view.Part, p *position, confidence float64) {
	t, span := v.Text(), v.Span()
	switch kind {
	case "location", "address":
		if pl, ok := e.Place(v, kind == "location"); ok &&
			(kind == "location" || pl.City.View != nil || pl.Country.View != nil || pl.State.View != nil) {
			f.addPlace(pl, confidence)
		}
	case "city":
		if pl, ok := e.Place(v, true); ok && strings.Contains(t, ",") {
			f.addPlace(pl, confidence)
		} else if ok && phrase.IsPlaceName(t, true) {
			f.city.keepSurer(textValue{t, confidence, span})
		}
	case "state":
		if phrase.IsPlaceName(t, true) {
			f.state.keepSurer(textValue{t, confidence, span})
		}
	case "country":
		if phrase.IsPlaceName(t, true) {
			f.country.keepSurer(textValue{t, confidence, span})
		}
	case "skills":
		e.readSkillList(f, v, confidence)
	case "languages":
		e.readLanguageList(f, v, confidence)
	case "education":
		e.readSchoolLine(f, v, confidence)
	case "experience", "current position":
		if title, company := e.SplitTitle(v); company.View == nil && kind == "current position" {
			e.readValue(f, "title", v, p, confidence)
		} else if company.View != nil && !p.title.ok() {
			p.title = textValue{title.Text(), confidence, title.Span()}
			p.company = textValue{company.Text(), confidence, company.Span()}
		}
	case "school name":
		f.addSchool(school{name: t, span: span, confidence: confidence})
	}
}

var (
	emailSeparator = regexp.MustCompile(`[\s,;]+`)
	listSeparator  = regexp.MustCompile(`\s*(?:[,;|•·、،]|\s/\s)\s*`)
	andWord        = regexp.MustCompile(`\s+(?:and|und|et|y|e|en|och|og|&)\s+`)
	lastAnd        = regexp.MustCompile(`^(?:and|und|et|y|e|en|och|og|&)\s+`)
)

var (
	// skillQualifier matches a level before a skill: "some Rust", "a bit of Go".
	skillQualifier = regexp.MustCompile(`^(?:(?i:(?:some|a (?:little )?bit of|a bit|a little|little|lots? of|a lot of` +
		`|currently learning|learning|knowledge of|familiar(?:ity)? with|experience (?:with|in)|proficien(?:t` +
		`|cy) (?:with|in)` +
		`|etwas|ein wenig|ein bisschen|grundkenntnisse (?:in|von)|gute kenntnisse in|sehr gute kenntnisse in` +
		`|kenntnisse in|notions d[e'’]|bases (?:de|en)|connaissances? (?:de|en)|un peu d[e'’]|ma[iî]trise d[e'’]` +
		`|algo de|un poco de|nociones de|conocimientos? (?:básicos )?(?:de|en)|conoscenz[ae] (?:base )?(?:di|del)` +
		`|un po['’] di|noções de|um pouco de|conhecimentos? (?:de|em)|een beetje|basiskennis|lite|litt|lidt` +
		`|grundläggande|trochę|podstawy|znajomość|немного|основы)\s+)` +
		`|(?i:notions d['’]|un peu d['’]|maîtrise d['’])|(?:basic|basics of|fundamental|rudimentary|advanced` +
		`|intermediate|strong|solid|good|excellent|deep|working|proficient|expert|fluent|beginner|rusty` +
		`|minimal|gute|sehr gute|fundierte|solide|bonnes?|buen|buena|buona|boa|goede)\s+(?:in\s+)?)`)
	// skillLevel matches a level after a skill: "Go - advanced".
	skillLevel = regexp.MustCompile(`(?i)\s*(?:[:–—-]\s+|\s)\(?(?:basic|beginner|novice|intermediate|advanced|expert` +
		`|master|proficient|fluent|native|good|excellent|very good|familiar|some|(?:sehr )?gut|grundkenntnisse` +
		`|fortgeschritten|experte|débutant|intermédiaire|avancé|courant|básico|intermedio|avanzado|básico|avançado` +
		`|base|intermedio|avanzato)\)?$`)
)

func isHonorific(s string) bool {
	return len(s) < 20 && phrase.Honorific.MatchString(s+" ") && !strings.Contains(s, " ")
}

func (e *Extractor) readSkillList(f *facts, v view.Part, confidence float64) {
	for _, x := range v.Split(listSeparator) {
		x = x.Trim(".-•*")
		if m := lastAnd.FindStringIndex(x.Text()); m != nil {
			x = x.Sub(m[1], x.End-x.Start)
		}
		if m := phrase.Brackets.FindStringIndex(x.Text()); m != nil && m[1] == x.End-x.Start {
			x = x.Sub(0, m[0]).Trim("")
		}
		for m := skillQualifier.FindStringIndex(x.Text()); m != nil &&
			m[1] < x.End-x.Start; m = skillQualifier.FindStringIndex(x.Text()) {
			x = x.Sub(m[1], x.End-x.Start)
		}
		if m := skillLevel.FindStringIndex(x.Text()); m != nil && m[0] > 0 {
			x = x.Sub(0, m[0]).Trim("")
		}
		if t := x.Text(); t != "" && len(t) <= 60 && len(strings.Fields(t)) <= 5 && !phrase.IsBlank(t) {
			f.skills = addEntry(f.skills, entry{t, confidence, x.Span()})
		}
	}
}

func (e *Extractor) readLanguageList(f *facts, v view.Part, confidence float64) {
	for _, x := range v.Split(listSeparator) {
		for _, y := range x.Split(andWord) {
			t := y.Text()
			if m := phrase.Brackets.FindStringIndex(t); m != nil {
				y = y.Sub(0, m[0])
			}
			y = y.Trim(".:-")
			if m := lastAnd.FindStringIndex(y.Text()); m != nil {
				y = y.Sub(m[1], y.End-y.Start)
			}
			if i := strings.IndexAny(y.Text(), ":-–"); i > 0 {
				y = y.Sub(0, i).Trim("")
			}
			if e.words.Languages[strings.ToLower(y.Text())] {
				f.languages = addEntry(f.languages, entry{y.Text(), confidence, y.Span()})
			}
		}
	}
}
