package searchtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// aggs is the name of aggregations in requests and in the names of parameters.
const aggs = "aggs"

// aggregations returns random aggregations for documents of a scope. levels is how many may be inside each other,
// without those that only select documents.
func (g *Generator) aggregations(s scope, levels int) map[string]any {
	out := object()
	for range 1 + g.r.IntN(3) {
		if a := g.aggregation(s, levels); a != nil {
			out[pick(g.r, "a", "b b", "ü", "d.e", "f")] = a
		}
	}
	return out
}

func (g *Generator) aggregation(s scope, levels int) map[string]any {
	kinds := []string{"filter"}
	if levels > 0 {
		kinds = append(kinds, "terms", "terms", "range", "date_histogram", "filters", "cardinality", "min", "max",
			"avg", "sum", "value_count")
	}
	switch {
	case s.path == "" && len(g.schema.nested) == 0:
	case s.path == "":
		kinds = append(kinds, "nested", "nested")
	default:
		kinds = append(kinds, "reverse_nested")
	}
	kind := pick(g.r, kinds...)
	inside, out := s, object()
	switch kind {
	case "filter":
		filter := g.aggregationFilter(s)
		if filter == nil {
			return nil
		}
		out[kind] = filter
	case "filters":
		filters := g.aggregationFilters(s)
		if filters == nil {
			return nil
		}
		out[kind], levels = filters, levels-1
	case "nested":
		path := pick(g.r, g.schema.nested...)
		elements, _ := lookup1(s.v, path).([]any)
		if len(elements) == 0 {
			return nil
		}
		inside = scope{path: path, v: pick(g.r, elements...)}
		out[kind] = object("path", path)
	case "reverse_nested":
		inside = g.anchor
		out[kind] = object()
	case "terms", "range", "date_histogram":
		args := g.bucketed(kind, s)
		if args == nil {
			return nil
		}
		out[kind], levels = args, levels-1
	default:
		args := g.metric(kind, s)
		if args == nil {
			return nil
		}
		out[kind] = args
		g.uses[aggs+"."+kind] = true
		return out
	}
	g.uses[aggs+"."+kind] = true
	if g.r.IntN(4) > 0 && (levels > 0 || g.r.IntN(2) == 0) {
		if sub := g.aggregations(inside, levels); len(sub) > 0 {
			out[pick(g.r, aggs, "aggregations")] = sub
			g.orderBySub(kind, out, sub)
		}
	}
	return out
}

// lookup1 returns the value of a member, which may be an array.
func lookup1(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

// identifies reports whether text names a field whose values identify people or organizations.
func identifies(text string) bool {
	for _, part := range []string{"_url", "username", "_id", "first_name", "last_name", "full_name", "email", "*",
		"slug", "profile.name", "website", "domain", "phone"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// aggregated returns a random field of the scope that may be aggregated, and one of its values.
func (g *Generator) aggregated(s scope, kinds ...kind) (f field, name string, v any) {
	for range 20 {
		if f, v = g.fieldOf(s, pick(g.r, kinds...)); f.path == "" || identifies(f.path) {
			continue
		}
		if f.kind == text {
			return f, f.keyword(), v
		}
		return f, f.path, v
	}
	return field{}, "", nil
}

// aggregationFilter returns a random clause without fields that identify, nil if there is none.
func (g *Generator) aggregationFilter(s scope) any {
	for range 20 {
		before := g.inner
		g.inner = map[string]bool{}
		q := g.clause(s, pick(g.r, 0, 0, 1))
		named := g.inner
		g.inner = before
		raw, err := json.Marshal(q, json.Deterministic(true))
		body := string(raw)
		unnamed := strings.Contains(body, "query_string") || strings.Contains(body, "multi_match")
		if q != nil && err == nil && len(named) == 0 && !identifies(body) && !strings.Contains(body, "min_score") &&
			!strings.Contains(body, `_name"`) &&
			!(unnamed && !strings.Contains(body, `"fields"`)) && !strings.Contains(body, `"ids"`) {
			return q
		}
	}
	return nil
}

func (g *Generator) aggregationFilters(s scope) any {
	named, list := object(), []any{}
	for _, name := range []string{"x", "y", "z z"}[:1+g.r.IntN(3)] {
		if f := g.aggregationFilter(s); f != nil {
			named[name], list = f, append(list, f)
		}
	}
	if len(list) == 0 {
		return nil
	}
	out := object("filters", named)
	if g.may(aggs, "filters.list", 2) {
		out["filters"] = list
	}
	if g.may(aggs, "filters.other_bucket", 2) {
		out["other_bucket"] = g.r.IntN(4) > 0
	}
	if g.may(aggs, "filters.other_bucket_key", 4) {
		out["other_bucket_key"] = "rest"
	}
	return out
}

// dateFormats are formats of dates in responses.
func dateFormats() []string {
	return []string{"yyyy", "yyyy-MM-dd", "dd/MM/yyyy HH:mm:ss", "year_month", "strict_date_time", "epoch_millis",
		"strict_date_optional_time", "date", "basic_date", "MMM yyyy", "yy", "date_hour_minute_second_millis",
		"yyyy-MM-dd'T'HH:mm:ss.SSSXXX||epoch_millis"}
}

// bucketed returns the parameters of terms, range or date_histogram.
func (g *Generator) bucketed(kind string, s scope) map[string]any {
	allowed := map[string][]fieldKind{
		"terms": {text, text, text, number, date, boolean}, "range": {number, date}, "date_histogram": {date},
	}[kind]
	f, name, v := g.aggregated(s, allowed...)
	if f.path == "" {
		return nil
	}
	args := object("field", name)
	if g.may(aggs, kind+".missing", 5) {
		args["missing"] = v
	}
	if f.kind == date && g.may(aggs, kind+".format", 3) {
		args["format"] = pick(g.r, dateFormats()...)
		delete(args, "missing") // it is parsed in that format
	}
	switch kind {
	case "terms":
		args["shard_size"] = 20_000
		if g.may(aggs, "terms.size", 2) {
			args["size"] = pick(g.r, 1, 3, 50, 1000)
		}
		if g.may(aggs, "terms.min_doc_count", 5) {
			args["min_doc_count"] = pick(g.r, 1, 2, 5)
			args["size"] = 10_000 // Elasticsearch counts rare terms as others only if it drops them in shards
		}
		if f.kind != boolean && g.may(aggs, "terms.include", 8) {
			args["include"] = []any{v, g.another(s, f, v)}
		}
		if f.kind != boolean && g.may(aggs, "terms.exclude", 8) {
			args["exclude"] = []any{v}
		}
	case "range":
		args["ranges"] = g.intervals(f, v, args["format"] != nil)
	case "date_histogram":
		if g.r.IntN(2) == 0 {
			args["calendar_interval"] = pick(g.r, "month", "quarter", "year", "1y", "1M")
		} else {
			args["fixed_interval"] = pick(g.r, "30d", "90d", "1000h", "500000m", "365d")
		}
		if g.may(aggs, "date_histogram.min_doc_count", 3) {
			args["min_doc_count"] = pick(g.r, 0, 1, 3)
		}
	}
	if kind != "terms" && g.may(aggs, kind+".keyed", 4) {
		args["keyed"] = true
	}
	if kind != "range" && g.may(aggs, kind+".order", 3) {
		args["order"] = pick[any](g.r, object("_key", "desc"), object("_key", "asc"), object("_count", "asc"),
			[]any{object("_count", "desc"), object("_key", "desc")})
	}
	return args
}

// fieldKind is kind, where a variable has that name.
type fieldKind = kind

// another returns a value of the field in another document, or v.
func (g *Generator) another(s scope, f field, v any) any {
	path := f.path
	if s.path == "" && f.nested == "" || f.nested != "" {
		if list := lookup(pick(g.r, g.docs...).root, path); len(list) > 0 {
			return pick(g.r, list...)
		}
	}
	return v
}

// intervals returns random ranges around a value. Dates in a format are numbers.
func (g *Generator) intervals(f field, v any, formatted bool) []any {
	var out []any
	for i := range 1 + g.r.IntN(4) {
		r := object()
		if g.may(aggs, "range.key", 4) {
			r["key"] = "r" + strconv.Itoa(i)
		}
		from, to := g.intervalEnd(f, v, formatted), g.intervalEnd(f, v, formatted)
		switch g.r.IntN(4) {
		case 0:
			r["from"] = from
		case 1:
			r["to"] = to
		default:
			r["from"], r["to"] = from, to
			if x, isNumber := from.(float64); isNumber {
				r["to"] = x + float64(g.r.IntN(500))
			}
		}
		out = append(out, r)
	}
	return out
}

func (g *Generator) intervalEnd(f field, v any, formatted bool) any {
	if formatted {
		return 1.2e12 + 1e11*float64(g.r.IntN(6))
	}
	if f.kind == date {
		return pick[any](g.r, "2010-01-01", "2015-06", "2020", "now-5y/y", "2018-01-01||+1M/d", 1.6e12)
	}
	x, _ := v.(float64)
	return pick(g.r, x, 0, 100, 499.5, 1000, 2e7, -5)
}

func (g *Generator) metric(kind string, s scope) map[string]any {
	kinds := []fieldKind{number, date}
	if kind == "cardinality" || kind == "value_count" {
		kinds = append(kinds, text, text, boolean)
	}
	f, name, v := g.aggregated(s, kinds...)
	if f.path == "" {
		return nil
	}
	args := object("field", name)
	if kind == "cardinality" {
		args["precision_threshold"] = 40_000
	}
	if g.may(aggs, kind+".missing", 5) {
		args["missing"] = v
	}
	if f.kind == date && kind != "cardinality" && kind != "value_count" && g.may(aggs, kind+".format", 4) {
		args["format"] = pick(g.r, dateFormats()...)
		delete(args, "missing")
	}
	return args
}

// orderBySub may order terms and intervals by an aggregation inside.
func (g *Generator) orderBySub(kind string, out, sub map[string]any) {
	if kind != "terms" && kind != "date_histogram" || !g.may(aggs, kind+".order_by_aggregation", 3) {
		return
	}
	for _, name := range sorted(sub) {
		inner, _ := sub[name].(map[string]any)
		for _, metric := range []string{"min", "max", "sum", "avg", "value_count", "cardinality", "filter",
			"reverse_nested", "nested"} {
			if inner[metric] != nil && !strings.Contains(name, ".") {
				args, _ := out[kind].(map[string]any)
				args["order"] = object(name, pick(g.r, "asc", "desc"))
				return
			}
		}
	}
}

// CompareAggregations returns an error that describes how the aggregations of got differ from the reference.
func CompareAggregations(reference, got Result) error {
	var want, have any
	for _, side := range []struct {
		from jsontext.Value
		to   *any
	}{{reference.Aggregations, &want}, {got.Aggregations, &have}} {
		if len(side.from) == 0 {
			continue
		}
		if err := json.Unmarshal(side.from, side.to); err != nil {
			return fmt.Errorf("aggregations: %w", err)
		}
	}
	return compareJSON(aggs, want, have)
}

// compareJSON compares two JSON values; numbers may differ by rounding.
func compareJSON(path string, want, have any) error {
	switch w := want.(type) {
	case map[string]any:
		// Elasticsearch adds an empty one to aggregations whose filters it rewrites.
		if meta, ok := w["meta"].(map[string]any); ok && len(meta) == 0 {
			delete(w, "meta")
		}
		h, ok := have.(map[string]any)
		if !ok || len(h) != len(w) {
			return fmt.Errorf("aggregation differs: %s is %.300v, want %.300v", path, have, want)
		}
		for _, k := range sorted(w) {
			if err := compareJSON(path+"."+k, w[k], h[k]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return fmt.Errorf("aggregation differs: %s has %.300v, want %.300v", path, have, want)
		}
		for i := range w {
			if err := compareJSON(path+"["+strconv.Itoa(i)+"]", w[i], h[i]); err != nil {
				return err
			}
		}
		return nil
	case float64:
		if h, ok := have.(float64); ok && math.Abs(w-h) <= 1e-12*math.Max(math.Abs(w), math.Abs(h)) {
			return nil
		}
	}
	if want != have {
		return fmt.Errorf("aggregation differs: %s is %v, want %v", path, have, want)
	}
	return nil
}
