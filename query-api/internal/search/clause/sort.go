package clause

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// maxSorts is the maximum number of sort keys.
const maxSorts = 16

func sortParameters() []Parameter {
	return parameters("order", "missing", "mode", "nested", "unmapped_type", "numeric_type")
}

// Sorts parses the sort of a request at path. The default is by score.
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
	case '[', '"', '{':
	default:
		return nil, v.errorf("must be a list of sort keys, not %s", v.what())
	}
	out, given, err := l.sorts(v)
	if err == nil {
		err = l.exceeded
	}
	if err != nil {
		return nil, err
	}
	if !given {
		return byScore, nil
	}
	// No two documents are equal by _doc: the keys after it have no effect.
	if i := slices.IndexFunc(out, func(s planner.Sort) bool { return s.Kind == planner.SortDocument }); i >= 0 {
		return out[:i+1], nil
	}
	if len(out) == 0 {
		out = append(out, planner.Sort{Kind: planner.SortDocument})
	}
	return out, nil
}

// sorts parses an array of keys, or an object of them. Keys without effect are dropped; given reports whether there
// are any keys.
func (l *lowering) sorts(v value) (out []planner.Sort, given bool, err error) {
	if v.kind != '[' {
		v = value{place: v.place, kind: '[', items: []value{v}}
	}
	keys := 0
	for _, item := range v.items {
		var list []member
		switch item.kind {
		case '"':
			list = []member{{item.text, value{place: item.place, kind: '{'}}}
		case '{':
			list = item.members
		default:
			return nil, false, item.errorf("must be a field's name or an object {\"<field>\": {\"order\": "+
				"\"desc\"}}, not %s", item.what())
		}
		if keys += len(list); keys > maxSorts {
			return nil, false, v.errorf("has more than %d keys", maxSorts)
		}
		for _, m := range list {
			s, unmapped, err := l.sort(m)
			if err != nil {
				return nil, false, err
			}
			given = true
			if !unmapped { // All documents lack it and are equal.
				out = append(out, s)
			}
		}
	}
	return out, given, nil
}

// unmappedTypes returns the sortable types of fields: strings, floating-point numbers and integers.
func unmappedTypes() (texts, floats, integers []string) {
	return []string{"keyword", "ip"}, []string{"double", "float", "half_float"},
		[]string{"long", "integer", "short", "byte", "unsigned_long", "date", "date_nanos", "boolean"}
}

// unmapped reads unmapped_type, which replaces the type of an unknown field.
func (a *args) unmapped(s *planner.Sort) bool {
	at, ok := a.get("unmapped_type")
	if !ok {
		return false
	}
	texts, floats, integers := unmappedTypes()
	if all := slices.Concat(integers, floats, texts); at.kind != '"' || !slices.Contains(all, at.text) {
		a.fail(at.errorf("must be a type of fields that can be sorted by, one of %s", strings.Join(all, ", ")))
	}
	s.Field.Type, s.Double = readmodel.SearchLong, slices.Contains(floats, at.text)
	if slices.Contains(texts, at.text) {
		s.Field.Type, s.Field.Keyword = readmodel.SearchText, true
	}
	return true
}

// numericType reads numeric_type.
func (a *args) numericType(s *planner.Sort) {
	at, ok := a.get("numeric_type")
	switch kind := a.choice("numeric_type", "", "long", "double", "date", "date_nanos"); {
	case !ok:
	case s.Field.IsString():
		a.fail(at.errorf("[numeric_type] option cannot be set on a non-numeric field: %s is a text", s.Field.Name()))
	case kind == "date_nanos":
		a.fail(at.errorf("dates have milliseconds: use date"))
	default:
		s.Double = kind == "double"
	}
}

// sort parses a key. unmapped reports whether its field is unknown and has an unmapped_type.
func (l *lowering) sort(m member) (s planner.Sort, unmapped bool, err error) {
	body := m.value
	if body.kind == '"' {
		body = value{place: body.place, kind: '{', members: []member{{"order", body}}}
	}
	for _, p := range body.members {
		if p.kind == 'n' && p.name != "missing" {
			return s, false, p.errorf("must not be null: omit it")
		}
	}
	a := arguments(body, sortParameters())
	s.Kind = planner.SortField
	otherwise := "asc"
	switch m.name {
	case "_score":
		s.Kind, otherwise = planner.SortScore, "desc"
	case "_doc", "_shard_doc":
		s.Kind = planner.SortDocument
	default:
		f, err := l.field(m.value, m.name)
		if s.Field = f; a.unmapped(&s) && err != nil {
			unmapped = true
			break
		}
		if err != nil {
			if by, order, ok := cutOrder(m.name); ok {
				if f, err := l.field(m.value, by); err == nil {
					return s, false, m.value.errorf("unknown field %s: write the order as {%q: %q}", quote(m.name), f.Name(), order)
				}
			}
			return s, false, err
		}
		if s.Field, s.Double = f, false; f.IsText() {
			return s, false, m.errorf("text fields cannot be sorted by: use %s.keyword", f.Path)
		}
	}
	s.Descending = a.choice("order", otherwise, "asc", "desc") == "desc"
	if s.Kind != planner.SortField {
		return s, unmapped, a.done()
	}
	if at, ok := a.get("format"); ok {
		a.fail(at.errorf("sort values are not returned: omit it"))
	}
	a.numericType(&s)
	mode := "min"
	if s.Descending {
		mode = "max"
	}
	s.Mode = algebra.ScoreMode(a.choice("mode", mode, "min", "max", "sum", "avg", "median"))
	if s.Field.IsString() && s.Mode != algebra.ScoreMin && s.Mode != algebra.ScoreMax {
		a.fail(body.errorf("sort mode %s is for numbers and dates: text fields support min and max", s.Mode))
	}
	if at, ok := a.get("missing"); ok {
		if err := l.missing(&s, at); err != nil {
			return s, false, err
		}
	}
	if at, ok := a.get("nested"); ok && a.err == nil {
		if l.elements {
			return s, false, at.errorf("is for people only: elements have no nested elements")
		}
		if err := l.sortNested(&s, at, unmapped); err != nil {
			return s, false, err
		}
	}
	return s, unmapped, a.done()
}

// cutOrder splits the form field:order of URI searches, which request bodies do not support.
func cutOrder(name string) (field, order string, ok bool) {
	field, order, ok = strings.Cut(name, ":")
	order = strings.ToLower(order)
	return field, order, ok && (order == "asc" || order == "desc")
}

// missing reads where people without a value are sorted.
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
	if s.Double {
		x, ok := at.number()
		if !ok {
			return at.errorf("must be a number, of dates in milliseconds since 1970, or _first or _last")
		}
		text = strconv.FormatFloat(x, 'g', -1, 64)
		s.Missing = &text
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if x, wrong := strconv.ParseFloat(text, 64); err != nil && wrong == nil && at.kind == '0' &&
		!errors.Is(err, strconv.ErrRange) {
		n, err = int64(min(max(x, math.MinInt64), 1<<63-1024)), nil // truncated
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

// sortNested reads which nested documents count. Those of an unknown path are missing, like an unmapped field.
func (l *lowering) sortNested(s *planner.Sort, at value, unmapped bool) error {
	a := arguments(at, parameters("path", "filter", "max_children"))
	path := a.must("path")
	filter, filtered := a.get("filter")
	if _, ok := a.get("max_children"); ok {
		most := max(a.integer("max_children", 0, math.MinInt32, math.MaxInt32), 0)
		s.Children = &most
	}
	if at, ok := a.get("nested"); ok {
		a.fail(at.errorf("nested paths are not inside each other"))
	}
	if err := a.done(); err != nil {
		return err
	}
	if err := l.nestedPath(path, path.text); err != nil {
		if unmapped {
			return nil
		}
		return err
	}
	if s.Field.Nested != path.text && !unmapped {
		return path.errorf("%s is not inside %s", s.Field.Name(), path.text)
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
