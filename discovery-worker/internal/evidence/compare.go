package evidence

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mozillazg/go-unidecode"

	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// Fields that are compared.
const (
	FieldLink      = "link"
	FieldElsewhere = "elsewhere"
	FieldName      = "name"
	FieldUsername  = "username"
	FieldEmail     = "email"
	FieldEmployer  = "employer"
	FieldSchool    = "school"
	FieldPlace     = "place"
	FieldAvatar    = "avatar"
	FieldWebsite   = "website"
	FieldTopics    = "topics"
	FieldDates     = "dates"
)

// Findings that other code asks for; the rest are in the functions that make them.
const (
	Missing   = "missing" // one side does not say
	Different = "different"
	Mutual    = "mutual"
	OneWay    = "one_way"
	Mention   = "mention"
)

// Finding is what the comparison of one field gave.
type Finding struct{ Field, Level string }

// Pair is what is compared.
type Pair struct {
	A, B *people.Profile
	// Stated are the confidences of account-link records that name both.
	Stated []float32
	// Namesakes is how many others on the two platforms have A's name, and Alike
	// how many others B's username or one of its making, as far as is known.
	Namesakes, Alike int
}

// Compare compares every field. The order of findings is always the same.
func Compare(p Pair) []Finding {
	return []Finding{
		{FieldLink, link(p)},
		{FieldElsewhere, elsewhere(p)},
		{FieldName, name(p)},
		{FieldUsername, username(p)},
		{FieldEmail, email(p)},
		{FieldEmployer, employer(p)},
		{FieldSchool, school(p)},
		{FieldPlace, place(p)},
		{FieldAvatar, avatar(p)},
		{FieldWebsite, website(p)},
		{FieldTopics, topics(p)},
		{FieldDates, dates(p)},
	}
}

// Level is the finding of a field.
func Level(findings []Finding, field string) string {
	for _, f := range findings {
		if f.Field == field {
			return f.Level
		}
	}
	return Missing
}

// link is what the two say of each other: a mutual link is a proof, a one-way
// one a claim.
func link(p Pair) string {
	names := func(list []event.Account, who *people.Profile) bool {
		return slices.ContainsFunc(list, who.Is)
	}
	declared := [2]bool{names(p.A.Declared, p.B), names(p.B.Declared, p.A)}
	mentioned := [2]bool{names(p.A.Mentioned, p.B), names(p.B.Mentioned, p.A)}
	best := float32(-1)
	for _, c := range p.Stated {
		best = max(best, c)
	}
	switch {
	case (declared[0] || mentioned[0]) && (declared[1] || mentioned[1]):
		return Mutual
	case declared[0] || declared[1]:
		if best >= 0.5 {
			return OneWay + "_stated"
		}
		return OneWay
	case mentioned[0] || mentioned[1]:
		if best >= 0.5 {
			return OneWay + "_stated"
		}
		return Mention
	case best >= 0.85:
		return "stated_high"
	case best >= 0.6:
		return "stated"
	case best >= 0:
		return "stated_low"
	}
	return "none"
}

// Linked reports whether a finding of FieldLink is a link of any kind.
func Linked(level string) bool { return level != "none" && level != Missing }

// elsewhere is whether one of them names another account on the other's
// platform.
func elsewhere(p Pair) string {
	names := func(from, to *people.Profile) (other bool) {
		for _, a := range from.Declared {
			if a.Platform == to.Platform {
				if to.Is(a) {
					return false
				}
				other = true
			}
		}
		return other
	}
	a, b := names(p.A, p.B), names(p.B, p.A)
	switch {
	case a && b:
		return "both"
	case a || b:
		return "one"
	}
	return "none"
}

// commonness is a suffix for how many others have a value.
func commonness(n int) string {
	switch {
	case n <= 0:
		return "_unique"
	case n == 1:
		return "_rare"
	case n <= 4:
		return "_some"
	case n <= 15:
		return "_common"
	}
	return "_very_common"
}

func email(p Pair) string {
	if len(p.A.Emails) == 0 || len(p.B.Emails) == 0 {
		return Missing
	}
	for _, e := range p.A.Emails {
		if slices.Contains(p.B.Emails, e) {
			return "same"
		}
	}
	return Different
}

// companyWords are the words of a company's name without its legal form.
func companyWords(name string) []string {
	list := words(name)
	return slices.DeleteFunc(list, func(w string) bool {
		switch w {
		case "inc", "llc", "ltd", "limited", "gmbh", "ag", "sa", "srl", "bv", "plc", "corp", "corporation", "co", "company", "group", "the", "oy", "ab", "as", "kk", "pte":
			return true
		}
		return false
	})
}

func employer(p Pair) string {
	a, b := p.A, p.B
	if len(a.Employers) < len(b.Employers) {
		a, b = b, a
	}
	best := Missing
	text := " " + strings.Join(words(b.Bio+" "+b.Headline), " ") + " "
	for i, e := range a.Employers {
		w := companyWords(e)
		if len(w) == 0 {
			continue
		}
		level := ""
		for _, f := range b.Employers {
			if sameWords(w, companyWords(f)) {
				level = "same"
			}
		}
		if joined := strings.Join(w, " "); level == "" && len(joined) >= 4 && strings.Contains(text, " "+joined+" ") {
			level = "in_text"
		}
		if level != "" {
			if i < max(1, a.Current) {
				return level
			}
			best = level + "_past"
		}
	}
	if best == Missing && len(a.Employers) > 0 && len(b.Employers) > 0 {
		return Different
	}
	return best
}

// sameWords reports whether the shorter name is the beginning of the longer one.
func sameWords(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 0 {
		return false
	}
	if strings.Join(a, "") == strings.Join(b, "") {
		return true
	}
	return slices.Equal(a, b[:len(a)]) && len(strings.Join(a, "")) >= 4
}

func school(p Pair) string {
	a, b := p.A, p.B
	if len(a.Schools) == 0 {
		a, b = b, a
	}
	if len(a.Schools) == 0 || b.Bio == "" && len(b.Schools) == 0 {
		return Missing
	}
	text := " " + strings.Join(words(b.Bio), " ") + " "
	for _, s := range a.Schools {
		w := words(s)
		for _, t := range b.Schools {
			if slices.Equal(w, words(t)) {
				return "same"
			}
		}
		if joined := strings.Join(w, " "); len(joined) >= 3 && strings.Contains(text, " "+joined+" ") {
			return "in_text"
		}
	}
	return Different
}

// place compares the most exact place that a side has with all text of the other.
func place(p Pair) string {
	if len(p.A.Places) == 0 || len(p.B.Places) == 0 {
		return Missing
	}
	a, b := placeParts(p.A.Places), placeParts(p.B.Places)
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	switch {
	case slices.Contains(b, a[0]) || slices.Contains(a, b[0]):
		return "same"
	case slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) }):
		return "same_region"
	}
	return Different
}

// placeParts splits places at what people put between city and country.
func placeParts(places []string) []string {
	var out []string
	for _, s := range places {
		for _, part := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",-/|;·✈→", r) }) {
			if w := strings.Join(words(part), " "); w != "" && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// avatar compares pictures by their addresses: the same one, or the same file on
// another host.
func avatar(p Pair) string {
	a, b := strings.TrimSpace(p.A.Avatar), strings.TrimSpace(p.B.Avatar)
	if a == "" || b == "" {
		return Missing
	}
	if trimURL(a) == trimURL(b) {
		return "same"
	}
	if f := lastSegment(a); len(f) >= 12 && f == lastSegment(b) {
		return "same_file"
	}
	return Different
}

func trimURL(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	return strings.TrimSuffix(strings.ToLower(s), "/")
}

func lastSegment(s string) string {
	s = trimURL(s)
	s = s[strings.LastIndexByte(s, '/')+1:]
	if i := strings.LastIndexByte(s, '.'); i > 0 {
		s = s[:i]
	}
	return s
}

// website compares sites by host and path.
func website(p Pair) string {
	a, b := sites(p.A.Websites), sites(p.B.Websites)
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	for _, s := range a {
		if slices.Contains(b, s) {
			return "same"
		}
	}
	return Different
}

func sites(list []string) []string {
	var out []string
	for _, s := range list {
		if !strings.Contains(s, "://") {
			s = "https://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			continue
		}
		host := strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
		out = append(out, host+strings.TrimSuffix(strings.ToLower(u.Path), "/"))
	}
	return out
}

// topics counts what the two speak of in common: skills, languages, and the words
// of titles and bios that are no everyday ones.
func topics(p Pair) string {
	a, b := topicWords(p.A), topicWords(p.B)
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	n := 0
	for w := range a {
		if b[w] {
			n++
		}
	}
	switch {
	case n == 0:
		return "none"
	case n == 1:
		return "one"
	case n <= 3:
		return "some"
	}
	return "many"
}

func topicWords(p *people.Profile) map[string]bool {
	out := make(map[string]bool)
	add := func(s string) {
		for _, w := range words(s) {
			if len(w) >= 4 && !everyday(w) || len(w) == 2 && w == "go" {
				out[w] = true
			}
		}
	}
	add(p.Bio)
	add(p.Headline)
	for _, list := range [][]string{p.Topics, p.Titles} {
		for _, s := range list[:min(len(list), 60)] {
			add(s)
		}
	}
	return out
}

func everyday(w string) bool {
	switch w {
	case "with", "from", "that", "this", "have", "been", "about", "https", "http", "codehost", "network", "microblog", "example", "years", "year", "work",
		"working", "team", "more", "into", "over", "than", "some", "what", "when", "also", "your", "their", "they", "love", "like", "life", "making", "building", "things", "world", "views", "opinions":
		return true
	}
	return false
}

// dates compares when the accounts were made.
func dates(p Pair) string {
	if len(p.A.Created) < len("2006-01-02") || len(p.B.Created) < len("2006-01-02") {
		return Missing
	}
	a, b := p.A.Created[:10], p.B.Created[:10]
	switch {
	case a == b:
		return "same_day"
	case a[:7] == b[:7]:
		return "same_month"
	}
	return "apart"
}

// words are the words of a text in lower-case Latin letters and digits.
func words(s string) []string {
	if len(s) > 4000 {
		s = strings.ToValidUTF8(s[:4000], "")
	}
	return strings.FieldsFunc(strings.ToLower(unidecode.Unidecode(s)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '#'
	})
}

// usableNames are the display names that are not the account's own handle.
func usableNames(p *people.Profile) [][]string {
	var out [][]string
	for _, n := range p.Names {
		tokens := identity.NameTokens(n)
		if len(tokens) == 0 || len(tokens) == 1 && (tokens[0] == p.Key || tokens[0] == identity.HandleKey(p.Username)) {
			continue
		}
		out = append(out, tokens)
	}
	return out
}
