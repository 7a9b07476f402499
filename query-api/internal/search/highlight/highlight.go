package highlight

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
)

// Highlighter marks the words of one query. It is not safe for concurrent use.
type Highlighter struct {
	fields []field
	prefix string // of the paths of fields
}

// field is a field to highlight, with the words to look for.
type field struct {
	algebra.Highlight
	words *words
}

// New returns a Highlighter of fields of documents or, if path is set, of the elements of a nested path.
func New(n algebra.Node, fields []algebra.Highlight, path string) *Highlighter {
	c := collector{byField: make(map[string]*words)}
	c.node(n)
	anywhere := newWords()
	for _, w := range c.byField {
		for word := range w.exact {
			anywhere.exact[word] = true
		}
		anywhere.tests = append(anywhere.tests, w.tests...)
		anywhere.phrases = append(anywhere.phrases, w.phrases...)
	}
	h := &Highlighter{prefix: path}
	for _, f := range fields {
		w := c.of(f.Field)
		if f.AnyField {
			w = anywhere
		}
		h.fields = append(h.fields, field{f, w})
	}
	return h
}

// Append appends a JSON object of fields with their fragments. It appends nothing if no word of the query is in them.
func (h *Highlighter) Append(b []byte, document []byte) ([]byte, error) {
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		return b, err
	}
	first := true
	for _, f := range h.fields {
		path := f.Field.Path
		if h.prefix != "" {
			path = strings.TrimPrefix(path, h.prefix+".")
		}
		var list []fragment
		for _, text := range texts(nil, root, path) {
			list = append(list, f.fragments(text)...)
		}
		if list = f.best(list); len(list) == 0 {
			continue
		}
		separator := byte(',')
		if first {
			separator = '{'
		}
		first = false
		var err error
		if b, err = jsontext.AppendQuote(append(b, separator), f.Field.Name()); err != nil {
			return b, err
		}
		b = append(b, ':')
		for i, one := range list {
			separator = ','
			if i == 0 {
				separator = '['
			}
			if b, err = jsontext.AppendQuote(append(b, separator), one.text); err != nil {
				return b, err
			}
		}
		b = append(b, ']')
	}
	if !first {
		b = append(b, '}')
	}
	return b, nil
}

// texts appends the texts at a path of a JSON value, through arrays.
func texts(list []string, v any, path string) []string {
	switch v := v.(type) {
	case string:
		if path == "" {
			list = append(list, v)
		}
	case []any:
		for _, item := range v {
			list = texts(list, item, path)
		}
	case map[string]any:
		name, rest, _ := strings.Cut(path, ".")
		list = texts(list, v[name], rest)
	}
	return list
}

// span is a word of a text, in runes from begin to before end.
type span struct {
	begin, end int
	word       string
}

// fragment is a part of a text with its words marked.
type fragment struct {
	text     string
	distinct int // number of different words
}

// best returns the fragments with the most different words, in their order.
func (f *field) best(list []fragment) []fragment {
	most := f.Fragments
	if most == 0 || len(list) <= most { // whole texts
		return list
	}
	counts := make([]int, len(list))
	for i, one := range list {
		counts[i] = one.distinct
	}
	slices.Sort(counts)
	least := counts[len(counts)-most]
	spare := most // for those with the least number
	for _, one := range list {
		if one.distinct > least {
			spare--
		}
	}
	return slices.DeleteFunc(list, func(one fragment) bool {
		if one.distinct == least {
			spare--
			return spare < 0
		}
		return one.distinct < least
	})
}

// fragments returns the fragments of a text that have a word of the query.
func (f *field) fragments(text string) []fragment {
	if f.Field.Keyword {
		if !f.words.contains(text) {
			return nil
		}
		return []fragment{{f.Before + text + f.After, 1}}
	}
	found := f.words.find(locate(text, f.Field.Subfield))
	if len(found) == 0 {
		return nil
	}
	runes := []rune(text)
	if f.Fragments == 0 {
		return []fragment{f.mark(runes, 0, len(runes), found)}
	}
	var out []fragment
	for len(found) > 0 {
		begin, end := passage(runes, found[0], f.Length)
		n := 1
		for n < len(found) && found[n].end <= end {
			n++
		}
		out = append(out, f.mark(runes, begin, end, found[:n]))
		found = found[n:]
	}
	return out
}

// mark returns a part of a text with words between the tags.
func (f *field) mark(runes []rune, begin, end int, found []span) fragment {
	var b strings.Builder
	distinct := make(map[string]bool)
	at := begin
	for _, w := range found {
		distinct[w.word] = true
		b.WriteString(string(runes[at:max(at, w.begin)]))
		b.WriteString(f.Before)
		b.WriteString(string(runes[w.begin:w.end]))
		b.WriteString(f.After)
		at = w.end
	}
	b.WriteString(string(runes[at:max(at, end)]))
	return fragment{strings.TrimSpace(b.String()), len(distinct)}
}

// passage returns the part of a text around a word, of about a length: from the beginning of the sentence, or a word
// before the found one, to the end of a sentence, or of a word.
func passage(runes []rune, found span, length int) (begin, end int) {
	begin = found.begin
	for begin > 0 && !endsSentence(runes, begin) && found.end-begin < length {
		begin--
	}
	if begin > 0 && !endsSentence(runes, begin) { // The sentence is long: leave room for what follows.
		begin = max(begin, found.begin-length/4)
		for begin < found.begin && !unicode.IsSpace(runes[begin]) {
			begin++
		}
	}
	end = found.end
	last := min(len(runes), begin+length)
	for i := end; i <= last; i++ {
		if i == len(runes) || endsSentence(runes, i) {
			end = i
		}
	}
	if end > found.end || found.end >= last {
		return begin, end
	}
	for end = last; end > found.end && !unicode.IsSpace(runes[end]); {
		end--
	}
	return begin, end
}

// endsSentence reports whether a sentence ends before a position.
func endsSentence(runes []rune, at int) bool {
	if at == 0 || at >= len(runes) {
		return false
	}
	before := runes[at-1]
	return before == '\n' || strings.ContainsRune(".!?。！？", before) && unicode.IsSpace(runes[at])
}

// locate returns the words of a text, as a subfield has them.
func locate(text string, subfield algebra.Subfield) []span {
	tokens := analysis.Analyze(nil, text)
	if subfield == algebra.Code {
		tokens = analysis.Code(nil, text)
	}
	lower := strings.ToLower(text) // as the analyzer does, rune by rune
	out := make([]span, 0, len(tokens))
	at, runes := 0, 0 // in lower
	for _, t := range tokens {
		i := strings.Index(lower[at:], t.Text)
		if i < 0 {
			continue
		}
		runes += utf8.RuneCountInString(lower[at : at+i])
		n := utf8.RuneCountInString(t.Text)
		word := t.Text
		if subfield == algebra.Folded {
			word = analysis.Fold(word)
		}
		out = append(out, span{runes, runes + n, word})
		runes, at = runes+n, at+i+len(t.Text)
	}
	return out
}

// find returns the words of the query, in order.
func (w *words) find(all []span) []span {
	marked := make([]bool, len(all))
	for i := range all {
		marked[i] = w.contains(all[i].word)
	}
	for _, p := range w.phrases {
		for i := range all {
			markPhrase(p, all, i, marked)
		}
	}
	var out []span
	for i := range all {
		if marked[i] {
			out = append(out, all[i])
		}
	}
	return out
}

// markPhrase marks the words of a phrase that begins at a word. With slop, its other words are near it in any order.
func markPhrase(p algebra.Phrase, all []span, at int, marked []bool) {
	matches := func(k, i int) bool {
		last := p.PrefixLast && k == len(p.Terms)-1
		return len(p.Terms[k]) == 0 || slices.ContainsFunc(p.Terms[k], func(word string) bool {
			return all[i].word == word || last && strings.HasPrefix(all[i].word, word)
		})
	}
	places := make([]int, 0, len(p.Terms))
	for k := range p.Terms {
		found := -1
		lo, hi := max(0, at+k-p.Slop), min(len(all)-1, at+k+p.Slop)
		for i := lo; i <= hi && found < 0; i++ {
			if matches(k, i) && !slices.Contains(places, i) {
				found = i
			}
		}
		if found < 0 || k == 0 && found != at && p.Slop == 0 {
			return
		}
		places = append(places, found)
	}
	for k, i := range places {
		marked[i] = marked[i] || len(p.Terms[k]) > 0
	}
}
