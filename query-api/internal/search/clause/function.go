package clause

import (
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"time"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

func factorNames() []string {
	return []string{"weight", "field_value_factor", "random_score", "gauss", "exp", "linear"}
}

func lowerFunctionScore(l *lowering, c *Clause, v value) (algebra.Node, error) {
	a := arguments(v, c.Parameters)
	f := algebra.Function{MaxBoost: a.number("max_boost", math.MaxFloat32)}
	f.ScoreMode = algebra.ScoreMode(a.choice("score_mode", "multiply", "multiply", "sum", "avg", "first", "max", "min"))
	f.BoostMode = algebra.ScoreMode(a.choice("boost_mode", "multiply", "multiply", "replace", "sum", "avg", "max", "min"))
	if at, ok := a.get("min_score"); ok && at.kind != 'n' {
		least := a.number("min_score", 0)
		f.MinScore = &least
		l.minScoreDepth++
		defer func() { l.minScoreDepth-- }()
		if l.minScoreDepth > MaxMinScoreDepth {
			return nil, v.errorf("function_scores with min_score are nested deeper than %d levels", MaxMinScoreDepth)
		}
	}
	query, hasQuery := a.get("query")
	list, hasList := a.get("functions")
	boost := a.boost()
	// A single function may be next to the query.
	single := value{place: v.place, kind: '{'}
	for _, name := range factorNames() {
		if at, ok := a.get(name); ok {
			single.members = append(single.members, member{name, at})
		}
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	switch {
	case hasList && len(single.members) > 0:
		return nil, v.errorf("use either functions or a single function, not both")
	case len(single.members) > 1:
		return nil, v.errorf("names two functions, %s and %s: put them into functions", single.members[0].name,
			single.members[1].name)
	}
	var err error
	var items []value
	switch {
	case hasList && list.kind != '[':
		return nil, list.errorf("must be a list of functions, not %s", list.what())
	case hasList:
		items = list.items
	case len(single.members) > 0:
		items = []value{single}
	}
	for _, item := range items {
		if err := l.count(item, 1); err != nil {
			return nil, err
		}
		factor, err := l.factor(item)
		if err != nil {
			return nil, err
		}
		f.Functions = append(f.Functions, factor)
	}
	f.Node = algebra.All{}
	if hasQuery { // after the functions (Options.NamedClause)
		if f.Node, err = l.clause(query); err != nil {
			return nil, err
		}
	}
	if len(f.Functions) == 1 {
		if _, all := f.Functions[0].Filter.(algebra.All); all || f.Functions[0].Filter == nil {
			f.ScoreMode = algebra.ScoreFirst // Elasticsearch combines nothing then: avg would divide by the weight.
		}
	}
	l.functions = true
	return boosted(f, boost), nil
}

// factor lowers one function.
func (l *lowering) factor(v value) (algebra.Factor, error) {
	a := arguments(v, parameters(append(factorNames(), "filter")...))
	f := algebra.Factor{Kind: algebra.FactorWeight, Weight: a.number("weight", 1), Multiplier: 1}
	weight, weighted := a.get("weight")
	weighted = weighted && weight.kind != 'n'
	if math.Signbit(f.Weight) {
		a.fail(v.errorf("weight must not be negative"))
	}
	kinds := 0
	var err error
	for _, name := range factorNames()[1:] {
		at, ok := a.get(name)
		if !ok || a.err != nil {
			continue
		}
		if kinds++; kinds > 1 {
			return f, v.errorf("names two functions: give each an entry of functions")
		}
		switch name {
		case "field_value_factor":
			err = l.fieldFactor(&f, at)
		case "random_score":
			err = l.randomScore(&f, at)
		default:
			err = l.decay(&f, name, at)
		}
		if err != nil {
			return f, err
		}
	}
	filter, filtered := a.get("filter")
	if err := a.done(); err != nil {
		return f, err
	}
	if kinds == 0 && !weighted {
		return f, v.errorf("names no function: give one of %s", strings.Join(factorNames(), ", "))
	}
	if filtered {
		outer, outerNames := l.unshown, l.unnamed
		// Elasticsearch's FunctionScoreQueryBuilder drops match_all.
		l.unshown, l.unnamed = true, outerNames || rewritesToMatchAll(filter)
		f.Filter, err = l.clause(filter)
		l.unshown, l.unnamed = outer, outerNames
	}
	return f, err
}

// number resolves a field of numbers or dates.
func (l *lowering) number(at value, name string) (algebra.Field, error) {
	f, err := l.field(at, name)
	if err != nil {
		return f, err
	}
	if f.Type != readmodel.SearchLong && f.Type != readmodel.SearchDate {
		return f, at.errorf("%s holds no numbers", f.Name())
	}
	if l.hidden(f) {
		return f, at.errorf("%s does not exist inside %s", f.Name(), l.nested)
	}
	return f, nil
}

func (l *lowering) fieldFactor(f *algebra.Factor, v value) error {
	a := arguments(v, parameters("field", "factor", "modifier", "missing"))
	at := a.must("field")
	f.Kind = algebra.FactorField
	f.Multiplier = a.number("factor", 1)
	f.Modifier = a.choice("modifier", "none", "none", "log", "log1p", "log2p", "ln", "ln1p", "ln2p",
		"square", "sqrt", "reciprocal")
	if missing, ok := a.get("missing"); ok && missing.kind != 'n' {
		m := a.number("missing", 0)
		f.Missing = &m
	}
	if err := a.done(); err != nil {
		return err
	}
	var err error
	f.Field, err = l.number(at, at.text)
	return err
}

func (l *lowering) randomScore(f *algebra.Factor, v value) error {
	a := arguments(v, parameters("seed", "field"))
	f.Kind, f.Seed = algebra.FactorRandom, l.options.Seed
	if seed, ok := a.get("seed"); ok && seed.kind != 'n' {
		text, err := seed.scalar()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil && seed.kind != '"' {
			return seed.errorf("must be an integer or a string")
		}
		if err != nil {
			n = int64(crc32.ChecksumIEEE([]byte(text)))
		}
		f.Seed = n
	}
	if at, ok := a.get("field"); ok && a.err == nil && at.text != "_seq_no" {
		field, err := l.field(at, at.text)
		if err != nil {
			return err
		}
		if field.IsText() {
			return at.errorf("text fields have no single value: use %s.keyword", field.Path)
		}
		f.Field = field
	}
	return a.done()
}

// decay lowers {"<field>": {origin, scale, offset, decay}, "multi_value_mode": ...}.
func (l *lowering) decay(f *algebra.Factor, shape string, v value) error {
	if v.kind != '{' {
		return v.errorf("must be an object that names a field, not %s", v.what())
	}
	f.Kind, f.Shape, f.MultiValue = algebra.FactorDecay, shape, algebra.ScoreMin
	var named *member
	for i := range v.members {
		m := &v.members[i]
		if m.name == "multi_value_mode" {
			f.MultiValue = algebra.ScoreMode(strings.ToLower(m.text))
			switch f.MultiValue {
			case algebra.ScoreMin, algebra.ScoreMax, algebra.ScoreAvg, algebra.ScoreSum, algebra.ScoreMedian:
			default:
				return m.errorf("must be one of min, max, avg, sum, median")
			}
			continue
		}
		if named != nil {
			return v.errorf("names two fields, [%s] and [%s]: give each a function of its own", named.name, m.name)
		}
		named = m
	}
	if named == nil {
		return v.errorf("names no field")
	}
	field, err := l.number(v, named.name)
	if err != nil {
		return err
	}
	f.Field = field
	for _, m := range named.members {
		if m.kind == 'n' {
			return m.errorf("must not be null: omit it")
		}
	}
	a := arguments(named.value, parameters("origin", "scale", "offset", "decay"))
	origin, hasOrigin := a.get("origin")
	scale := a.must("scale")
	offset, hasOffset := a.get("offset")
	f.Decay = a.number("decay", 0.5)
	if f.Decay <= 0 || f.Decay >= 1 {
		a.fail(named.errorf("decay must be between 0 and 1"))
	}
	if err := a.done(); err != nil {
		return err
	}
	isDate := field.Type == readmodel.SearchDate
	if !hasOrigin && !isDate {
		return named.errorf("needs %q", "origin")
	}
	if isDate {
		if !hasOrigin {
			origin = value{place: place{in: &named.place, key: "origin"}, kind: '"', text: "now"}
		}
		ms, err := dateReader{now: l.options.Now, zones: l.zones}.read(origin, origin.text, false)
		if err != nil {
			return err
		}
		f.Origin = float64(ms)
		if f.Scale, err = duration(scale); err != nil {
			return err
		}
		if hasOffset {
			if f.Offset, err = duration(offset); err != nil {
				return err
			}
		}
	} else {
		b := arguments(named.value, parameters("origin", "scale", "offset", "decay"))
		f.Origin, f.Scale, f.Offset = b.number("origin", 0), b.number("scale", 0), b.number("offset", 0)
		if b.err != nil {
			return b.err
		}
	}
	if f.Scale <= 0 {
		return named.errorf("scale must be > 0")
	}
	if f.Offset < 0 {
		return named.errorf("offset must be >= 0")
	}
	return nil
}

// duration parses a duration such as 10d, an integer of a unit, and returns whole milliseconds. A capital M would be
// a month, which is not a duration.
func duration(v value) (float64, error) {
	text := strings.TrimSpace(strings.ToLower(v.text))
	for _, u := range []struct {
		suffix string
		length time.Duration
	}{
		{"nanos", time.Nanosecond}, {"micros", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second},
		{"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
	} {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		switch {
		case err != nil, u.suffix == "m" && !strings.HasSuffix(v.text, "m"):
		case u.length < time.Millisecond:
			return float64(n / int64(time.Millisecond/u.length)), nil
		default:
			return float64(n) * float64(u.length/time.Millisecond), nil
		}
		break
	}
	if text != "" && strings.Trim(text, "0") == "" {
		return 0, nil // the only one without a unit
	}
	return 0, v.errorf("must be a duration such as 10d, 12h or 500ms, of the units d, h, m, s, ms, micros and nanos")
}

func lowerTermsSet(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "", func(f algebra.Field, a *args) (algebra.Node, error) {
		list := a.must("terms")
		by, hasField := a.get("minimum_should_match_field")
		spec, given := a.minimumText()
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		if list.kind != '[' {
			return nil, list.errorf("must be a list of terms, not %s", list.what())
		}
		if hasField == given {
			return nil, a.at.errorf("needs minimum_should_match_field or minimum_should_match, one of them")
		}
		if err := l.count(list, len(list.items)); err != nil {
			return nil, err
		}
		b := algebra.Bool{}
		for _, item := range list.items {
			text, err := item.scalar()
			if err != nil {
				return nil, err
			}
			n, err := l.exact(f, item, text)
			if err != nil {
				return nil, err
			}
			b.Should = append(b.Should, n)
		}
		if len(b.Should) == 0 {
			return algebra.None{}, nil
		}
		if hasField {
			field, err := l.field(by, by.text)
			if err != nil {
				return nil, err
			}
			if field.Type != readmodel.SearchLong && field.Type != readmodel.SearchDate {
				return nil, by.errorf("%s holds no numbers", field.Name())
			}
			b.MinimumField = &field
			return boosted(b, boost), nil
		}
		n, err := minimum(list, spec, len(b.Should))
		if err != nil {
			return nil, err
		}
		b.Minimum = n
		node, err := boolean(b)
		return boosted(node, boost), err
	})
}
