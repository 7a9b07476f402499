package searchtest

import (
	"strconv"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// several returns random clauses for the scope.
func (g *Generator) several(s scope, depth, most int) []any {
	var out []any
	for range 1 + g.r.IntN(most) {
		if q := g.clause(s, g.r.IntN(depth)); q != nil {
			out = append(out, q)
		}
	}
	return out
}

// stranger returns the scope of another document, at the same path if that exists.
func (g *Generator) stranger(s scope) scope {
	d := pick(g.r, g.docs...)
	if s.path == "" {
		return scope{v: d.root}
	}
	if e, ok := element(d.root, s.path, g); ok {
		return e
	}
	return s
}

// element returns the scope of a random element of an array of a document.
func element(root map[string]any, path string, g *Generator) (scope, bool) {
	list, ok := root[path].([]any)
	if !ok || len(list) == 0 {
		return scope{}, false
	}
	return scope{path: path, v: pick(g.r, list...)}, true
}

// listOrOne returns a single clause with or without an array around it.
func (g *Generator) listOrOne(list []any) any {
	if len(list) == 1 && g.r.IntN(3) == 0 {
		return list[0]
	}
	return list
}

func (g *Generator) boolean(s scope, depth int) any {
	const c = "bool"
	args := object()
	if g.may(c, "must", 2) {
		list := g.several(s, depth, 2)
		if g.allowed("match_all", "") && g.r.IntN(5) == 0 { // Alone it is not selective.
			g.use("match_all")
			list = append(list, object("match_all", g.matchAll(s, 0)))
		}
		args["must"] = g.listOrOne(list)
	}
	if args["must"] == nil && g.may(c, "filter", 1) || g.may(c, "filter", 3) {
		args["filter"] = g.listOrOne(g.several(s, depth, 2))
	}
	if g.may(c, "should", 2) {
		list := g.several(s, depth, 3)
		for range g.r.IntN(3) {
			if q := g.clause(g.stranger(s), g.r.IntN(depth)); q != nil {
				list = append(list, q)
			}
		}
		args["should"] = g.listOrOne(list)
		if g.may(c, "minimum_should_match", 3) {
			args["minimum_should_match"] = g.minimum()
		}
	}
	if args["should"] == nil && g.r.IntN(8) == 0 && g.allowed(c, "minimum_should_match") { // without clauses
		args["minimum_should_match"] = g.minimum()
	}
	if g.may(c, "must_not", 4) {
		if list := g.several(g.stranger(s), depth, 2); len(list) > 0 {
			args["must_not"] = g.listOrOne(list)
		}
	}
	if g.may(c, "adjust_pure_negative", 20) {
		args["adjust_pure_negative"] = g.r.IntN(2) == 0
	}
	for k, v := range args {
		if list, ok := v.([]any); ok && len(list) == 0 {
			delete(args, k)
		}
	}
	g.boost(c, args)
	return args
}

func (g *Generator) constantScore(s scope, depth int) any {
	q := g.clause(s, depth-1)
	if q == nil {
		return nil
	}
	args := object("filter", q)
	g.boost("constant_score", args)
	return args
}

func (g *Generator) boosting(s scope, depth int) any {
	positive, negative := g.clause(s, depth-1), g.clause(g.stranger(s), depth-1)
	if positive == nil || negative == nil {
		return nil
	}
	args := object("positive", positive, "negative", negative, "negative_boost", pick(g.r, 0.0, 0.2, 0.7, 1.0))
	g.boost("boosting", args)
	return args
}

func (g *Generator) disMax(s scope, depth int) any {
	list := g.several(s, depth, 3)
	if len(list) == 0 {
		return nil
	}
	args := object("queries", list)
	if g.may("dis_max", "tie_breaker", 2) {
		args["tie_breaker"] = pick(g.r, 0.0, 0.3, 1.0)
	}
	g.boost("dis_max", args)
	return args
}

func (g *Generator) nested(s scope, depth int) any {
	const c = "nested"
	if s.path != "" || len(g.schema.nested) == 0 {
		return nil // Arrays are not nested in each other.
	}
	root, _ := s.v.(map[string]any)
	path := pick(g.r, g.schema.nested...)
	e, ok := element(root, path, g)
	if !ok {
		return nil
	}
	q := g.clause(e, depth-1)
	if q == nil {
		return nil
	}
	args := object("path", path, "query", q)
	if g.may(c, "score_mode", 2) {
		args["score_mode"] = pick(g.r, "avg", "sum", "min", "max", "none")
	}
	if g.may(c, "ignore_unmapped", 8) {
		args["ignore_unmapped"] = g.r.IntN(2) == 0
		if args["ignore_unmapped"] == true && g.r.IntN(3) == 0 {
			args["path"] = "hobbies"
		}
	}
	if args["path"] == path {
		g.innerHits(args)
	}
	g.boost(c, args)
	return args
}

func (g *Generator) functionScore(s scope, depth int) any {
	const c = "function_score"
	q := g.clause(s, depth-1)
	if q == nil {
		return nil
	}
	args := object("query", q)
	if n := g.r.IntN(4); n > 0 {
		var list []any
		for range n {
			if f := g.function(s); f != nil {
				list = append(list, f)
			}
		}
		if len(list) == 0 {
			return nil
		}
		args["functions"] = list
		if g.may(c, "score_mode", 2) {
			args["score_mode"] = pick(g.r, "multiply", "sum", "avg", "first", "max", "min")
		}
	} else if f := g.oneFunction(s); f != nil {
		for k, v := range f {
			args[k] = v
		}
	}
	if g.may(c, "boost_mode", 2) {
		args["boost_mode"] = pick(g.r, "multiply", "replace", "sum", "avg", "max", "min")
	}
	if g.may(c, "max_boost", 6) {
		args["max_boost"] = pick(g.r, 1.5, 4, 100)
	}
	if !g.fuzzed && g.may(c, "min_score", 6) { // Minimum random scores depend on the engine.
		args["min_score"] = pick(g.r, 0.5, 1, 3)
	}
	g.boost(c, args)
	return args
}

// function returns a random entry of functions.
func (g *Generator) function(s scope) any {
	f := g.oneFunction(s)
	if f == nil {
		return nil
	}
	if g.may("function_score", "filter", 2) {
		if q := g.clause(g.stranger(s), 0); q != nil {
			f["filter"] = q
		}
	}
	if _, ok := f["weight"]; !ok && g.may("function_score", "weight", 3) {
		f["weight"] = pick(g.r, 0, 0.5, 2, 3)
	}
	return f
}

func (g *Generator) oneFunction(s scope) map[string]any {
	const c = "function_score"
	switch kind := pick(g.r, "weight", "field_value_factor", "field_value_factor", "gauss", "exp", "linear",
		"random_score"); kind {
	case "weight":
		if g.may(c, kind, 1) {
			return object("weight", pick(g.r, 0, 0.5, 2, 4.5))
		}
	case "field_value_factor":
		if s.path != "" || !g.may(c, kind, 1) {
			return nil // Numbers are at the root only.
		}
		args := object("field", pick(g.r, g.schema.numbers...), "missing", pick(g.r, 1, 10))
		if g.r.IntN(2) == 0 {
			args["factor"] = pick(g.r, 0.5, 1.2, 3)
		}
		if g.r.IntN(3) > 0 {
			args["modifier"] = pick(g.r, "none", "log1p", "log2p", "ln1p", "ln2p", "sqrt", "square")
		}
		return object(kind, args)
	case "random_score":
		if g.may(c, kind, 1) {
			g.fuzzed = true
			return object(kind, object("seed", g.r.IntN(1000), "field", g.schema.id+".keyword"))
		}
	default:
		if !g.may(c, kind, 1) {
			return nil
		}
		f, v := g.fieldOf(s, number, date)
		args := object()
		switch f.kind {
		case number:
			n, ok := integer(v)
			if !ok {
				return nil
			}
			args["origin"], args["scale"] = n+int64(g.r.IntN(50)), 1+g.r.IntN(300)
			if g.r.IntN(2) == 0 {
				args["offset"] = g.r.IntN(30)
			}
		case date:
			str, _ := v.(string)
			t, err := parseDate(str)
			if err != nil {
				return nil
			}
			args["origin"], args["scale"] = t.AddDate(0, 0, g.r.IntN(100)).Format("2006-01-02"),
				pick(g.r, "30d", "200d", "5000h", "9000h")
			if g.r.IntN(2) == 0 {
				args["offset"] = pick(g.r, "5d", "100h")
			}
		default:
			return nil
		}
		if g.r.IntN(2) == 0 {
			args["decay"] = pick(g.r, 0.2, 0.5, 0.9)
		}
		out := object(f.path, args)
		if g.may(c, "multi_value_mode", 4) {
			out["multi_value_mode"] = pick(g.r, "min", "max", "avg", "sum", "median")
		}
		return object(kind, out)
	}
	return nil
}

// sort returns random sort keys.
func (g *Generator) sort() []any {
	var keys []any
	for range 1 + g.r.IntN(2) {
		if g.may("sort", "_score", 5) {
			keys = append(keys, pick[any](g.r, "_score", object("_score", object("order", pick(g.r, "asc", "desc")))))
			continue
		}
		f, v := g.fieldOf(g.anchor, text, number, number, date, date, boolean)
		if v == nil {
			continue
		}
		name := f.path
		if f.kind == text {
			name = f.keyword()
		}
		args := object()
		if g.may("sort", "order", 2) {
			args["order"] = pick(g.r, "asc", "desc")
		}
		double := f.kind != text && g.may("sort", "numeric_type", 5)
		if double {
			args["numeric_type"] = pick(g.r, "double", "long", "DATE")
			double = args["numeric_type"] == "double"
		}
		if g.may("sort", "unmapped_type", 8) {
			args["unmapped_type"] = "long" // no effect, since the field exists
			if f.kind != text && g.r.IntN(2) == 0 {
				name = "no_" + name
				args["unmapped_type"] = pick(g.r, "long", "double", "boolean", "date")
			}
		}
		if g.may("sort", "missing", 4) {
			args["missing"] = pick[any](g.r, "_last", "_first")
			switch {
			case g.r.IntN(2) == 0:
			case double:
				args["missing"] = pick[any](g.r, 0.5, "250.7", 3e11)
			case f.kind == number:
				args["missing"] = pick[any](g.r, 250, "250", 250.7)
			case f.kind == date:
				args["missing"] = pick[any](g.r, 2030, "2030", 1_600_000_000_000)
			case f.kind == boolean:
				args["missing"] = pick[any](g.r, 1, "0", 7)
			}
		}
		if f.nested != "" && g.may("sort", "mode", 2) {
			modes := []string{"min", "max"}
			if f.kind != text { // numbers only
				modes = append(modes, "sum", "avg", "median")
			}
			args["mode"] = pick(g.r, modes...)
		}
		if f.nested != "" && g.may("sort", "nested", 2) {
			nested := object("path", f.nested)
			if e, ok := element(g.anchor.v.(map[string]any), f.nested, g); ok && g.may("sort", "nested.filter", 2) {
				if q := g.clause(e, 0); q != nil {
					nested["filter"] = q
				}
			}
			if g.may("sort", "nested.max_children", 4) {
				nested["max_children"] = 1 + g.r.IntN(2)
			}
			args["nested"] = nested
		}
		switch {
		case len(args) > 0:
			keys = append(keys, object(name, args))
		case g.r.IntN(2) == 0:
			keys = append(keys, object(name, pick(g.r, "asc", "desc")))
		default:
			keys = append(keys, name)
		}
	}
	if len(keys) == 0 {
		keys = append(keys, "_score")
	}
	return keys
}
