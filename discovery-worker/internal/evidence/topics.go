package evidence

import (
	"slices"
	"strings"

	"muster/discovery-worker/internal/people"
	"muster/schemas/identity"
)

// compareTopics counts the common topics: skills, languages, and words of titles and bios that are
// neither stop words nor common among the candidates.
func compareTopics(p Pair) string {
	na, nb := p.features()
	a, b := na.topicWords(), nb.topicWords()
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	n := 0
	for w := range a {
		if b[w] && !p.CommonWords[w] {
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

// commonWords returns the words that many candidates of a platform have. They do not distinguish
// candidates.
func commonWords(candidates []*Candidate) map[string]bool {
	if len(candidates) < 6 {
		return nil
	}
	counts := make(map[string]int)
	for _, c := range candidates {
		for w := range c.Features.get(c.B).topicWords() {
			counts[w]++
		}
	}
	out := make(map[string]bool)
	for w, n := range counts {
		if n >= max(3, len(candidates)/6) {
			out[w] = true
		}
	}
	return out
}

// compareTitle reports whether a title of one side is in the other's text.
func compareTitle(p Pair) string {
	compare := func(from, to *features) string {
		text := to.words()
		if len(from.p.Titles) == 0 || len(text) <= 2 {
			return Missing
		}
		for _, w := range from.titleWords() {
			if len(w) >= 3 && strings.Contains(text, " "+w+" ") {
				return "in_text"
			}
		}
		return "none"
	}
	na, nb := p.features()
	a, b := compare(na, nb), compare(nb, na)
	if isBetter(b, a, []string{"in_text"}) {
		return b
	}
	return a
}

func topicWords(p *people.Profile) map[string]bool {
	out := make(map[string]bool)
	add := func(s string) {
		for _, w := range words(withoutLinks(s)) {
			if len(w) >= 4 && !isStopWord(w) || w == "go" {
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

func isStopWord(w string) bool {
	switch w {
	case "with", "from", "that", "this", "have", "been", "about", "https", "http", "codehost", "network", "microblog",
		"example", "years", "year", "work", "working", "team", "more", "into", "over", "than", "some", "what", "when",
		"also", "your", "their", "they", "love", "like", "life", "making",
		"building", "things", "world", "views", "opinions":
		return true
	}
	return isGenericWord(w)
}

// isGenericWord reports whether a word of a headline says nothing about what a person does: people
// with and without an account of the code host use it.
func isGenericWord(w string) bool {
	switch w {
	case "engineer", "engineering", "student", "researcher", "research", "phd", "scientist", "professor", "teacher",
		"consultant", "freelancer", "freelance", "founder", "manager", "director", "analyst", "intern", "graduate",
		"senior", "junior", "staff", "lead", "principal", "head", "member", "owner", "self", "employed", "retired",
		"at", "of", "the", "and", "in", "a", "for":
		return true
	}
	return false
}

// compareProfession returns the profession level of the profile outside the code host. Most
// developers mention code elsewhere, and most other people have no account there.
func compareProfession(p Pair) string {
	other := p.A
	switch identity.Codehost {
	case p.A.Platform:
		other = p.B
	case p.B.Platform:
	default:
		return Missing
	}
	return p.Features.get(other).professionLevel()
}

// professionOf returns the profession level of a profile outside the code host.
func professionOf(other *people.Profile) string {
	texts := slices.Concat(other.Titles, other.Topics, []string{other.Headline, other.Bio})
	seen := false
	for _, t := range texts[:min(len(texts), 100)] {
		for _, w := range words(t) {
			seen = seen || !isGenericWord(w)
			if strings.Contains(codeWords, " "+w+" ") {
				return other.Platform + "_code"
			}
		}
	}
	if !seen {
		return Missing
	}
	return other.Platform + "_other"
}

// codeWords are words that people who write code use.
const codeWords = " software developer developers programmer programming coder coding code devops sre backend " +
	"frontend fullstack stack kubernetes docker linux python java javascript typescript golang rust kotlin swift " +
	"ruby php c++ react angular vue django rails node graphql postgresql redis terraform aws azure gcp api apis " +
	"compiler compilers firmware embedded cloud infrastructure reliability cybersecurity security android ios " +
	"web machine deep learning ml ai data database databases cto architect git github opensource algorithms " +
	"robotics hardware systems "

// withoutLinks removes URLs and handles, which other fields compare.
func withoutLinks(s string) string {
	if !strings.ContainsAny(s, "/@") {
		return s
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(s), func(w string) bool {
		return strings.HasPrefix(w, "@") || strings.Contains(w, "/") && strings.Contains(w, ".")
	}), " ")
}
