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

// Compared fields.
const (
	FieldLink           = "link"
	FieldOtherAccount   = "elsewhere"
	FieldName           = "name"
	FieldUsername       = "username"
	FieldEmail          = "email"
	FieldPhone          = "phone"
	FieldEmployer       = "employer"
	FieldSchool         = "school"
	FieldPlace          = "place"
	FieldAvatar         = "avatar"
	FieldWebsite        = "website"
	FieldTopics         = "topics"
	FieldTitle          = "title"
	FieldMailbox        = "mailbox"
	FieldDisplay        = "display"
	FieldRarity         = "rarity"
	FieldProfession     = "trade"
	FieldUsernameSuffix = "motto"
	FieldDomain         = "domain"
	FieldDates          = "dates"
)

// Levels that other code uses. Further ones are in the compare functions.
const (
	Missing   = "missing" // one side has no value
	Different = "different"
	Mutual    = "mutual"
	OneWay    = "one_way"
	Mention   = "mention"
)

// Comparison is the comparison level of one field. Bits is a weight in addition to that of the
// level, from the population.
type Comparison struct {
	Field, Level string
	Bits         float64
}

// Pair is a pair of profiles to compare.
type Pair struct {
	A, B *people.Profile
	// SelfAccounts are accounts that declared links attribute to A. Their fields count as A's.
	SelfAccounts []*people.Profile
	// Population has the prior and the rarity of names.
	Population *Population
	// ClaimedByOther means that another account on A's platform names B as its own.
	ClaimedByOther bool
	// CommonWords are words that many candidates have.
	CommonWords map[string]bool
	// LinkConfidences are the confidences of account-link records that name both.
	LinkConfidences []float32
	// SameName is the number of other profiles on the two platforms with A's name in the store.
	SameName int
	// Features caches features for one discovery. Nil means for this comparison only.
	Features *FeatureCache
}

// features returns the features of both sides.
func (p Pair) features() (a, b *features) { return p.Features.get(p.A), p.Features.get(p.B) }

// Compare compares every field. The order of the comparisons is fixed.
func Compare(p Pair) []Comparison {
	if p.Features == nil {
		p.Features = NewFeatureCache()
	}
	fields := []struct {
		name    string
		compare func(Pair) string
		// best are prefixes of levels, strongest first, for fields in which A's other accounts
		// count too. Nil means that they do not.
		best []string
	}{
		{FieldLink, compareLink, nil},
		{FieldOtherAccount, compareOtherAccounts, nil},
		{FieldName, compareName, []string{nameNative, nameExact, nameNick, nameSound, nameInitial,
			nameGiven, nameFamily, nameMiddle, nameHalf, nameScripts}},
		{FieldUsername, compareUsername,
			[]string{"same_word", usernameSameName, usernameFromName, "similar", usernameFromPart}},
		{FieldDisplay, compareDisplay, []string{"handle"}},
		{FieldMailbox, compareMailbox, []string{"same_word", "same_name", "stem"}},
		{FieldUsernameSuffix, compareUsernameSuffix, []string{"place", "topic"}},
		{FieldEmail, compareEmail, []string{"same"}},
		{FieldPhone, comparePhone, nil},
		{FieldEmployer, compareEmployer, []string{"same_current", "in_text_current", "same", "in_text"}},
		{FieldDomain, compareDomain, []string{"school", "employer"}},
		{FieldSchool, compareSchool, []string{"same", "in_text"}},
		{FieldPlace, comparePlace, []string{"same_city", "same_region", "same_country"}},
		{FieldAvatar, compareAvatar, []string{"same"}},
		{FieldWebsite, compareWebsite, []string{"same"}},
		{FieldTitle, compareTitle, []string{"in_text"}},
		{FieldTopics, compareTopics, []string{"many", "some", "one"}},
		{FieldProfession, compareProfession, nil},
		{FieldDates, compareDates, nil},
	}
	out := make([]Comparison, len(fields), len(fields)+1)
	for i, f := range fields {
		out[i] = Comparison{Field: f.name, Level: f.compare(p)}
		if f.best == nil {
			continue
		}
		for _, account := range p.SelfAccounts {
			variant := p
			variant.A = account
			if l := f.compare(variant); isBetter(l, out[i].Level, f.best) {
				out[i].Level = l
			}
		}
	}
	return append(out, compareRarity(p, Level(out, FieldName)))
}

// compareRarity weighs how few people have what agrees in the names, or, if the names do not say,
// in name and username. A linked pair was not found by its name, so its rarity says nothing.
func compareRarity(p Pair, level string) Comparison {
	none := Comparison{Field: FieldRarity, Level: Missing}
	if IsLink(compareLink(p)) {
		return none
	}
	for _, a := range append([]*people.Profile{p.A}, p.SelfAccounts...) {
		variant := p
		variant.A = a
		m := matchNames(variant)
		if m.level != level {
			continue
		}
		if agrees(m.level) {
			return Comparison{FieldRarity, FieldName, p.Population.rarityBits(p.B.Platform, m.parts, p.SameName)}
		}
		if l, parts := matchUsernames(variant); isFromName(l) {
			return Comparison{FieldRarity, FieldUsername, p.Population.rarityBits(p.B.Platform, parts, p.SameName)}
		}
	}
	return none
}

// isBetter reports whether level a is stronger evidence than level b.
func isBetter(a, b string, best []string) bool {
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

// Level returns the level of a field.
func Level(comparisons []Comparison, field string) string {
	for _, f := range comparisons {
		if f.Field == field {
			return f.Level
		}
	}
	return Missing
}

// compareLink compares the accounts that the two name. A mutual link is a proof, a one-way link is
// a claim.
func compareLink(p Pair) string {
	declared := [2]bool{containsAccount(p.A.Declared, p.B), containsAccount(p.B.Declared, p.A)}
	mentioned := [2]bool{containsAccount(p.A.Mentioned, p.B), containsAccount(p.B.Mentioned, p.A)}
	best := float32(-1)
	for _, c := range p.LinkConfidences {
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

// containsAccount reports whether a list of accounts names a profile.
func containsAccount(list []event.Account, profile *people.Profile) bool {
	if len(list) == 0 {
		return false
	}
	keys := make(map[string]bool)
	for _, a := range list {
		if a.Platform == profile.Platform {
			keys[identity.NormalizeUsername(a.Username)] = true
		}
	}
	return keys[profile.Key] && len(keys) <= maxDeclaredPerPlatform
}

// selfDeclaredAccounts returns the accounts that a profile calls its own. The microblog has no
// fields for them.
func selfDeclaredAccounts(p *people.Profile) []event.Account {
	if p.Platform == identity.Microblog {
		return p.Mentioned
	}
	return p.Declared
}

// maxDeclaredPerPlatform is the maximum number of accounts of one platform that a profile can declare. A profile with
// more collects links.
const maxDeclaredPerPlatform = 3

// IsLink reports whether a level of FieldLink is a link of any kind.
func IsLink(level string) bool { return level != "none" && level != Missing }

// compareOtherAccounts reports whether one side names another account where the other side is, or
// is named by another one.
func compareOtherAccounts(p Pair) string {
	// namesAnother reports whether list names accounts on the target's platform, but not the target.
	namesAnother := func(list []event.Account, target *people.Profile) bool {
		named := false
		for _, a := range list {
			if a.Platform == target.Platform {
				if target.Is(a) {
					return false
				}
				named = true
			}
		}
		return named
	}
	for _, m := range p.SelfAccounts {
		if namesAnother(slices.Concat(p.B.Declared, p.B.Mentioned), m) {
			return "third"
		}
	}
	a, b := namesAnother(p.A.Declared, p.B), namesAnother(p.B.Declared, p.A)
	for _, m := range p.SelfAccounts {
		a = a || namesAnother(m.Declared, p.B)
	}
	switch {
	case a && b:
		return "both"
	case a || b:
		return "one"
	case p.ClaimedByOther && containsAccount(selfDeclaredAccounts(p.B), p.A):
		return "contested" // B itself names A
	case p.ClaimedByOther:
		return "claimed"
	case namesAnother(p.A.Mentioned, p.B) || namesAnother(p.B.Mentioned, p.A):
		return "mentioned"
	}
	return "none"
}

func compareEmail(p Pair) string {
	if len(p.A.Emails) == 0 || len(p.B.Emails) == 0 {
		return Missing
	}
	return compareSets(p.A.Emails, p.B.Emails)
}

// comparePhone compares phone numbers. People have several, so different ones say nothing.
func comparePhone(p Pair) string {
	if compareSets(p.A.Phones, p.B.Phones) == Different {
		return Missing
	}
	return "same"
}

// compareSets reports whether two lists have a common element.
func compareSets(a, b []string) string {
	if slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) }) {
		return "same"
	}
	return Different
}

// companyWords returns the words of a company name without its legal form.
func companyWords(name string) []string {
	list := words(name)
	return slices.DeleteFunc(list, func(w string) bool {
		switch w {
		case "inc", "llc", "ltd", "limited", "gmbh", "ag", "sa", "srl", "bv", "plc", "corp", "corporation", "co",
			"company", "group", "the", "oy", "ab", "as", "kk", "pte":
			return true
		}
		return false
	})
}

func compareEmployer(p Pair) string {
	a, b := p.features()
	if len(a.p.Employers) < len(b.p.Employers) {
		a, b = b, a
	}
	best := Missing
	for i, e := range a.companies() {
		if len(e.words) == 0 {
			continue
		}
		level := ""
		if slices.ContainsFunc(b.companies(), func(f company) bool { return isSameCompany(e, f) }) {
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

// compareDomain compares the e-mail hosts of one side with the employers and schools of the other.
func compareDomain(p Pair) string {
	best := Missing
	a, b := p.features()
	for _, o := range [...][2]*features{{a, b}, {b, a}} {
		if len(o[1].p.Employers)+len(o[1].p.Schools) == 0 {
			continue
		}
		for _, host := range o[0].hostWords() {
			level := "none"
			isHost := func(c company) bool { return len(c.joined) >= 5 && strings.HasPrefix(host, c.joined) }
			switch {
			case slices.ContainsFunc(o[1].schoolsAsCompanies(), isHost):
				level = "school"
			case slices.ContainsFunc(o[1].companies(), isHost):
				level = "employer"
			}
			if isBetter(level, best, []string{"school", "employer"}) {
				best = level
			}
		}
	}
	return best
}

// isSameCompany reports whether the shorter name is a prefix of the longer one.
func isSameCompany(x, y company) bool {
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
	// A company handle such as quenlixhq.
	return slices.Equal(a, b[:len(a)]) && len(ja) >= 4 || len(ja) >= 6 && strings.HasPrefix(jb, ja)
}

func compareSchool(p Pair) string {
	a, b := p.features()
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

// compareAvatar compares picture URLs: the same URL, or the same file on another host.
func compareAvatar(p Pair) string {
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

// compareWebsite compares websites by host and path.
func compareWebsite(p Pair) string {
	na, nb := p.features()
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

// compareDates compares the creation dates of the accounts.
func compareDates(p Pair) string {
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

// words returns the words of a text in lower-case Latin letters and digits.
func words(s string) []string {
	if len(s) > 4000 {
		s = strings.ToValidUTF8(s[:4000], "")
	}
	return strings.FieldsFunc(strings.ToLower(unidecode.Unidecode(s)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '#'
	})
}

// usableNames returns the display names, as tokens, that are not the account's own handle.
func usableNames(p *people.Profile) [][]string {
	var out [][]string
	for _, n := range p.Names {
		tokens := identity.NameParts(n)
		if len(tokens) == 0 ||
			len(tokens) == 1 && (tokens[0] == p.Key || tokens[0] == identity.UsernameBlockingKey(p.Username)) {
			continue
		}
		out = append(out, tokens)
	}
	return out
}
