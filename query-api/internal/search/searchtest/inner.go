package searchtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Inner are the inner hits of a document under one name.
type Inner struct {
	Total   int
	Offsets []int // of the elements in their list; needed of the judge only, as what follows, but for Sources
	Scores  []*float64
	Sorts   [][]jsontext.Value
	Sources []jsontext.Value // what is shown of the elements, nil for nothing
}

// innerWindow is which of the inner hits were asked for.
type innerWindow struct {
	from, size int
	sorted     bool // by other keys than scores: equal ones come as they stand in the document
}

// mostInner is the largest window that a judge gives.
const mostInner = 100

// innerHits draws the parameter of nested, or nothing.
func (g *Generator) innerHits(args map[string]any) {
	if !g.may("nested", "inner_hits", 2) {
		return
	}
	const c = "nested"
	hits := object()
	path := args["path"].(string) // nested has drawn it
	name := path
	if g.may(c, "inner_hits.name", 2) || g.inner[name] {
		name = "hits " + strconv.Itoa(len(g.inner))
		hits["name"] = name
	}
	g.inner[name] = true
	if g.may(c, "inner_hits.from", 3) {
		hits["from"] = g.r.IntN(3)
	}
	if g.may(c, "inner_hits.size", 2) {
		hits["size"] = pick(g.r, 0, 1, 2, 5, 98)
	}
	if g.may(c, "inner_hits.sort", 2) {
		hits["sort"] = g.innerSort(path)
	}
	if g.may(c, "inner_hits._source", 3) {
		hits["_source"] = g.innerSource(path)
	}
	if g.may(c, "inner_hits.ignore_unmapped", 12) {
		hits["ignore_unmapped"] = g.r.IntN(2) == 0
	}
	args["inner_hits"] = hits
}

// innerSort draws an order of the elements of a path.
func (g *Generator) innerSort(path string) any {
	const c = "nested"
	var own []field
	for _, f := range fields() {
		if f.nested == path {
			own = append(own, f)
		}
	}
	keys := []any{}
	for range 1 + g.r.IntN(3) {
		switch g.r.IntN(8) {
		case 0:
			keys = append(keys, pick[any](g.r, "_score", object("_score", pick(g.r, "asc", "desc"))))
			continue
		case 1:
			keys = append(keys, pick[any](g.r, "_doc", object("_doc", pick(g.r, "asc", "desc"))))
			continue
		}
		f := pick(g.r, own...)
		if g.r.IntN(12) == 0 {
			f = pick(g.r, fields()...) // mostly one that the elements do not have
		}
		name := f.path
		if f.kind == text {
			name = f.keyword()
		}
		args := object()
		if g.r.IntN(3) > 0 && g.may(c, "inner_hits.sort.order", 1) {
			args["order"] = pick(g.r, "asc", "desc")
		}
		if g.r.IntN(3) > 0 && g.may(c, "inner_hits.sort.missing", 1) {
			args["missing"] = pick[any](g.r, "_last", "_first")
			switch {
			case g.r.IntN(2) == 0:
			case f.kind == text:
				args["missing"] = pick[any](g.r, "Engineer", "m", "zz")
			case f.kind == date:
				args["missing"] = pick[any](g.r, 1_400_000_000_000, 1_600_000_000_000)
			default:
				args["missing"] = pick[any](g.r, 1, "0", 7)
			}
		}
		if g.r.IntN(3) > 0 && g.may(c, "inner_hits.sort.mode", 1) {
			args["mode"] = pick(g.r, "min", "max")
			if f.kind != text {
				args["mode"] = pick(g.r, "min", "max", "sum", "avg", "median")
			}
		}
		if f.kind == date && g.r.IntN(6) == 0 {
			args["numeric_type"] = pick(g.r, "double", "long")
		}
		if len(args) == 0 && g.r.IntN(2) == 0 {
			keys = append(keys, name)
		} else {
			keys = append(keys, object(name, args))
		}
	}
	if key, ok := keys[0].(map[string]any); ok && len(keys) == 1 && g.r.IntN(2) == 0 {
		return key
	}
	return keys
}

// innerSource draws what is shown of the elements of a path.
func (g *Generator) innerSource(path string) any {
	var names []string
	for _, f := range fields() {
		if f.nested == path {
			names = append(names, f.path)
		}
	}
	names = append(names, path, path+".nothing", "profile.headline")
	name := func() string {
		n := pick(g.r, names...)
		switch g.r.IntN(8) {
		case 0: // the beginning
			return n[:1+g.r.IntN(len(n))] + "*"
		case 1: // the end
			return "*" + n[g.r.IntN(len(n)):]
		case 2: // with a gap
			i := g.r.IntN(len(n))
			return n[:i] + "*" + n[i+g.r.IntN(len(n)-i):]
		case 3: // as it is called in the element, which is not its name
			return n[strings.LastIndexByte(n, '.')+1:]
		case 4:
			return path + ".*"
		}
		return n
	}
	list := func() any {
		if g.r.IntN(4) == 0 {
			return name()
		}
		out := []any{}
		for range g.r.IntN(4) {
			out = append(out, name())
		}
		return out
	}
	switch g.r.IntN(6) {
	case 0:
		return g.r.IntN(2) == 0
	case 1:
		return object("excludes", list())
	case 2:
		return object("includes", list(), "excludes", list())
	}
	return list()
}

// WholeInner is a request that asks for all inner hits where body asks for some, as the judge is to be asked.
func WholeInner(body map[string]any) map[string]any {
	whole, _ := clone(body).(map[string]any)
	eachInner(whole, func(_, _ string, hits map[string]any) {
		hits["from"], hits["size"] = 0, mostInner
	})
	return whole
}

// eachInner calls visit with every inner_hits of a value, its name and its path.
func eachInner(v any, visit func(name, path string, hits map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			eachInner(e, visit)
		}
	case map[string]any:
		if hits, ok := v["inner_hits"].(map[string]any); ok {
			path, _ := v["path"].(string)
			name, ok := hits["name"].(string)
			if !ok {
				name = path
			}
			visit(name, path, hits)
		}
		for _, k := range sorted(v) {
			eachInner(v[k], visit)
		}
	}
}

// innerWindows are those of a request, by name.
func innerWindows(body map[string]any) map[string]innerWindow {
	out := make(map[string]innerWindow)
	eachInner(body, func(name, _ string, hits map[string]any) {
		w := innerWindow{size: 3}
		for member, target := range map[string]*int{"from": &w.from, "size": &w.size} {
			switch n := hits[member].(type) {
			case int:
				*target = n
			case float64:
				*target = int(n)
			}
		}
		sort := fmt.Sprint(hits["sort"])
		w.sorted = len(sort) > len("map[]") && !strings.Contains(sort, "_score")
		out[name] = w
	})
	return out
}

// CompareInner says how the inner hits of got differ from those that the judge gave for WholeInner(body), or returns nil.
// Elements whose scores are equal may come in any order, where scores order them. anyOrder: what is shown can be compared,
// but not where.
func CompareInner(body map[string]any, judge, got Result, anyOrder bool) error {
	windows := innerWindows(body)
	if len(windows) == 0 {
		return nil
	}
	known := make(map[string]Hit, len(judge.Hits))
	for _, h := range judge.Hits {
		known[h.ID] = h
	}
	for _, h := range got.Hits {
		for name, window := range windows {
			want, judged := known[h.ID].Inner[name]
			given, shown := h.Inner[name]
			if judged != shown {
				return fmt.Errorf("inner hits %q of %s: shown %v, by the judge %v", name, h.ID, shown, judged)
			}
			if err := compareInner(window, want, given, anyOrder); err != nil {
				return fmt.Errorf("inner hits %q of %s: %w", name, h.ID, err)
			}
		}
	}
	return nil
}

func compareInner(window innerWindow, want, got Inner, anyOrder bool) error {
	if got.Total != want.Total {
		return fmt.Errorf("total is %d, the judge's %d", got.Total, want.Total)
	}
	if n := max(0, min(window.size, want.Total-window.from)); len(got.Sources) != n {
		return fmt.Errorf("%d are shown, not %d", len(got.Sources), n)
	}
	shown := make([]string, len(want.Sources))
	for i, source := range want.Sources {
		var err error
		if shown[i], err = canonical(source); err != nil {
			return err
		}
	}
	taken := make([]bool, len(shown))
	for i, source := range got.Sources {
		text, err := canonical(source)
		if err != nil {
			return err
		}
		place := window.from + i
		found := -1
		for k := range shown {
			if !taken[k] && shown[k] == text && (anyOrder || want.alike(window, place, k)) {
				found = k
				break
			}
		}
		if found < 0 {
			return fmt.Errorf("place %d shows %s, the judge has element %d there, of which it shows %s", i, text,
				want.Offsets[place], shown[place])
		}
		taken[found] = true
	}
	return nil
}

// alike says that the judge might as well have put the k-th of its elements at a place.
func (i Inner) alike(window innerWindow, place, k int) bool {
	if window.sorted {
		return place == k
	}
	return samePlace(Hit{Score: i.Scores[place], Sort: i.Sorts[place]}, Hit{Score: i.Scores[k], Sort: i.Sorts[k]})
}

// canonical is a JSON text in a form in which equal values are equal.
func canonical(v jsontext.Value) (string, error) {
	if v == nil {
		return "{}", nil
	}
	v = v.Clone()
	err := v.Canonicalize()
	return string(v), err
}

// InnerOf reads the inner hits of a result of search, which shows the elements, by name.
func InnerOf(result []byte) (map[string]Inner, error) {
	var document struct {
		Inner map[string]struct {
			Total int              `json:"total"`
			Hits  []jsontext.Value `json:"hits"`
		} `json:"inner_hits"`
	}
	if err := json.Unmarshal(result, &document); err != nil {
		return nil, err
	}
	if document.Inner == nil {
		return nil, nil // nobody asked
	}
	out := make(map[string]Inner)
	for name, s := range document.Inner {
		out[name] = Inner{Total: s.Total, Sources: s.Hits}
	}
	return out, nil
}
