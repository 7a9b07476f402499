package extract

import (
	"context"
	"regexp"
	"strings"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

// Limits of prose.
const (
	maxSentences = 2000 // per input
	maxSentence  = 1200 // in bytes
)

// Parts of the expressions below. Names and organizations are capitalized words. All repetitions
// are bounded.
const (
	capital  = `[\p{Lu}][\p{L}\p{M}'’.-]{0,40}`
	nameExpr = `(?:(?:Prof|Dr|Mr|Mrs|Ms|Herr|Frau|Professor)\.?\s+){0,3}` + capital + `(?:\s+(?:van|von|der|den|de` +
		`|del|della|di|da|dos|du|la|el|al|bin|ter|` + capital + `)){1,5}`
	orgWord = `[\p{Lu}\d][\p{L}\p{M}\d'’&+./-]{0,40}`
	orgExpr = `(?P<company>@?` + orgWord + `(?:\s+(?:(?:of|and|&|for|de|du|des|del|della|do|da|dos|der|für|y|et` +
		`|von|van|the|la|le)\s+){0,2}(?:&|` + orgWord + `)){0,7})`
	article = `(?:(?:the |der |dem |die |das |la |le |el |il |lo |l'|una? |o |a |an |de |het |our |bufete ` +
		`|empresa |firma |company |despacho |agencia |société |ditta ){0,2})`
	jobExpr = `(?P<title>[\p{L}][^.,;:()!?]{1,90}?)`
	jobMost = `(?P<title>[\p{L}][^.;:()!?,]{1,90})`
	// introExpr matches an introduction before the name of the speaker or the person shown.
	introExpr = `(?i:i['’]m|i am|my name is|my name['’]s|this is|ich hei(?:ß|ss)e|ich bin|mein name ist` +
		`|je m['’]appelle|je suis|mon nom est|me llamo|mi nombre es|soy|mi chiamo|sono|(?:o )?meu nome é|chamo-me` +
		`|me chamo|mijn naam is|ik ben|jag heter|jeg heter|nazywam się)\s+`
)

// prosePatterns match the known forms of sentences.
type prosePatterns struct {
	intro     *regexp.Regexp // "my name is X"
	subject   *regexp.Regexp // "X is", at the beginning
	apposed   *regexp.Regexp // "X, Senior Designer at Y,"
	pronoun   *regexp.Regexp
	isAt      *regexp.Regexp
	isOf      *regexp.Regexp
	isJob     *regexp.Regexp
	worksAs   *regexp.Regexp
	worksAtAs *regexp.Regexp
	worksAt   *regexp.Regexp
	leads     *regexp.Regexp
	joined    *regexp.Regexp
	degree    *regexp.Regexp
	graduated *regexp.Regexp
	studied   *regexp.Regexp
	studiert  *regexp.Regexp
	residence *regexp.Regexp
	languages *regexp.Regexp
	pastSign  *regexp.Regexp
	skills    *regexp.Regexp
}

func newProsePatterns(d *dates.Reader) *prosePatterns {
	copula := `(?:is|was|are|am|'m|’m|has been|have been|ist|war|bin|est|était|suis|es|soy|era|è|sono|é|sou|ben` +
		`|serves as|served as|currently|works as|working as|has served as|have served as|är|er|jest|adalah)`
	adverb := `(?:\s+(?:currently|now|also|today|presently|derzeit|actuellement|actualmente|attualmente|atualmente))?`
	article := `(?:\s+(?:a|an|the|one of the|our|ein|eine|der|die|un|une|una|o|um|uma|een))?`
	former := `(?P<former>\s+(?:former|ex|ehemalige[rn]?|ancien(?:ne)?|retired|previous)[\s-])?`
	at := `(?:at|@|with|for|bei|beim|chez|presso|bij|en|na|no|hos|på|w firmie|ved|di)`
	day := `(?i:` + d.Expr + `)`
	date := `(?:\s+(?:since|seit|depuis|desde|dal|sinds|in)\s+(?P<since>` + day + `))?`
	return &prosePatterns{
		intro: regexp.MustCompile(`(?:^|[\s,.!])` + introExpr + `(` + nameExpr + `)(?:$|[\s,.!])`),
		subject: regexp.MustCompile(`^(?:(?:Since|Seit|Depuis|Desde|With|After|Over|For|In|Mit|Nach|Avec|Après|Con` +
			`|Tras|Dopo|Com|Após|Met|Na|Med|Efter|Etter|Z` +
			`|Po)\s+[^,]{4,80},\s+)?(?:[\p{Lu}][\p{L} ]{2,30}:\s+)?(` + nameExpr + `)\s+(?:\([^()]{1,60}\)\s+)?(` +
			`?i:is|was|has|had|left|spent|retired|became|previously|currently|began|started|builds|designs` +
			`|develops|manages|moved|works|worked|serves|served|leads|heads|runs|joined|joins|lives|holds|earned` +
			`|received|studied|graduated|` +
			`maintains|teaches|writes|speaks|ist|war|hat|arbeitet|est|a|travaille|es|trabaja|vive|è|lavora|parla|é` +
			`|trabalha|werkt|woont|habite|parle|leitet|är|er|arbetar|arbejder|jobbar|jobber|bor|har|pracuje` +
			`|jest|mieszka|adalah|bekerja)\s`),
		apposed: regexp.MustCompile(`^(` + nameExpr + `),\s+([^,.;:]{3,90}?)\s+(?:at|@|of|with|bei` +
			`|chez)\s+` + article + orgExpr + `(?:$|[\s,.;])`),
		pronoun: regexp.MustCompile(`^(?i:(?:(?:before|prior to|after|since|previously|sebelumnya|tidigare` +
			`|tidligere|wcześniej|earlier|formerly|now|today|currently|outside` +
			`|originally)\b[^.]{0,50}?,?\s+)?(?:and\s+)?(?:he|she|they|i|i['’]m|ich|je|j['’]|er|sie|il|elle|él` +
			`|ella|lui|lei|ele|ela|hij|ze|zij|ik|hon|han|hun|jag|jeg|ona|on|ia|dia)\b)`),
		isAt: regexp.MustCompile(`(?:^|\s|['’]` +
			`|\bI)(?i:` + copula + `)` + adverb + article + former + `\s+` + jobExpr + `\s+` + at + `\s` +
			`+` + article + `` + orgExpr + date),
		isOf: regexp.MustCompile(`(?:^|\s)(?i:` + copula + `)` + adverb + article + former + `\s+` + jobMost +
			`\s+(?:of` +
			`|de|du|der|di|do|da|van)\s+` + article + `` + orgExpr + date),
		isJob: regexp.MustCompile(`(?:^|\s|['’]|\bI)(?i:` + copula + `)` + adverb + `(?:\s+(?:a|an|the|our|its|their` +
			`|ein|eine|un|une|una|um|uma|een)\s+|\s+)` + former + jobExpr + `(?:\s+(?:who|based|from|living|in` +
			`|with|since|and (?:is|am|i)|und|qui|que|à|a|en)\s|[,.;!]|$)`),
		worksAs: regexp.MustCompile(`(?:^|\s)(?i:works?|worked|working|arbeite|arbeitet|arbeitete|travaille` +
			`|trabajo|trabaja|trabajó|lavoro|lavora|trabalho|trabalha|werk|werkt|werkte|arbetar|arbetat|arbetade` +
			`|jobbar|arbejder|arbejdet|arbejdede|jobber|jobbet|arbeider|arbeidet|bekerja|pracuje|pracuję|pracował` +
			`|pracowała)\s+(?i:as|als|comme|como|come|som|jako|sebagai)\s+(?i:an? |the |une? |una |uma? ` +
			`|een )?` + jobExpr +
			`\s+` + at + `\s+` + article + `` + orgExpr + date),
		worksAtAs: regexp.MustCompile(`(?:^|\s)(?i:works?|worked|working|arbeite|arbeitet|arbeitete|travaille` +
			`|trabajo|trabaja|trabajó|lavoro|lavora|trabalho|trabalha|werk|werkt|werkte|arbetar|arbetat|arbetade` +
			`|jobbar|arbejder|arbejdet|arbejdede|jobber|jobbet|arbeider|arbeidet|bekerja|pracuje|pracuję|pracował` +
			`|pracowała)\s+(?:(?i:ze|hij)\s+)?` + at + `\s+` + article + orgExpr +
			`\s+(?i:as|als|comme|como|come|som|jako|sebagai)\s+(?i:an? |the |une? |una |uma? ` +
			`|een )?` + jobExpr + date + `(?:$|[,.;!]|\s+(?:and|where|in|for|from|with|on|since)\s)`),
		worksAt: regexp.MustCompile(`(?:^|\s)(?i:works?|worked|working|arbeite|arbeitet|arbeitete|travaille` +
			`|trabajo|trabaja|trabajó|lavoro|lavora|trabalho|trabalha|werk|werkt|werkte|arbetar|arbetat|arbetade` +
			`|jobbar|arbejder|arbejdet|arbejdede|jobber|jobbet|arbeider|arbeidet|bekerja|pracuje|pracuję|pracował` +
			`|pracowała)\s+(?:(?i:ze|hij)\s+)?` + at + `\s+` + article + orgExpr + date),
		leads: regexp.MustCompile(`(?:^|\s)(?i:leads|heads|runs|manages|directs|leitet` +
			`|dirige)\s+[^.;,]{2,60}?\s+(?i:at|bei|chez)\s+` + article + `` + orgExpr),
		joined: regexp.MustCompile(`(?:^|\s)(?i:joined` +
			`|joins)\s+(?i:the )?` + orgExpr + `(?:\s+in\s+(?P<since>` + day + `))?(?:\s+as\s+(?:an? |the ` +
			`|its )?` + jobExpr + `)?(?:$|[,.;]|\s+(?:and|where|after|from|to|with)\s)`),
		degree: regexp.MustCompile(`(?i:holds?|has|have|earned|received|completed|got|obtained|did` +
			`|finished)\s+(?i:an? |his |her |their ` +
			`|my )?([\p{L}.'’]{2,12}(?:\s+of\s+\p{Lu}\p{L}+)?)(?:\s+(?i:degree\s+)?in\s+([\p{L}][\p{L}\p{M} &-]{` +
			`1,60}?))?\s+(?i:from|at)\s+(?i:the )?` + orgExpr + `(?:\s+in\s+(` + day + `))?`),
		graduated: regexp.MustCompile(`(?i:graduated)\s+(?:in\s+(` + day + `)\s+)?(?i:from)\s+(?i:the )?` + orgExpr +
			`(?:\s+with\s+(?:an?\s+)?(?:([\p{L}.'’]{2,12})\s+)??(?:degree\s+)?in\s+([\p{L}][\p{L}\p{M} &-]{1,60}` +
			`?))?(?:\s+in\s+(` + day + `))?(?:$|[,.;]|\s+(?:and|where)\s)`),
		studied: regexp.MustCompile(`(?i:studied|studies|studying|étudié|estudié|estudió` +
			`|studiato)\s+(?:([\p{L}][\p{L}\p{M} &-]{1,60}?)\s+)?(?i:at|à l['’]|en|presso|à|a)\s*(?i:the |la ` +
			`|el )?` + orgExpr +
			`(?:\s+from\s+(` + day + `)\s+(?:to|until)\s+(` + day + `))?`),
		studiert: regexp.MustCompile(`(?i:an der|an|am)\s+` + orgExpr + `\s+studiert`),
		residence: regexp.MustCompile(`(?i:\b(?:lives?|living|based|resides?|residing|located|wohnt|wohne|lebt|lebe` +
			`|habite|vit|vive|vivo|mora|moro|woont|woon|live)\s+(?:in|à|en|a|em|near|out of)|\b(?:i am|i'm` +
			`|i’m)\b[^,.]{2,60}?\sfrom)\s+(\p{Lu}[\p{L}\p{M}'’-]*(?:\s+\p{Lu}[\p{L}\p{M}'’-]*){0,3}(?:,\s+\p{Lu}` +
			`[\p{L}\p{M}'’-]*(?:\s+\p{Lu}[\p{L}\p{M}'’-]*){0,2}){0,2})`),
		languages: regexp.MustCompile(`(?i:\b(?:speaks?|fluent in|speaking|spricht|spreche|parle|habla|hablo|parla` +
			`|parlo|fala|falo|spreekt)\s+)([\p{L}\p{M}, ]{3,120})`),
		pastSign: regexp.MustCompile(`(?i)\b(?:before (?:that|this|joining)|prior to|previously|formerly|earlier` +
			`|was|were|worked|served|war|arbeitete|daarvoor|werkte|früher|auparavant|anteriormente|trabajó` +
			`|tidigare|tidligere|wcześniej|poprzednio|sebelumnya|in the past|used to|until|retired|had been)\b`),
		skills: regexp.MustCompile(`(?i:\b(?:my skills(?: are| include)?|skills include|skilled in` +
			`|experienced (?:in|with)|proficient (?:in|with)|expert in)\s*:?\s+)([^.!?]{3,200})`),
	}
}

// sentencesOf splits a piece of text into sentences.
func sentencesOf(p view.Part) []view.Part {
	var all []view.Part
	t := p.Text()
	start := 0
	for i := 0; i < len(t) && len(all) < maxSentences; i++ {
		c := t[i]
		if c != '.' && c != '!' && c != '?' {
			continue
		}
		if i+1 < len(t) && t[i+1] != ' ' && t[i+1] != '\n' {
			continue
		}
		if c == '.' && phrase.Abbreviated(t[start:i]) && i+1 < len(t) {
			continue
		}
		all = append(all, p.Sub(start, i+1).Trim(""))
		start = i + 1
	}
	if start < len(t) {
		if rest := p.Sub(start, len(t)).Trim(""); rest.Start < rest.End {
			all = append(all, rest)
		}
	}
	return all
}

// readSentences reads the remaining lines as sentences.
func (d *document) readSentences(ctx context.Context) error {
	job := position{confidence: stated, current: true}
	for i, line := range d.lines {
		if d.used[i] || line.Start == line.End {
			continue
		}
		if i%1000 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		line = view.TrimBullet(line)
		if m := speakerLabel.FindStringIndex(line.Text()); m != nil {
			line = line.Sub(m[1]-1, line.End-line.Start)
		}
		labeled := false
		if m := labelLine.FindStringSubmatchIndex(line.Text()); m != nil && len(line.Text()) <= maxSentence {
			labeled = d.e.words.Kind(line.Text()[m[2]:m[3]]) != "bio"
			if !labeled {
				line = line.Sub(m[4], m[5])
			}
		}
		all := sentencesOf(line)
		before := len(d.f.positions)
		for _, s := range all {
			if d.f.sentences++; d.f.sentences > maxSentences {
				return ctx.Err()
			}
			if t := s.Text(); len(t) <= maxSentence && strings.Contains(t, " ") {
				d.readSentence(s)
			}
		}
		if len(d.f.positions) == before && i < 40 && !job.title.ok() && !labeled && !d.listed[i] {
			d.readFragments(line, &job)
		}
	}
	d.f.addPosition(job)
	return ctx.Err()
}

// speakerLabel matches the label of the answering person in an interview.
var speakerLabel = regexp.MustCompile(`^(?:A|\p{Lu}[\p{L}. ]{0,30}):\s+I`)

// piece returns the part of a sentence that a group of a match covers.
func piece(s view.Part, m []int, group int) view.Part {
	if m == nil || m[2*group] < 0 {
		return view.Part{}
	}
	return s.Sub(m[2*group], m[2*group+1])
}

// readSentence reads one sentence if the person is its subject.
func (d *document) readSentence(s view.Part) {
	e, f, t := d.e, d.f, s.Text()
	x := e.prose
	about := false
	if m := x.intro.FindStringSubmatchIndex(t); m != nil {
		if n, ok := d.longestName(piece(s, m, 1)); ok {
			f.addName(n, stated, piece(s, m, 1).Span())
			about = true
		}
	}
	if m := x.apposed.FindStringSubmatchIndex(t); m != nil {
		if n, ok := e.Name(t[m[2]:m[3]], false); ok && e.words.IsTitle(t[m[4]:m[5]]) &&
			(!f.hasName(stated) || f.isSubject(n.Full)) {
			f.addName(n, stated, piece(s, m, 1).Span())
			org := phrase.LeadingOrg(piece(s, m, 3))
			f.addPosition(position{title: valueOf(piece(s, m, 2), stated), company: valueOf(org, stated), current: true,
				confidence: stated, span: s.Span()})
			return
		}
	}
	if m := x.subject.FindStringSubmatchIndex(t); m != nil {
		p := piece(s, m, 1)
		if n, ok := e.Name(p.Text(), false); ok {
			switch {
			case f.isSubject(n.Full) || f.hasName(stated) && f.last.value == n.Last && n.Last != "":
				about = true
			case !f.hasName(stated):
				f.addName(n, stated, p.Span())
				about = true
			}
		}
	}
	if !about {
		word, _, _ := strings.Cut(strings.TrimPrefix(t, "About "), " ")
		about = x.pronoun.MatchString(t) || f.last.ok() && strings.Contains(t, f.last.value) &&
			politeMention.MatchString(t) || f.isSubject(strings.Trim(word, ",:'")) || f.name.ok() &&
			strings.HasPrefix(t, f.name.value) ||
			f.name.ok() && subjectAfterApposition.MatchString(t) || f.name.ok() && sinceStart.MatchString(t) &&
			strings.Contains(t, f.name.value)
		if m := sinceName.FindStringSubmatchIndex(t); m != nil && !about && !f.hasName(stated) {
			if n, ok := e.Name(t[m[2]:m[3]], false); ok {
				f.addName(n, stated, piece(s, m, 1).Span())
				about = true
			}
		}
		if !about && ellipticStart.MatchString(t) {
			about = true
		}
	}
	if (!about || !f.hasName(stated) && acquaintanceStart.MatchString(t)) && d.readMention(s) {
		about = true
	}
	if !about && d.firstPerson && f.name.ok() && firstPerson.MatchString(t) {
		about = true
	}
	if about {
		if d.readFormerJob(s) {
			return
		}
		d.readPredicates(s)
	}
}

// subjectAfterApposition matches the start of a sentence such as "A former nurse, she teaches".
var subjectAfterApposition = regexp.MustCompile(`^(?i:an?|the|once an?) [^,.]{3,60}, (?i:he|she|they)\b`)

// politeMention matches a mention of the subject by title and last name.
var politeMention = regexp.MustCompile(
	`\b(?:Mr|Ms|Mrs|Mx|Dr|Prof|Professor)\.?\s+\p{Lu}[\p{L}'’-]+\s+(?i:is|was|has|had` +
		`|served|serves|joined|holds|received|earned|worked|works|leads|led|began|currently|previously)\b`)

// acquaintanceStart matches the start of a sentence about another person.
var acquaintanceStart = regexp.MustCompile(`^(?i:i|we) (?i:had the (?:pleasure|privilege|honou?r)|(?:highly ` +
	`|warmly )?recommend|managed|supervised|mentored|taught|interviewed|met|spoke|talked)\b`)

// firstPerson matches a sentence in the first person.
var firstPerson = regexp.MustCompile(`(?:^|[\s,(])(?:I|I['’]m|I['’]ve)\s`)

var (
	sinceStart = regexp.MustCompile(`^(?i:since|seit|depuis|desde)\s`)
	sinceName  = regexp.MustCompile(`^(?i:since|seit|depuis|desde|as of)\s[^,]{3,20},\s+(` + nameExpr + `)\s+(?:has` +
		`|is|ist|est|es)\s`)
	ellipticStart = regexp.MustCompile(`^(?i:speaks|based|lives in|living in|daarvoor werkte|parla|parle|habla|vive` +
		`|habite|wohnt in|lebt in|works|worked|studied|graduated|currently|spricht|vivo en|my skills)\b`)
)

// longestName returns the longest name at the beginning of a phrase.
func (d *document) longestName(p view.Part) (phrase.PersonName, bool) {
	words := strings.Fields(p.Text())
	for n := len(words); n >= 2; n-- {
		if name, ok := d.e.Name(strings.Trim(strings.Join(words[:n], " "), ".,"), false); ok {
			return name, true
		}
	}
	return phrase.PersonName{}, false
}

// valueOf returns the text of a piece as a value.
func valueOf(p view.Part, confidence float64) textValue {
	if p.View == nil || p.Start >= p.End {
		return textValue{}
	}
	return textValue{p.Text(), confidence, p.Span()}
}

// readPredicates reads what a sentence states about the person.
func (d *document) readPredicates(s view.Part) {
	clause := s
	if m := secondClause.FindStringSubmatchIndex(s.Text()); m != nil {
		clause = s.Sub(m[2], s.End-s.Start)
	}
	d.readJobs(clause)
	d.readStudies(s)
	f, e, t := d.f, d.e, s.Text()
	if !strings.HasPrefix(t, "Originally") || strings.Contains(t, " now ") {
		if m := e.prose.residence.FindStringSubmatchIndex(t); m != nil && !firmContext.MatchString(t[:m[0]]) {
			if pl, ok := e.Place(piece(s, m, 1), true); ok {
				f.addPlace(pl, stated)
			}
		}
	}
	if m := e.prose.languages.FindStringSubmatchIndex(t); m != nil {
		e.readLanguageList(f, piece(s, m, 1), stated)
	}
	if m := e.prose.skills.FindStringSubmatchIndex(t); m != nil {
		e.readSkillList(f, piece(s, m, 1), stated)
	}
}

// secondClause matches a clause after an introduction: "My name is Ada Moreau and I am a nurse".
var secondClause = regexp.MustCompile(`^(?i:[^.]{0,20}[\s,!])??` + introExpr + nameExpr +
	`\s+(?i:and|und|et|y|e|en|och` +
	`|og)\s+((?i:i|ich|je|soy|sono|sou|ik|jag|jeg)\b)`)

// firmContext matches a text before the place of a company, which is not the person's.
var firmContext = regexp.MustCompile(
	`(?i)(?:startup|start-up|company|firm|agency|studio|bank|business|organi[sz]ation` +
		`|institute|lab|group|maker|provider|publisher|bureau|consultancy|non-?profit|unternehmen|entreprise|empresa` +
		`|azienda)[\s,]*$`)

// readStudies reads education from a sentence about the person.
func (d *document) readStudies(s view.Part) {
	e, t := d.e, s.Text()
	x := e.prose
	add := func(org, deg, field view.Part, start, end string) {
		org = phrase.LeadingOrg(org)
		if org.View == nil || org.Start == org.End || !e.words.IsSchool(org.Text()) && deg.View == nil {
			return
		}
		sc := school{name: org.Text(), start: start, end: end, span: org.Span(), confidence: stated}
		if deg.View != nil {
			sc.degree = deg.Text()
		}
		if field.View != nil {
			sc.field = field.Text()
		}
		d.f.addSchool(sc)
	}
	date := func(m []int, group int) string {
		if m[2*group] < 0 {
			return ""
		}
		parsed, _ := e.dates.Parse(t[m[2*group]:m[2*group+1]])
		return parsed
	}
	if m := x.degree.FindStringSubmatchIndex(t); m != nil {
		if deg := piece(s, m, 1); degreeWord.MatchString(deg.Text()) {
			add(piece(s, m, 3), deg, piece(s, m, 2), "", date(m, 4))
			return
		}
	}
	if m := x.graduated.FindStringSubmatchIndex(t); m != nil {
		deg := piece(s, m, 3)
		if deg.View != nil && !degreeWord.MatchString(deg.Text()) {
			deg = view.Part{}
		}
		end := date(m, 1)
		if end == "" {
			end = date(m, 5)
		}
		add(piece(s, m, 2), deg, piece(s, m, 4), "", end)
		return
	}
	if m := x.studied.FindStringSubmatchIndex(t); m != nil {
		field := piece(s, m, 1)
		if m[4+2] >= 0 && field.View != nil && field.Text() == strings.ToLower(field.Text()) && date(m, 3) != "" {
			field = view.Part{} // "studied music at a conservatory" is too vague
		}
		add(piece(s, m, 2), view.Part{}, field, date(m, 3), date(m, 4))
		return
	}
	if m := x.studiert.FindStringSubmatchIndex(t); m != nil {
		org := piece(s, m, 1)
		field := view.Part{}
		if i := strings.LastIndexByte(org.Text(), ' '); i > 0 { // "an der Universität Leipzig Physik studiert"
			field = org.Sub(i+1, org.End-org.Start)
			org = org.Sub(0, i)
		}
		add(org, view.Part{}, field, "", "")
	}
}
