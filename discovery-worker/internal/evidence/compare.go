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
	FieldTitle     = "title"
	FieldMailbox   = "mailbox"
	FieldDisplay   = "display"
	FieldCrowd     = "crowd"
	FieldTrade     = "trade"
	FieldMotto     = "motto"
	FieldDomain    = "domain"
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
	// More are accounts that declared links say are A's too: what they say counts as
	// A's own.
	More []*people.Profile
	// Rivals are others on A's platform who have A's name.
	Rivals []*people.Profile
	// Claimed says that another account on A's platform names B as its own.
	Claimed bool
	// Usual are words that many candidates have.
	Usual map[string]bool
	// Stated are the confidences of account-link records that name both.
	Stated []float32
	// Namesakes is how many others on the two platforms have A's name, and Alike
	// how many others B's username or one of its making, as far as is known.
	Namesakes, Alike int
	// Notes are those of the discovery; nil: of this comparison alone.
	Notes *Notes
}

// notes are those of both sides.
func (p Pair) notes() (a, b *note) { return p.Notes.of(p.A), p.Notes.of(p.B) }

// Compare compares every field. The order of findings is always the same.
func Compare(p Pair) []Finding {
	if p.Notes == nil {
		p.Notes = NewNotes()
	}
	fields := []struct {
		name    string
		compare func(Pair) string
		// best are the beginnings of levels, the most telling first, where what A's
		// other accounts say counts too; nil: where it does not.
		best []string
	}{
		{FieldLink, link, nil},
		{FieldElsewhere, elsewhere, nil},
		{FieldName, name, []string{nameNative, nameExact, nameNick, nameSound, nameInitial, nameGiven, nameFamily, nameMiddle, nameHalf, nameScripts}},
		{FieldUsername, username, []string{"same_word", "same_stem_word", "same", "from_name", "similar", "from_part"}},
		{FieldDisplay, display, []string{"handle"}},
		{FieldMailbox, mailbox, []string{"same_word", "same_name", "stem"}},
		{FieldCrowd, crowd, nil},
		{FieldMotto, motto, []string{"place", "topic"}},
		{FieldEmail, email, []string{"same"}},
		{FieldEmployer, employer, []string{"same_current", "in_text_current", "same", "in_text"}},
		{FieldDomain, domain, []string{"school", "employer"}},
		{FieldSchool, school, []string{"same", "in_text"}},
		{FieldPlace, place, []string{"same_city", "same_region", "same_country"}},
		{FieldAvatar, avatar, []string{"same"}},
		{FieldWebsite, website, []string{"same"}},
		{FieldTitle, title, []string{"in_text"}},
		{FieldTopics, topics, []string{"many", "some", "one"}},
		{FieldTrade, trade, nil},
		{FieldDates, dates, nil},
	}
	out := make([]Finding, len(fields))
	for i, f := range fields {
		out[i] = Finding{f.name, f.compare(p)}
		if f.best == nil {
			continue
		}
		for _, more := range p.More {
			other := p
			other.A = more
			if l := f.compare(other); better(l, out[i].Level, f.best) {
				out[i].Level = l
			}
		}
	}
	return out
}

// better reports whether a level tells more than another.
func better(a, b string, best []string) bool {
	place := func(level string) int {
		switch i := slices.IndexFunc(best, func(s string) bool { return strings.HasPrefix(level, s) }); {
		case i >= 0:
			return i
		case level == Missing:
			return len(best) + 1
		}
		return len(best)
	}
	return place(a) < place(b)
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

// names reports whether somebody is among the accounts that another one names.
func names(list []event.Account, who *people.Profile) bool {
	if len(list) == 0 {
		return false
	}
	on := make(map[string]bool)
	for _, a := range list {
		if a.Platform == who.Platform {
			on[identity.UsernameKey(a.Username)] = true
		}
	}
	return on[who.Key] && len(on) <= maxNamed
}

// ownWord are the accounts that a profile calls its own: the microblog has no fields for
// them.
func ownWord(p *people.Profile) []event.Account {
	if p.Platform == identity.Microblog {
		return p.Mentioned
	}
	return p.Declared
}

// maxNamed is how many accounts of one platform somebody can name as their own:
// who names more collects links.
const maxNamed = 3

// Linked reports whether a finding of FieldLink is a link of any kind.
func Linked(level string) bool { return level != "none" && level != Missing }

// elsewhere is whether one of them names another account on the other's
// platform, or where both are to be, or is named by another.
func elsewhere(p Pair) string {
	// other reports whether who names an account on a platform, and not the one of
	// is.
	other := func(list []event.Account, is *people.Profile) bool {
		named := false
		for _, a := range list {
			if a.Platform == is.Platform {
				if is.Is(a) {
					return false
				}
				named = true
			}
		}
		return named
	}
	for _, m := range p.More {
		if other(slices.Concat(p.B.Declared, p.B.Mentioned), m) {
			return "third"
		}
	}
	a, b := other(p.A.Declared, p.B), other(p.B.Declared, p.A)
	for _, m := range p.More {
		a = a || other(m.Declared, p.B)
	}
	switch {
	case a && b:
		return "both"
	case a || b:
		return "one"
	case p.Claimed && names(ownWord(p.B), p.A):
		return "contested" // B's own word is for A
	case p.Claimed:
		return "claimed"
	case other(p.A.Mentioned, p.B) || other(p.B.Mentioned, p.A):
		return "mentioned"
	}
	return "none"
}

// crowd is how many others have A's name, where it is what the two agree in.
func crowd(p Pair) string {
	if Linked(link(p)) || p.Namesakes == 0 && len(p.A.Names) == 0 {
		return Missing
	}
	return "others" + commonness(p.Namesakes)
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
	a, b := p.notes()
	if len(a.p.Employers) < len(b.p.Employers) {
		a, b = b, a
	}
	best := Missing
	for i, e := range a.companies() {
		if len(e.words) == 0 {
			continue
		}
		level := ""
		if slices.ContainsFunc(b.companies(), func(f company) bool { return sameCompany(e, f) }) {
			level = "same"
		}
		if level == "" && len(e.spaced) >= 4 && strings.Contains(b.words(), " "+e.spaced+" ") {
			level = "in_text"
		}
		if level != "" {
			if i < max(1, a.p.Current) {
				return level + "_current"
			}
			best = level + "_past"
		}
	}
	if best == Missing && len(a.p.Employers) > 0 && len(b.p.Employers) > 0 {
		return Different
	}
	return best
}

// domain is whether an e-mail address of one is at the other's employer or school.
func domain(p Pair) string {
	best := Missing
	a, b := p.notes()
	for _, o := range [...][2]*note{{a, b}, {b, a}} {
		if len(o[1].p.Employers)+len(o[1].p.Schools) == 0 {
			continue
		}
		for _, host := range o[0].hostWords() {
			level := "none"
			in := func(c company) bool { return len(c.joined) >= 5 && strings.HasPrefix(host, c.joined) }
			switch {
			case slices.ContainsFunc(o[1].schoolsAsFirms(), in):
				level = "school"
			case slices.ContainsFunc(o[1].companies(), in):
				level = "employer"
			}
			if better(level, best, []string{"school", "employer"}) {
				best = level
			}
		}
	}
	return best
}

// sameCompany reports whether the shorter name is the beginning of the longer one.
func sameCompany(x, y company) bool {
	if len(x.words) > len(y.words) {
		x, y = y, x
	}
	a, b := x.words, y.words
	if len(a) == 0 {
		return false
	}
	ja, jb := x.joined, y.joined
	if ja == jb {
		return true
	}
	if len(ja) > len(jb) {
		ja, jb = jb, ja
	}
	// A handle of the company: quenlixhq.
	return slices.Equal(a, b[:len(a)]) && len(ja) >= 4 || len(ja) >= 6 && strings.HasPrefix(jb, ja)
}

func school(p Pair) string {
	a, b := p.notes()
	if len(a.p.Schools) == 0 {
		a, b = b, a
	}
	if len(a.p.Schools) == 0 || b.p.Bio == "" && len(b.p.Schools) == 0 {
		return Missing
	}
	for _, s := range a.schoolWords() {
		if slices.Contains(b.schoolWords(), s) {
			return "same"
		}
		if len(s) >= 3 && strings.Contains(b.bioWords(), " "+s+" ") {
			return "in_text"
		}
	}
	return Different
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
	na, nb := p.notes()
	a, b := na.websites(), nb.websites()
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
		tokens := tokensOf(n)
		if len(tokens) == 0 || len(tokens) == 1 && (tokens[0] == p.Key || tokens[0] == identity.HandleKey(p.Username)) {
			continue
		}
		out = append(out, tokens)
	}
	return out
}
