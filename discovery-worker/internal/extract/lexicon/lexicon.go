package lexicon

import (
	_ "embed" // word lists
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

var (
	//go:embed data/labels.txt
	labelsText string
	//go:embed data/titles.txt
	titlesText string
	//go:embed data/companies.txt
	companiesText string
	//go:embed data/schools.txt
	schoolsText string
	//go:embed data/providers.txt
	providersText string
	//go:embed data/skills.txt
	skillsText string
	//go:embed data/cities.txt
	citiesText string
	//go:embed data/states.txt
	statesText string
	//go:embed data/departments.txt
	departmentsText string
	//go:embed data/families.txt
	familiesText string
	//go:embed data/towns.txt
	townsText string
	//go:embed data/notnames.txt
	notNamesText string
)

// Words holds the word lists. All keys are lower case.
type Words struct {
	Labels      map[string]string
	headings    *headings
	titles      map[string]bool
	titleEnds   []string
	Companies   map[string]bool
	schools     map[string]bool
	schoolHeads []string
	Providers   map[string]bool
	Skills      map[string]bool
	Cities      map[string]bool
	Countries   map[string]bool
	States      map[string]bool
	Languages   map[string]bool
	Departments map[string]bool
	families    map[string]bool // titles that are also family names and towns
	towns       map[string]bool // second words of towns after a family name
	NotNames    map[string]bool
}

// New parses the word lists.
func New() (*Words, error) {
	w := &Words{
		Labels: map[string]string{}, Companies: Set(companiesText), Providers: Set(providersText),
		Skills: Set(skillsText), Cities: Set(citiesText), Countries: map[string]bool{}, Languages: map[string]bool{},
		States: Set(statesText), Departments: Set(departmentsText), families: Set(familiesText), towns: Set(townsText),
		NotNames: Set(notNamesText),
	}
	w.titles, w.titleEnds = setAndAffixes(titlesText)
	w.schools, w.schoolHeads = setAndAffixes(schoolsText)
	for line := range Lines(labelsText) {
		kind, names, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("labels: line without a kind")
		}
		for name := range strings.SplitSeq(names, ",") {
			if name = strings.TrimSpace(name); w.Labels[name] == "" {
				w.Labels[name] = kind
			}
		}
	}
	w.regions()
	var err error
	w.headings, err = newHeadings()
	return w, err
}

// regions adds the names of countries and languages from the CLDR, in the languages that the
// extractor reads.
func (w *Words) regions() {
	tags := []language.Tag{
		language.English, language.German, language.French, language.Spanish, language.Italian, language.Portuguese,
		language.BrazilianPortuguese, language.Dutch, language.Swedish, language.Norwegian, language.Danish,
		language.Finnish, language.Polish, language.Turkish, language.Russian, language.Japanese,
		language.Chinese, language.Korean, language.Arabic,
	}
	for _, tag := range tags {
		countries, languages := display.Regions(tag), display.Languages(tag)
		if countries == nil || languages == nil {
			continue
		}
		for a := 'A'; a <= 'Z'; a++ {
			for b := 'A'; b <= 'Z'; b++ {
				code := string([]rune{a, b})
				if r, err := language.ParseRegion(code); err == nil && r.IsCountry() {
					if name := countries.Name(r); len(name) > 2 && name != code { // skips codes without a name
						w.Countries[strings.ToLower(name)] = true
					}
				}
				if base, err := language.ParseBase(strings.ToLower(code)); err == nil {
					if name := languages.Name(base); name != "" {
						w.Languages[strings.ToLower(name)] = true
					}
				}
			}
		}
	}
	for _, name := range []string{"usa", "u.s.a.", "us", "u.s.", "uk", "u.k.", "uae", "great britain", "czech republic",
		"holland", "the netherlands", "brasil", "korea", "south korea", "russia", "turkey", "vietnam", "viet nam"} {
		w.Countries[name] = true
	}
	delete(w.Countries, "granada") // usually the Spanish city, not Grenada
}

// Heading returns the kind of section that a line heads, or "".
func (w *Words) Heading(line string) string {
	switch kind := w.Labels[LabelKey(line)]; kind {
	case "experience", "education", "skills", "languages":
		return kind
	}
	return w.headings.kind(line)
}

// IsTitle reports whether a phrase contains a job title.
func (w *Words) IsTitle(s string) bool {
	s = strings.ToLower(s)
	if w.titles[s] {
		return true
	}
	for _, t := range strings.FieldsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '-'
	}) {
		if w.titles[t] {
			return true
		}
		for _, end := range w.titleEnds {
			if strings.HasSuffix(t, end) {
				return true
			}
		}
	}
	for _, han := range []string{"工程师", "研究員", "研究员", "经理", "部長", "課長", "社長", "教授", "医師", "老师", "연구원", "개발자", "대표",
		"エンジニア", "マネージャー", "デザイナー", "ディレクター", "コンサルタント", "プログラマー", "看護師", "会計士", "弁護士", "医生", "律师", "会计", "总监", "设计师",
		"매니저", "디자이너"} {
		if strings.Contains(s, han) {
			return true
		}
	}
	return false
}

// IsTown reports whether a phrase with a title may be a town: "Mason", "Baker City".
func (w *Words) IsTown(s string) bool {
	first, rest, hasRest := strings.Cut(strings.ToLower(s), " ")
	return w.families[first] && (!hasRest || w.towns[rest])
}

// IsUnit reports whether a phrase is a company, a school, or a department or subject of one.
func (w *Words) IsUnit(s string) bool {
	return w.Departments[strings.ToLower(s)] || w.IsCompany(s) || w.IsSchool(s)
}

// IsShortTitle reports whether a phrase is a job title of at most six words.
func (w *Words) IsShortTitle(s string) bool { return w.IsTitle(s) && len(strings.Fields(s)) <= 6 }

// IsCompany reports whether a name has a word that marks companies.
func (w *Words) IsCompany(s string) bool {
	fields := strings.Fields(strings.ToLower(strings.NewReplacer(".", "", ",", " ").Replace(s)))
	for i, t := range fields {
		if i > 0 && w.Companies[t] {
			return true
		}
	}
	return strings.Contains(s, "株式会社") || strings.Contains(s, "有限公司") || strings.Contains(s, "주식회사")
}

// IsSchool reports whether a name has a word that marks schools.
func (w *Words) IsSchool(s string) bool {
	for t := range strings.FieldsSeq(strings.ToLower(s)) {
		t = strings.Trim(t, ".,()")
		if w.schools[t] {
			return true
		}
		for _, head := range w.schoolHeads {
			if strings.HasPrefix(t, head) {
				return true
			}
		}
	}
	return strings.Contains(s, "大学") || strings.Contains(s, "대학교")
}

// Lines yields the lines of a list, without blank lines and comments.
func Lines(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && !yield(line) {
				return
			}
		}
	}
}

// Set returns the lines of a list, in lower case.
func Set(text string) map[string]bool {
	m := map[string]bool{}
	for line := range Lines(text) {
		m[strings.ToLower(line)] = true
	}
	return m
}

// setAndAffixes reads a list in which "~" marks prefixes or suffixes of words.
func setAndAffixes(text string) (words map[string]bool, affixes []string) {
	words = map[string]bool{}
	for line := range Lines(text) {
		line = strings.ToLower(line)
		if affix, ok := strings.CutPrefix(line, "~"); ok {
			affixes = append(affixes, affix)
			line = affix
		}
		words[line] = true
	}
	return words, affixes
}

// LabelKey returns the comparison form of labels and field names.
func LabelKey(s string) string {
	var b strings.Builder
	space, lower := true, false
	for _, r := range s {
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
			if unicode.IsUpper(r) && lower {
				space = true
			}
			lower = unicode.IsLower(r)
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(unicode.ToLower(r))
		case r == '\'' || r == '’':
			b.WriteRune('\'')
		default:
			space, lower = true, false
		}
	}
	key := b.String()
	if strings.Contains(key, " ") && !strings.ContainsFunc(key, func(r rune) bool {
		return r != ' ' && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
	}) {
		return strings.ReplaceAll(key, " ", "") // spaced label: 氏　名
	}
	return key
}

// Kinds of labels for both parts of a name, in the order of the value.
const (
	// FamilyGiven is the kind of "Surname / First name".
	FamilyGiven = "family given"
	// GivenFamily is the kind of "First name / Surname".
	GivenFamily = "given family"
)

var (
	// plural matches optional plural endings: "Surname(s)", "Nachname(n)".
	plural = regexp.MustCompile(`\((?:s|es|n|en|e|i|a|nen|innen|r|er)\)`)
	// bothNames matches the separator in a label for both parts of a name.
	bothNames = regexp.MustCompile(`\s*[/,&+]\s*|\s+(?:and|und|et|y|e|i|en|och|og|и|or)\s+`)
)

// Kind returns the kind of a label, or "" if it is unknown.
func (w *Words) Kind(label string) string {
	label = plural.ReplaceAllString(label, "")
	if a, b, ok := cutBy(label, bothNames); ok {
		switch first, second := w.Labels[LabelKey(a)], w.Labels[LabelKey(b)]; {
		case first == "last" && (second == "first" || second == "name"), first == "name" && second == "first":
			return FamilyGiven
		case (first == "first" || first == "name") && second == "last":
			return GivenFamily
		case first == second && first != "":
			return first
		}
	}
	key := LabelKey(label)
	if k := w.Labels[key]; k != "" {
		return k
	}
	// "E-mail 2 - Value"
	if key != "" && !unicode.IsDigit(rune(key[0])) &&
		(strings.ContainsAny(key, "0123456789") || strings.HasSuffix(key, " value")) {
		words := strings.FieldsFunc(strings.TrimSuffix(key, " value"), func(r rune) bool {
			return r == ' ' || unicode.IsDigit(r)
		})
		if bare := strings.Join(words, " "); bare != key && bare != "" {
			return w.Kind(bare)
		}
	}
	first, rest, ok := strings.Cut(key, " ")
	// "s.authors" is a field of a variable.
	if ok && len(first) == 1 && first != "x" {
		return w.Labels[rest]
	}
	if !ok || !ownerPrefixes[first] || key == "user name" || first == "preferred" && w.Labels[rest] == "title" {
		return ""
	}
	return w.Labels[rest]
}

// cutBy splits a phrase at the only match of a separator.
func cutBy(s string, separator *regexp.Regexp) (before, after string, ok bool) {
	all := separator.FindAllStringIndex(s, 2)
	if len(all) != 1 || len(s) > maxLabel {
		return "", "", false
	}
	return s[:all[0][0]], s[all[0][1]:], true
}

// maxLabel is the maximum length of a label, in bytes.
const maxLabel = 120

// ownerPrefixes are words before a label that name its owner, who is the person in some role.
var ownerPrefixes = Set( //nolint:gochecknoglobals // a constant set
	"current\nmailing\ncontact\nperson\nmy\nyour\nspeaker\nauthor\ncandidate\ncustomer\nclient\nprofile\n" +
		"primary\npresent\nhome\nlatest\nuser\nregistrant\napplicant\nemployee\nmember\nstudent\nattendee\n" +
		"participant\nowner\nguest\nsubscriber\nlead\nwork\nprofessional\nfull\nmost recent\nlegal\npreferred\n" +
		"presenter\nlecturer\npatient\ncontributor\ninventor\nalumni\nalumnus\ndonor\nvisitor\nbilling\nperson's")
