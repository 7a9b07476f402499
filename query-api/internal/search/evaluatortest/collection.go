package evaluatortest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
	"muster/schemas/readmodel"
)

// Collection is a set of documents to search.
type Collection struct {
	documents []document
	stats     map[string]*fieldStats // by field name
}

type document struct {
	id   string
	root unit
	// elements are the nested documents of each path.
	elements map[string][]unit
	// lists are the same elements as JSON.
	lists map[string][]any
}

// unit is a document of Elasticsearch: a person, or an element of a nested path. The fields of elements are fields of
// the person, too.
type unit map[string]*content

// content is a field of a unit.
type content struct {
	texts  []string         // values of a text field
	tokens []analysis.Token // of texts
	// subfields are the tokens of the subfields.
	subfields map[algebra.Subfield][]analysis.Token
	terms     []string // whole values; "T" and "F" of booleans
	numbers   []int64  // numbers and dates
}

// fieldStats are the statistics of a field over all units.
type fieldStats struct {
	units, terms int
	frequency    map[string]int // units with a term
}

// New parses documents in the form of search results.
func New(documents [][]byte) (*Collection, error) {
	c := &Collection{stats: make(map[string]*fieldStats)}
	for _, raw := range documents {
		d, err := read(raw)
		if err != nil {
			return nil, fmt.Errorf("evaluatortest: document %.60s: %w", raw, err)
		}
		c.documents = append(c.documents, d)
		c.count(d.root)
		for _, list := range d.elements {
			for _, e := range list {
				c.count(e)
			}
		}
	}
	return c, nil
}

// read builds the units of a document.
func read(raw []byte) (document, error) {
	d := document{root: unit{}, elements: make(map[string][]unit), lists: make(map[string][]any)}
	var tree map[string]any
	numbers := json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
		if dec.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		number, err := dec.ReadValue()
		*v = number.Clone()
		return err
	}))
	if err := json.UnmarshalRead(bytes.NewReader(raw), &tree, numbers); err != nil {
		return d, err
	}
	id, ok := tree["profile_id"].(string)
	if !ok {
		return d, fmt.Errorf("no profile_id")
	}
	d.id = id
	for _, path := range readmodel.SearchNested() {
		list, _ := tree[path].([]any)
		d.lists[path] = list
		for range list {
			d.elements[path] = append(d.elements[path], unit{})
		}
	}
	for _, f := range readmodel.SearchFields() {
		if f.Nested == "" {
			v := at(tree, f.Path)
			if err := d.root.add(f, v); err != nil {
				return d, err
			}
			continue
		}
		if f.Flat {
			list, _ := at(tree, f.Path).([]any)
			for _, v := range list {
				if err := d.root.add(f, v); err != nil {
					return d, err
				}
			}
			continue
		}
		list, _ := tree[f.Nested].([]any)
		for i, e := range list {
			v := at(e, strings.TrimPrefix(f.Path, f.Nested+"."))
			for _, u := range []unit{d.elements[f.Nested][i], d.root} {
				if err := u.add(f, v); err != nil {
					return d, err
				}
			}
		}
	}
	d.root.finish()
	for _, list := range d.elements {
		for _, e := range list {
			e.finish()
		}
	}
	return d, nil
}

func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// add adds a value of a field to a unit.
func (u unit) add(f readmodel.SearchField, v any) error {
	if v == nil {
		return nil
	}
	c := u[f.Path]
	if c == nil {
		c = &content{}
		u[f.Path] = c
	}
	var err error
	switch f.Type {
	case readmodel.SearchText:
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s: %v is not a string", f.Path, v)
		}
		c.texts = append(c.texts, s)
	case readmodel.SearchBoolean:
		b, ok := v.(bool)
		if !ok {
			return fmt.Errorf("%s: %v is not a boolean", f.Path, v)
		}
		c.terms = append(c.terms, map[bool]string{true: "T", false: "F"}[b])
	case readmodel.SearchLong:
		var n int64
		if n, err = strconv.ParseInt(fmt.Sprint(v), 10, 64); err == nil {
			c.numbers = append(c.numbers, n)
		}
	default:
		var n int64
		if n, err = milliseconds(fmt.Sprint(v)); err == nil {
			c.numbers = append(c.numbers, n)
		}
	}
	return err
}

// finish analyzes the texts, whose values are 100 positions apart.
func (u unit) finish() {
	for _, c := range u {
		c.tokens = tokens(analysis.Analyze, c.texts)
		c.subfields = map[algebra.Subfield][]analysis.Token{
			algebra.Folded: tokens(analysis.Folded, c.texts), algebra.Code: tokens(analysis.Code, c.texts),
		}
		for _, s := range c.texts {
			if s != "" && len(utf16.Encode([]rune(s))) <= readmodel.MaxKeyword {
				c.terms = append(c.terms, s)
			}
		}
	}
}

// tokens returns the tokens of texts, which are [analysis.Gap] positions apart.
func tokens(analyze analysis.Analyzer, texts []string) (out []analysis.Token) {
	base := 0
	for _, s := range texts {
		n := len(out)
		for _, t := range analyze(nil, s) {
			out = append(out, analysis.Token{Text: t.Text, Position: base + t.Position})
		}
		base += analysis.Gap + len(out) - n
	}
	return out
}

// count adds a unit to the statistics.
func (c *Collection) count(u unit) {
	for path, content := range u {
		words := make([]string, len(content.tokens))
		for i, t := range content.tokens {
			words[i] = t.Text
		}
		c.countField(path, words, len(words))
		for subfield, tokens := range content.subfields {
			words := make([]string, len(tokens))
			for i, t := range tokens {
				words[i] = t.Text
			}
			c.countField(path+"."+string(subfield), words, len(words))
		}
		whole := slices.Compact(slices.Sorted(slices.Values(content.terms)))
		if len(content.texts) > 0 {
			path += ".keyword"
		}
		c.countField(path, whole, len(whole))
	}
}

func (c *Collection) countField(name string, terms []string, n int) {
	if n == 0 {
		return
	}
	s := c.stats[name]
	if s == nil {
		s = &fieldStats{frequency: make(map[string]int)}
		c.stats[name] = s
	}
	s.units++
	s.terms += n
	for _, t := range slices.Compact(slices.Sorted(slices.Values(terms))) {
		s.frequency[t]++
	}
}

// field returns the statistics of a field.
func (c *Collection) field(f algebra.Field) *fieldStats {
	if s := c.stats[f.Name()]; s != nil {
		return s
	}
	return &fieldStats{}
}

// dictionary returns the terms of a field that satisfy a condition, in order.
func (c *Collection) dictionary(f algebra.Field, fits func(term string) bool) []string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(c.field(f).frequency)) {
		if fits(t) {
			out = append(out, t)
		}
	}
	return out
}

// milliseconds parses a date or an instant.
func milliseconds(s string) (int64, error) {
	layout := time.RFC3339Nano
	if len(s) == len(time.DateOnly) {
		layout = time.DateOnly
	}
	t, err := time.Parse(layout, s)
	return t.UnixMilli(), err
}
