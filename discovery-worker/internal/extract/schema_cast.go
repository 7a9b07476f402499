package extract

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/tree"
)

// cast converts a value of the input to the declared type.
func (a requestedField) cast(n tree.Node) (jsontext.Value, bool) {
	if len(a.types) == 0 {
		return nil, false
	}
	for _, t := range a.types {
		if v, ok := a.castTo(t, n); ok && a.allows(v) {
			return v, true
		}
	}
	return nil, false
}

// allows reports whether the enumeration contains a value.
func (a requestedField) allows(v jsontext.Value) bool {
	return len(a.enum) == 0 || slices.ContainsFunc(a.enum, func(o jsontext.Value) bool {
		return string(o) == string(v)
	})
}

var (
	trueWords = lexicon.Set( //nolint:gochecknoglobals // a constant set
		"true\nyes\ny\nja\noui\nsí\nsi\nsim\n1\non")
	falseWords = lexicon.Set( //nolint:gochecknoglobals // a constant set
		"false\nno\nn\nnein\nnon\nnão\nnee\n0\noff\nnone")

	amount = regexp.MustCompile(`^[^\d\p{L}-]{0,4}(-?\d{1,15}(?:[, ]\d{3})*(?:\.\d{1,10})?)\s?(?:%` +
		`|[\p{L}$€£¥+ ]{0,20})$`)
	thousand = regexp.MustCompile(`^-?\d{1,3}(?:[., ]\d{3})+$`)
)

func (a requestedField) castTo(t string, n tree.Node) (jsontext.Value, bool) {
	text := strings.TrimSpace(n.Text)
	switch t {
	case "string":
		if n.Kind != '"' && n.Kind != '0' || text == "" || len(text) > 2000 {
			return nil, false
		}
		for _, o := range a.enum { // in the spelling of the schema
			var s string
			if json.Unmarshal(o, &s) == nil && strings.EqualFold(s, text) {
				return o, true
			}
		}
		return quoteJSON(text), true
	case "number", "integer":
		if n.Kind == '0' && (t == "number" || phrase.Number.FindString(text) == strings.TrimPrefix(text, "-")) {
			return jsontext.Value(text), true
		}
		m := amount.FindStringSubmatch(text)
		if n.Kind != '"' || m == nil || strings.Contains(m[1], ".") && thousand.MatchString(m[1]) {
			return nil, false
		}
		x, err := strconv.ParseFloat(strings.NewReplacer(",", "", " ", "").Replace(m[1]), 64)
		if err != nil || t == "integer" && x != float64(int64(x)) {
			return nil, false
		}
		return jsontext.Value(strconv.FormatFloat(x, 'f', -1, 64)), true
	case "boolean":
		switch l := strings.ToLower(text); {
		case n.Kind == 't' || n.Kind == '"' && trueWords[l]:
			return jsontext.Value("true"), true
		case n.Kind == 'f' || n.Kind == '"' && falseWords[l]:
			return jsontext.Value("false"), true
		}
	case "array":
		return a.castArray(n)
	}
	return nil, false
}

// castArray converts a list, or words separated by commas, to an array.
func (a requestedField) castArray(n tree.Node) (jsontext.Value, bool) {
	item := requestedField{types: []string{"string"}}
	if a.items != nil && len(a.items.types) > 0 {
		item = *a.items
	}
	var nodes []tree.Node
	switch n.Kind {
	case '[':
		for _, m := range n.Members {
			if m.Value.Kind == '{' && item.accepts("string") {
				nodes = append(nodes, m.Value.Strings("name", "skill", "language", "title", "value")...)
				continue
			}
			nodes = append(nodes, m.Value)
		}
	case '"':
		for _, w := range listSeparator.Split(n.Text, maxEntries) {
			if w = strings.TrimSpace(w); w != "" {
				nodes = append(nodes, tree.Node{Kind: '"', Text: w})
			}
		}
	}
	var values []jsontext.Value
	for _, x := range nodes {
		if v, ok := item.cast(x); ok && len(values) < maxEntries {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil, false
	}
	v, err := json.Marshal(values)
	return v, err == nil
}
