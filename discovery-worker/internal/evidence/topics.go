package evidence

import (
	"slices"
	"strings"

	"muster/discovery-worker/internal/people"
	"muster/schemas/identity"
)

// topics counts what the two speak of in common: skills, languages, and the words
// of titles and bios that are neither everyday ones nor usual among the candidates.
func topics(p Pair) string {
	na, nb := p.notes()
	a, b := na.topicWords(), nb.topicWords()
	if len(a) == 0 || len(b) == 0 {
		return Missing
	}
	n := 0
	for w := range a {
		if b[w] && !p.Usual[w] {
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

// usual are the words that many of a platform's candidates have: they tell
// nobody apart.
func usual(candidates []*Candidate) map[string]bool {
	if len(candidates) < 6 {
		return nil
	}
	counts := make(map[string]int)
	for _, c := range candidates {
		for w := range c.Notes.of(c.B).topicWords() {
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

// title is whether a position of one is in the other's text.
func title(p Pair) string {
	in := func(from, to *note) string {
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
	na, nb := p.notes()
	a, b := in(na, nb), in(nb, na)
	if better(b, a, []string{"in_text"}) {
		return b
	}
	return a
}

func topicWords(p *people.Profile) map[string]bool {
	out := make(map[string]bool)
	add := func(s string) {
		for _, w := range words(withoutLinks(s)) {
			if len(w) >= 4 && !everyday(w) || w == "go" {
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

// trade is whether who is not at the code host does anything there: most who
// write code say so elsewhere, and most others have no account.
func trade(p Pair) string {
	other := p.A
	switch identity.Codehost {
	case p.A.Platform:
		other = p.B
	case p.B.Platform:
	default:
		return Missing
	}
	return p.Notes.of(other).tradeOf()
}

// tradeOf is trade of somebody who is not at the code host.
func tradeOf(other *people.Profile) string {
	texts := slices.Concat(other.Titles, other.Topics, []string{other.Headline, other.Bio})
	seen := false
	for _, t := range texts[:min(len(texts), 100)] {
		for _, w := range words(t) {
			seen = true
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

// codeWords are of those who write code.
const codeWords = " software developer developers programmer programming coder coding code devops sre backend frontend fullstack stack " +
	"kubernetes docker linux python java javascript typescript golang rust kotlin swift ruby php c++ react angular vue django " +
	"rails node graphql postgresql redis terraform aws azure gcp api apis compiler compilers firmware embedded cloud " +
	"infrastructure reliability cybersecurity security android ios web machine deep learning ml ai data database databases cto " +
	"architect git github opensource algorithms robotics hardware systems "

// withoutLinks leaves out addresses and handles: whose they are is compared by
// itself.
func withoutLinks(s string) string {
	if !strings.ContainsAny(s, "/@") {
		return s
	}
	return strings.Join(slices.DeleteFunc(strings.Fields(s), func(w string) bool {
		return strings.HasPrefix(w, "@") || strings.Contains(w, "/") && strings.Contains(w, ".")
	}), " ")
}
