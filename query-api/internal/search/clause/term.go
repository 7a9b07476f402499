package clause

import (
	"errors"
	"math"
	"math/big"
	"path"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func lowerTerm(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "value", func(f algebra.Field, a *args) (algebra.Node, error) {
		at := a.must("value")
		insensitive := a.flag("case_insensitive", false)
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		text, err := at.scalar()
		if err != nil {
			return nil, err
		}
		if insensitive {
			if !f.IsString() {
				return nil, at.errorf("case_insensitive is for text fields, not for %s", f.Name())
			}
			return boosted(l.leaf(f, algebra.Pattern{Field: f, Kind: algebra.Whole, Text: text, Insensitive: true}), boost), nil
		}
		n, err := l.exact(f, at, text)
		if err != nil {
			return nil, err
		}
		return boosted(n, boost), nil
	})
}

// exact returns the node of one term, without analysis.
func (l *lowering) exact(f algebra.Field, at value, text string) (algebra.Node, error) {
	n, err := l.unit(f, at, text)
	if err != nil {
		return nil, err
	}
	return l.leaf(f, n), nil
}

// unit returns the node of one term, whether the field exists where the clause is or not.
func (l *lowering) unit(f algebra.Field, at value, text string) (algebra.Node, error) {
	switch f.Type {
	case readmodel.SearchText:
		if text == "" || len(text) > MaxAnalyzed {
			return algebra.None{}, nil // There is no such term.
		}
		if f.Identity {
			return algebra.Set{Field: f, Values: []string{text}}, nil
		}
		return algebra.Term{Field: f, Text: text}, nil
	case readmodel.SearchBoolean:
		term, err := booleanTerm(f, at, text)
		if err != nil {
			return nil, err
		}
		return algebra.Term{Field: f, Text: term}, nil
	case readmodel.SearchLong:
		n, whole, err := longOf(f, at, text)
		if err != nil {
			return nil, err
		}
		if !whole {
			return algebra.None{}, nil
		}
		return algebra.Range{Field: f, Min: n, Max: n}, nil
	default:
		d := dateReader{now: l.options.Now, zones: l.zones}
		text = dateText(at, text)
		return l.dateRange(f, at, d, dateBounds{lower: &text, lowerIncluded: true, upper: &text, upperIncluded: true})
	}
}

// booleanTerm returns the indexed term of a boolean.
func booleanTerm(f algebra.Field, at value, text string) (string, error) {
	switch text {
	case "true":
		return "T", nil
	case "false":
		return "F", nil
	}
	return "", at.errorf("can't parse boolean value %s, expected true or false for %s", quote(text), f.Name())
}

// longOf parses a number. whole is false if it has a fraction, so that no integer equals it, and for the integer that
// represents a missing value.
func longOf(f algebra.Field, at value, text string) (n int64, whole bool, err error) {
	if len(text) > MaxNumber { // Parsing it exactly takes quadratic time.
		return 0, false, at.errorf("is a number of more than %d characters", MaxNumber)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, n != readmodel.SearchMissing, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if math.IsInf(x, 0) && errors.Is(err, strconv.ErrRange) || math.Abs(x) > 1<<63 {
		return 0, false, at.errorf("the value %s is out of range for a long", quote(text))
	}
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || strings.ContainsAny(text, "_xX") { // accepted by Go only
		return 0, false, at.errorf("%s holds integers: %s is not one that it can hold", f.Name(), quote(text))
	}
	switch {
	case x != math.Trunc(x):
		return 0, false, nil
	case math.Abs(x) < 1<<53:
		return int64(x), true, nil
	}
	exact, ok := new(big.Rat).SetString(text) // A float64 would round it.
	if !ok {
		return 0, false, at.errorf("%s holds integers: %s is not one that it can hold", f.Name(), quote(text))
	}
	i := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !i.IsInt64() {
		return 0, false, at.errorf("the value %s is out of range for a long", quote(text))
	}
	return i.Int64(), i.Int64() != readmodel.SearchMissing, nil
}

func lowerTerms(l *lowering, c *Clause, v value) (algebra.Node, error) {
	if v.kind != '{' {
		return nil, v.errorf("must be an object that names a field, not %s", v.what())
	}
	var named *member
	boostOnly := value{place: v.place, kind: '{'}
	for i := range v.members {
		m := &v.members[i]
		if m.name == "boost" {
			boostOnly.members = append(boostOnly.members, *m)
			continue
		}
		if named != nil {
			return nil, v.errorf("[terms] query does not support multiple fields, found [%s] and [%s]", named.name, m.name)
		}
		named = m
	}
	if named == nil {
		return nil, v.errorf("names no field: write {\"terms\": {\"<field>\": [...]}}")
	}
	a := arguments(boostOnly, c.Parameters)
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	f, err := l.field(v, named.name)
	if err != nil {
		return nil, err
	}
	if named.kind == '{' {
		return nil, named.errorf("terms lookup is not supported: list the terms")
	}
	if named.kind != '[' {
		return nil, named.errorf("must be a list of terms, not %s", named.what())
	}
	if err := l.addTerms(named.value, len(named.items)); err != nil {
		return nil, err
	}
	if named.name == "_id" {
		if err := filled(named.value); err != nil {
			return nil, err
		}
	}
	n, err := l.anyOf(f, named.value)
	if err != nil {
		return nil, err
	}
	return boosted(n, boost), nil
}

// filled rejects empty ids.
func filled(list value) error {
	for _, item := range list.items {
		if text, err := item.scalar(); err == nil && text == "" {
			return item.errorf("ids can't be empty")
		}
	}
	return nil
}

// anyOf lowers a list of terms, any of which may match with score 1.
func (l *lowering) anyOf(f algebra.Field, v value) (algebra.Node, error) {
	set := algebra.Set{Field: f}
	var dates []algebra.Node
	for _, item := range v.items {
		text, err := item.scalar()
		if err != nil {
			return nil, err
		}
		switch f.Type {
		case readmodel.SearchText:
			if text != "" && len(text) <= MaxAnalyzed {
				set.Values = append(set.Values, text)
			}
		case readmodel.SearchBoolean:
			if text, err = booleanTerm(f, item, text); err != nil {
				return nil, err
			}
			set.Values = append(set.Values, text)
		case readmodel.SearchLong:
			n, whole, err := longOf(f, item, text)
			if err != nil {
				return nil, err
			}
			if whole {
				set.Values = append(set.Values, strconv.FormatInt(n, 10))
			}
		default:
			if len(dates) >= MaxClauses {
				return nil, item.errorf("more than %d dates in one list", MaxClauses)
			}
			n, err := l.exact(f, item, text)
			if err != nil {
				return nil, err
			}
			dates = append(dates, n)
		}
	}
	switch {
	case len(dates) > 0:
		return algebra.Constant{Node: algebra.Bool{Should: dates, Minimum: 1}, Score: 1}, nil
	case len(set.Values) == 0:
		return algebra.None{}, nil
	}
	return l.leaf(f, set), nil
}

func lowerIDs(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	values := a.must("values")
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	if values.kind == '0' {
		return nil, values.errorf("must be a list of ids, not %s", values.what())
	}
	if values.kind != '[' {
		values = value{place: values.place, kind: '[', items: []value{values}}
	}
	if err := l.addTerms(values, len(values.items)); err != nil {
		return nil, err
	}
	if err := filled(values); err != nil {
		return nil, err
	}
	f, err := l.field(v, "_id")
	if err != nil {
		return nil, err
	}
	n, err := l.anyOf(f, values)
	if err != nil {
		return nil, err
	}
	return boosted(n, boost), nil
}

func lowerExists(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	at := a.must("field")
	boost := a.boost()
	if err := a.done(); err != nil {
		return nil, err
	}
	if at.text == "_id" {
		return boosted(algebra.All{}, boost), nil
	}
	fields, err := l.existing(at, at.text)
	if err != nil {
		return nil, err
	}
	nodes := make([]algebra.Node, 0, len(fields))
	for _, f := range fields {
		if !l.hidden(f) {
			nodes = append(nodes, algebra.Exists{Field: f})
		}
	}
	switch len(nodes) {
	case 0:
		return algebra.None{}, nil
	case 1:
		return boosted(nodes[0], boost), nil
	}
	return algebra.Constant{Node: algebra.Bool{Should: nodes, Minimum: 1}, Score: boost}, nil
}

// existing returns the fields of a name in exists: one, those of an object, or those that a pattern matches.
func (l *lowering) existing(at value, name string) ([]algebra.Field, error) {
	var out []algebra.Field
	if below := l.below(name); len(below) > 0 {
		for _, path := range below {
			f, err := l.field(at, path)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
		return out, nil
	}
	if strings.Contains(name, "*") {
		return l.matching(at, name)
	}
	f, err := l.field(at, name)
	if err != nil {
		return nil, err
	}
	return append(out, f), nil
}

// matching returns the fields whose names a pattern with * matches.
func (l *lowering) matching(at value, pattern string) ([]algebra.Field, error) {
	var out []algebra.Field
	for _, name := range l.matchingNames(pattern) {
		f, err := l.field(at, name)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, at.errorf("no field is named like %s: fields are %s and so on", quote(pattern),
			strings.Join(l.fieldNames()[:4], ", "))
	}
	return out, nil
}

// matchingNames returns the names of fields that a pattern with * matches. The subfields .folded and .code repeat the
// words of their fields: a pattern matches them only if it ends in their names.
func (l *lowering) matchingNames(pattern string) []string {
	names := l.fieldNames()
	for _, subfield := range []algebra.Subfield{algebra.Folded, algebra.Code} {
		if strings.HasSuffix(pattern, "."+string(subfield)) {
			names = l.subfieldNames(subfield)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !matchName(pattern, name) })
}

// matchName reports whether a pattern, in which * matches any characters, matches a name.
func matchName(pattern, name string) bool {
	var escaped strings.Builder
	for _, r := range pattern {
		if strings.ContainsRune(`\[]?`, r) {
			escaped.WriteByte('\\')
		}
		escaped.WriteRune(r)
	}
	ok, err := path.Match(escaped.String(), name) // Names have no slash.
	return err == nil && ok
}

func lowerPrefix(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "value", func(f algebra.Field, a *args) (algebra.Node, error) {
		return l.pattern(f, a, a.must("value"), algebra.Prefix)
	})
}

func lowerWildcard(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "value", func(f algebra.Field, a *args) (algebra.Node, error) {
		at, ok := a.get("wildcard")
		if !ok {
			at = a.must("value")
		}
		return l.pattern(f, a, at, algebra.Wildcard)
	})
}

// pattern lowers a prefix or a wildcard.
func (l *lowering) pattern(f algebra.Field, a *args, at value, kind algebra.PatternKind) (algebra.Node, error) {
	insensitive := a.flag("case_insensitive", false)
	rewrite := a.rewrite("rewrite")
	boost := a.boost()
	if a.err != nil {
		return nil, a.err
	}
	text, err := at.scalar()
	if err != nil {
		return nil, err
	}
	if !f.IsString() {
		return nil, at.errorf("can only search for patterns in text fields, not in %s", f.Name())
	}
	if len(text) > MaxAnalyzed {
		return nil, at.errorf("is longer than %d bytes", MaxAnalyzed)
	}
	return boosted(l.leaf(f, rewrite.of(algebra.Pattern{Field: f, Kind: kind, Text: text, Insensitive: insensitive})),
		boost), nil
}
