package clause

import (
	"maps"
	"slices"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// weighted is a field with its boost.
type weighted struct {
	field algebra.Field
	boost float64
}

// maxFields is the maximum number of fields of one clause.
const maxFields = 1024

// fieldList parses fields with boosts ("name^2") and patterns ("profile.*"). The boosts of a field that a pattern and
// its name match are multiplied. Of a duplicate name the last one counts, or with keep, as in query strings, the last
// one with a boost.
func (l *lowering) fieldList(v value, keep bool) ([]weighted, error) {
	items := v.items
	if v.kind == '"' {
		items = []value{v}
	} else if v.kind != '[' {
		return nil, v.errorf("must be a list of field names, not %s", v.what())
	}
	if len(items) > maxFields {
		return nil, v.errorf("names more than %d fields", maxFields)
	}
	type entry struct {
		at    value
		name  string
		boost float64
	}
	var list []entry // without duplicates
	for _, item := range items {
		if item.kind != '"' {
			return nil, item.errorf("must be a field name, not %s", item.what())
		}
		name, power, hasBoost := strings.Cut(item.text, "^")
		n := entry{item, name, 1}
		if hasBoost {
			b, ok := javaFloat(power, 32)
			if !ok || b < 0 {
				return nil, item.errorf("the boost after ^ must be a number of 0 or more")
			}
			n.boost = float64(float32(b))
		}
		switch i := slices.IndexFunc(list, func(m entry) bool { return m.name == name }); {
		case i < 0:
			list = append(list, n)
		case hasBoost || !keep:
			list[i] = n
		}
	}
	var out []weighted
	for _, n := range list {
		var fields []algebra.Field
		var err error
		if strings.Contains(n.name, "*") {
			fields, err = l.matching(n.at, n.name)
		} else {
			fields = make([]algebra.Field, 1)
			fields[0], err = l.field(n.at, n.name)
		}
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			out = merged(out, weighted{f, n.boost})
		}
	}
	if len(out) == 0 {
		return nil, v.errorf("names no field")
	}
	return out, nil
}

// merged adds a field to fields. The boosts of the same field are multiplied.
func merged(fields []weighted, w weighted) []weighted {
	i := slices.IndexFunc(fields, func(other weighted) bool { return other.field.Name() == w.field.Name() })
	if i < 0 {
		return append(fields, w)
	}
	fields[i].boost *= w.boost
	return fields
}

// defaultFields returns all fields, the default of a clause without fields.
func (l *lowering) defaultFields(at value) ([]weighted, error) {
	return l.fieldList(value{place: at.place, kind: '"', text: "*"}, false)
}

// suffixed returns the fields with a suffix, and those themselves that have none. Fields that become one are merged.
func (l *lowering) suffixed(fields []weighted, suffix string) []weighted {
	var out []weighted
	for _, w := range fields {
		if f := &w.field; f.IsText() && f.Subfield == "" {
			switch suffix {
			case keywordSuffix:
				f.Keyword = true
			case "." + string(algebra.Folded), "." + string(algebra.Code):
				if f.Subfields {
					*f = algebra.NewSubfield(f.SearchField, algebra.Subfield(suffix[1:]))
				}
			}
		}
		out = merged(out, w)
	}
	return out
}

// fieldsOr returns the fields of a clause, by default all.
func (l *lowering) fieldsOr(v value, given, keep bool, clause value) ([]weighted, error) {
	if !given || v.kind == 'n' || v.kind == '[' && len(v.items) == 0 {
		return l.defaultFields(clause)
	}
	return l.fieldList(v, keep)
}

// allFields reports whether a list of fields is empty or has a "*": a text that does not fit all fields is then not
// an error.
func allFields(v value) bool {
	if v.kind == '"' {
		v.items = []value{v}
	}
	return len(v.items) == 0 || slices.ContainsFunc(v.items, func(item value) bool {
		name, _, _ := strings.Cut(item.text, "^")
		return name == "*"
	})
}

func lowerMultiMatch(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	at := a.must("query")
	fieldsAt, hasFields := a.get("fields")
	kind := a.choice("type", "best_fields", "best_fields", "most_fields", "cross_fields", "phrase",
		"phrase_prefix", "bool_prefix")
	m := a.matching()
	if err := a.fuzziness(&m); err != nil {
		return nil, err
	}
	m.slop = a.integer("slop", 0, 0, maxSlop)
	m.lenient = a.flag("lenient", !hasFields || allFields(fieldsAt))
	a.noSynonyms()
	_, hasTie := a.get("tie_breaker")
	tie := a.number("tie_breaker", 0)
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	if tie < 0 || tie > 1 {
		return nil, v.errorf("tie_breaker must be from 0 to 1")
	}
	switch {
	case m.slop != 0 && kind == "bool_prefix":
		return nil, v.errorf("[slop] not allowed for type [bool_prefix]")
	case m.fuzzy.given && slices.Contains([]string{"cross_fields", "phrase", "phrase_prefix"}, kind):
		return nil, v.errorf("[fuzziness] not allowed for type [%s]", kind)
	}
	if !hasTie && (kind == "most_fields" || kind == "bool_prefix") {
		tie = 1
	}
	query, err := at.scalar()
	if err != nil {
		return nil, err
	}
	fields, err := l.fieldsOr(fieldsAt, hasFields, false, v)
	if err != nil {
		return nil, err
	}
	if kind == "cross_fields" {
		n, err := l.crossFields(at, fields, query, m, tie)
		return boosted(n, boost), err
	}
	var nodes []algebra.Node
	for _, w := range fields {
		var n algebra.Node
		switch kind {
		case "phrase", "phrase_prefix":
			n, err = l.phrase(w.field, at, query, m, kind == "phrase_prefix")
		case "bool_prefix":
			n, err = l.boolPrefix(w.field, at, query, m)
		default:
			n, err = l.match(w.field, at, query, m)
		}
		if err != nil {
			if m.lenient && !w.field.IsString() {
				continue // An invalid number or date matches nothing.
			}
			return nil, err
		}
		nodes = append(nodes, boosted(n, w.boost))
	}
	return boosted(disMax(nodes, tie), boost), nil
}

func disMax(nodes []algebra.Node, tie float64) algebra.Node {
	switch len(nodes) {
	case 0:
		return algebra.None{}
	case 1:
		return nodes[0]
	}
	return algebra.DisMax{Nodes: nodes, Tie: tie}
}

// crossFields lowers a text whose words may be in any of the fields. Fields with the same analyzer are searched word
// by word as if they were one: the texts, their subfields, and the whole values.
func (l *lowering) crossFields(at value, fields []weighted, query string, m matching,
	tie float64) (algebra.Node, error) {
	texts := make(map[string][]weighted) // by analyzer
	var others []weighted
	for _, w := range fields {
		if w.field.IsText() || m.analyzer != "" { // A named analyzer applies to all fields.
			analyzer := analyzerOf(w.field, m.analyzer)
			texts[analyzer] = append(texts[analyzer], w)
		} else {
			others = append(others, w)
		}
	}
	var groups []algebra.Node
	for _, analyzer := range slices.Sorted(maps.Keys(texts)) {
		tokens, err := l.analyze(at, query, analyzer)
		if err != nil {
			return nil, err
		}
		nodes := make([]algebra.Node, len(tokens))
		for i, t := range tokens {
			if nodes[i], err = l.across(at, texts[analyzer], t.Text, m.lenient, tie); err != nil {
				return nil, err
			}
		}
		switch len(nodes) {
		case 0:
			if !m.zeroDrop {
				groups = append(groups, m.zero())
			}
		case 1:
			groups = append(groups, nodes[0])
		default:
			n, err := m.join(at, nodes)
			if err != nil {
				return nil, err
			}
			groups = append(groups, n)
		}
	}
	if len(others) > 0 {
		n, err := l.across(at, others, query, m.lenient, tie)
		if err != nil {
			return nil, err
		}
		groups = append(groups, n)
	}
	if len(groups) == 0 {
		return nil, nil // with zeroDrop, the text is ignored
	}
	return disMax(groups, tie), nil
}

// across lowers one word for any of several fields with blended statistics, including those of fields that do not
// exist where the clause is.
func (l *lowering) across(at value, fields []weighted, word string, lenient bool, tie float64) (algebra.Node, error) {
	l.blends++
	var terms, others []algebra.Node
	for _, w := range fields {
		n, err := l.unit(w.field, at, word)
		if err != nil {
			if lenient && !w.field.IsString() {
				continue // An invalid number or date matches nothing.
			}
			return nil, err
		}
		if t, ok := n.(algebra.Term); ok {
			t.Blend, t.Across, t.Absent = l.blends, true, l.hidden(w.field)
			terms = append(terms, boosted(t, w.boost))
		} else if !l.hidden(w.field) {
			others = append(others, boosted(n, w.boost))
		}
	}
	if err := l.count(at, len(terms)+len(others)); err != nil {
		return nil, err
	}
	if len(terms) > 0 {
		others = append(others, disMax(terms, tie))
	}
	return disMax(others, tie), nil
}

func lowerCombinedFields(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	at, fieldsAt := a.must("query"), a.must("fields")
	m := matching{
		all:     a.choice("operator", "or", "or", "and") == "and",
		zeroAll: a.choice("zero_terms_query", "none", "none", "all") == "all",
	}
	m.minimum, m.hasMinimum = a.minimumText()
	a.noSynonyms()
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	query, err := at.scalar()
	if err != nil {
		return nil, err
	}
	list, err := l.fieldList(fieldsAt, false)
	if err != nil {
		return nil, err
	}
	combined := algebra.Combined{Path: l.nested}
	for _, w := range list {
		if !w.field.IsText() {
			return nil, fieldsAt.errorf("combined_fields is for text fields, not for %s", w.field.Name())
		}
		if w.boost < 1 {
			return nil, fieldsAt.errorf("[combined_fields] requires field boosts to be >= 1.0, found %s", w.field.Name())
		}
		if w.field.Subfield != list[0].field.Subfield {
			return nil, fieldsAt.errorf("all fields in [combined_fields] query must have the same search analyzer: %s and "+
				"%s have not", list[0].field.Name(), w.field.Name())
		}
		combined.Fields, combined.Weights = append(combined.Fields, w.field), append(combined.Weights, w.boost)
	}
	tokens, err := l.analyze(at, query, analyzerOf(list[0].field, ""))
	if err != nil {
		return nil, err
	}
	nodes := make([]algebra.Node, len(tokens))
	for i, t := range tokens {
		n := combined
		n.Text = t.Text
		nodes[i] = n
	}
	switch len(nodes) {
	case 0:
		return boosted(m.zero(), boost), nil
	case 1:
		return boosted(nodes[0], boost), nil
	}
	n, err := m.join(at, nodes)
	return boosted(n, boost), err
}
