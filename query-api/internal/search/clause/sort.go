package clause

import (
	"errors"
	"math"
	"strconv"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// maxSorts bounds the keys of a sort.
const maxSorts = 16

func sortParameters() []Parameter {
	return parameters("order", "missing", "mode", "nested")
}

// Sorts reads the sort of a request; path is where it stands. Nothing means by
// score.
func Sorts(text []byte, path string, options Options) ([]planner.Sort, error) {
	byScore := []planner.Sort{{Kind: planner.SortScore, Descending: true}}
	if len(text) == 0 {
		return byScore, nil
	}
	v, err := parse(text, path)
	if err != nil {
		return nil, err
	}
	l := newLowering(options)
	switch v.kind {
	case 'n':
		return byScore, nil
	case '[':
	case '"', '{':
		v = value{path: v.path, kind: '[', items: []value{v}}
	default:
		return nil, v.errorf("must be a list of sort keys, not %s", v.what())
	}
	if len(v.items) > maxSorts {
		return nil, v.errorf("has more than %d keys", maxSorts)
	}
	var out []planner.Sort
	for _, item := range v.items {
		var list []member
		switch item.kind {
		case '"':
			list = []member{{item.text, value{path: item.path, kind: '{'}}}
		case '{':
			list = item.members
		default:
			return nil, item.errorf("must be a field's name or an object {\"<field>\": {\"order\": \"desc\"}}, not %s", item.what())
		}
		for _, m := range list {
			s, err := l.sort(m)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return byScore, nil
	}
	return out, nil
}

func (l *lowering) sort(m member) (planner.Sort, error) {
	body := m.value
	if body.kind == '"' {
		body = value{path: body.path, kind: '{', members: []member{{"order", body}}}
	}
	for _, p := range body.members {
		if p.kind == 'n' && (p.name == "order" || p.name == "mode") {
			return planner.Sort{}, p.errorf("must not be null: leave it out")
		}
	}
	a := arguments(body, sortParameters())
	s := planner.Sort{Kind: planner.SortField}
	otherwise := "asc"
	switch m.name {
	case "_score":
		s.Kind, otherwise = planner.SortScore, "desc"
	case "_doc", "_shard_doc":
		s.Kind = planner.SortDocument
	default:
		f, err := l.field(m.value, m.name)
		if err != nil {
			return s, err
		}
		if f.IsText() {
			return s, m.errorf("text fields cannot be sorted by: use %s.keyword", f.Name())
		}
		s.Field = f
	}
	s.Descending = a.choice("order", otherwise, "asc", "desc") == "desc"
	if s.Kind != planner.SortField {
		return s, a.done()
	}
	mode := "min"
	if s.Descending {
		mode = "max"
	}
	s.Mode = algebra.ScoreMode(a.choice("mode", mode, "min", "max", "sum", "avg", "median"))
	if s.Field.IsString() && s.Mode != algebra.ScoreMin && s.Mode != algebra.ScoreMax {
		a.fail(body.errorf("sort mode %s is for numbers and dates: a text has min and max", s.Mode))
	}
	if at, ok := a.get("missing"); ok {
		if err := l.missing(&s, at); err != nil {
			return s, err
		}
	}
	if at, ok := a.get("nested"); ok && a.err == nil {
		if err := l.sortNested(&s, at); err != nil {
			return s, err
		}
	}
	return s, a.done()
}

// missing reads where people without a value come.
func (l *lowering) missing(s *planner.Sort, at value) error {
	if at.kind == 'n' {
		return nil
	}
	text, err := at.scalar()
	if err != nil {
		return err
	}
	switch {
	case text == "_last":
		return nil
	case text == "_first":
		s.MissingFirst = true
		return nil
	case s.Field.Type == readmodel.SearchText:
		s.Missing = &text
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if x, wrong := strconv.ParseFloat(text, 64); err != nil && wrong == nil && at.kind == '0' && !errors.Is(err, strconv.ErrRange) {
		n, err = int64(min(max(x, math.MinInt64), 1<<63-1024)), nil // cut off after the point
		if x >= 1<<63 {
			n = math.MaxInt64
		}
	}
	if err != nil {
		return at.errorf("must be an integer, of dates in milliseconds since 1970, or _first or _last")
	}
	text = strconv.FormatInt(n, 10)
	s.Missing = &text
	return nil
}

// sortNested reads which elements count.
func (l *lowering) sortNested(s *planner.Sort, at value) error {
	a := arguments(at, parameters("path", "filter"))
	path := a.must("path")
	filter, filtered := a.get("filter")
	if err := a.done(); err != nil {
		return err
	}
	if err := l.nestedPath(path, path.text); err != nil {
		return err
	}
	if s.Field.Nested != path.text {
		return path.errorf("%s is not inside of %s", s.Field.Name(), path.text)
	}
	if !filtered {
		return nil
	}
	l.nested, l.sorting = path.text, true
	n, err := l.clause(filter)
	l.nested, l.sorting = "", false
	s.Nested = n
	return err
}
