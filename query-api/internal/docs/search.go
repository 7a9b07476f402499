package docs

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Limits and weights of the search. The weights were chosen by hand; TestSearch_FindsTheExpectedPageFirst checks them.
const (
	maxQueryBytes  = 200
	maxQueryTerms  = 8
	maxResults     = 20
	maxPerPage     = 3
	excerptBytes   = 220
	titleWeight    = 8   // of a word in the title, for the page's first section
	subtitleWeight = 1.5 // of a word in the title, for the other sections
	headingWeight  = 5
	prefixWeight   = 0.4 // of a word that starts with the term
	nestedFactor   = 0.5 // of pages in a directory, which are background
	saturation     = 1.2 // k1 of BM25
)

// index is an inverted index of sections. It is immutable.
type index struct {
	sections []section
	lengths  []float64 // words
	average  float64
	terms    []string             // sorted
	postings map[string][]posting // by term
}

// posting is the weight of a term in a section.
type posting struct {
	section int
	weight  float64
}

// result is a section that matches a query.
type result struct {
	Page, Heading string
	Path          string
	Excerpt       template.HTML
}

func newIndex(pages []*page) *index {
	x := &index{postings: make(map[string][]posting)}
	for _, p := range pages {
		for _, s := range p.Sections {
			weights := make(map[string]float64)
			length := 0.0
			add := func(text string, weight float64) {
				for w := range words(text) {
					weights[w.folded] += weight
					length++
				}
			}
			add(s.text, 1)
			if s.level > 1 {
				add(s.heading.Text, headingWeight)
				add(p.Title, subtitleWeight)
			} else {
				add(p.Title, titleWeight)
			}
			for term, weight := range weights {
				x.postings[term] = append(x.postings[term], posting{len(x.sections), weight})
			}
			x.sections = append(x.sections, s)
			x.lengths = append(x.lengths, length)
			x.average += length
		}
	}
	x.average /= float64(max(1, len(x.sections)))
	for term := range x.postings {
		x.terms = append(x.terms, term)
	}
	slices.Sort(x.terms)
	return x
}

// search returns the best sections for a query, best first: those with all terms, or, if there are none, those with
// any. A term also matches longer words that start with it.
func (x *index) search(query string) []result {
	query = strings.ToValidUTF8(query[:min(len(query), maxQueryBytes)], "")
	var terms []string
	for w := range words(query) {
		if !slices.Contains(terms, w.folded) && len(terms) < maxQueryTerms {
			terms = append(terms, w.folded)
		}
	}
	scores := make([]float64, len(x.sections))
	matched := make([]int, len(x.sections))
	for _, term := range terms {
		x.score(term, scores, matched)
	}
	most := 0
	for _, n := range matched {
		most = max(most, n)
	}
	need := min(most, len(terms))
	if need < len(terms) {
		need = 1
	}
	var found []int
	for i, n := range matched {
		if n >= need && n > 0 {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	var out []result
	perPage := make(map[*page]int)
	for _, i := range found {
		s := x.sections[i]
		if perPage[s.page]++; perPage[s.page] > maxPerPage {
			continue
		}
		r := result{Page: s.page.Title, Path: s.page.Path, Excerpt: excerpt(s.text, terms)}
		if s.level > 1 {
			r.Heading, r.Path = s.heading.Text, s.page.Path+"#"+s.heading.ID
		}
		if out = append(out, r); len(out) == maxResults {
			break
		}
	}
	return out
}

// score adds the BM25 score of a term to the sections that match it, and counts the match.
func (x *index) score(term string, scores []float64, matched []int) {
	weights := make(map[int]float64)
	first, _ := slices.BinarySearch(x.terms, term)
	for _, word := range x.terms[first:] {
		if !strings.HasPrefix(word, term) {
			break
		}
		factor := 1.0
		if word != term {
			factor = prefixWeight
		}
		for _, p := range x.postings[word] {
			weights[p.section] += factor * p.weight
		}
	}
	idf := math.Log(1 + (float64(len(x.sections)-len(weights))+0.5)/(float64(len(weights))+0.5))
	for i, weight := range weights {
		norm := saturation * (0.25 + 0.75*x.lengths[i]/x.average)
		score := idf * weight * (saturation + 1) / (weight + norm)
		if x.sections[i].page.Nested {
			score *= nestedFactor
		}
		scores[i] += score
		matched[i]++
	}
}

// excerpt returns the part of text around the first matches, as HTML with the matching words marked.
func excerpt(text string, terms []string) template.HTML {
	matches := func(w word) bool {
		return slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(w.folded, term) })
	}
	start := 0
	for w := range words(text) {
		if matches(w) {
			start = max(0, w.start-excerptBytes/4)
			break
		}
	}
	if start > 0 { // at the start of a word
		start += strings.IndexByte(text[start:], ' ') + 1
	}
	end := min(len(text), start+excerptBytes)
	if end < len(text) {
		if space := strings.LastIndexByte(text[start:end], ' '); space > 0 {
			end = start + space
		}
		for !utf8.RuneStart(text[end]) {
			end--
		}
	}
	part := text[start:end]
	var b strings.Builder
	if start > 0 {
		b.WriteString("… ")
	}
	at := 0
	for w := range words(part) {
		if !matches(w) {
			continue
		}
		b.WriteString(template.HTMLEscapeString(part[at:w.start]))
		b.WriteString("<mark>" + template.HTMLEscapeString(part[w.start:w.end]) + "</mark>")
		at = w.end
	}
	b.WriteString(template.HTMLEscapeString(part[at:]))
	if end < len(text) {
		b.WriteString(" …")
	}
	return template.HTML(b.String()) //nolint:gosec // escaped above
}

// word is a word of a text with its position. folded is in lower case, without accents and a plural s.
type word struct {
	folded     string
	start, end int
}

// words returns the words of a text: runs of letters and digits.
func words(text string) func(yield func(word) bool) {
	return func(yield func(word) bool) {
		start := -1
		for i, r := range text + " " {
			if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) {
				if start < 0 {
					start = i
				}
				continue
			}
			if start >= 0 {
				if !yield(word{fold(text[start:i]), start, i}) {
					return
				}
				start = -1
			}
		}
	}
}

func fold(s string) string {
	s = strings.ToLower(s)
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			// A transform of valid UTF-8 does not fail.
			s, _, _ = transform.String(transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), s)
			break
		}
	}
	if len(s) > 3 && strings.HasSuffix(s, "s") && !strings.HasSuffix(s, "ss") {
		s = s[:len(s)-1]
	}
	return s
}
