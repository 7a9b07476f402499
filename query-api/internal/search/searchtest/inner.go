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
	Offsets []int // positions of the elements in their array
	Scores  []*float64
	Sorts   [][]jsontext.Value // of the reference only
	Sources []jsontext.Value   // returned fields of the elements; nil: none
}

// innerWindow is the requested window of inner hits.
type innerWindow struct {
	from, size int
	sorted     bool // not only by scores; ties are in the order of the document
}

// mostInner is the largest window of a reference.
const mostInner = 100

// innerHits may set the parameter inner_hits of nested.
func (g *Generator) innerHits(args map[string]any) {
	if !g.may("nested", "inner_hits", 2) {
		return
	}
	const c = "nested"
	hits := object()
	path := args["path"].(string) // set by nested
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

// innerSort returns random sort keys for the elements of a path.
func (g *Generator) innerSort(path string) any {
	const c = "nested"
	var own []field
	for _, f := range g.schema.fields {
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
			f = pick(g.r, g.schema.fields...) // mostly one that the elements lack
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

// innerSource returns a random _source for the elements of a path.
func (g *Generator) innerSource(path string) any {
	var names []string
	for _, f := range g.schema.fields {
		if f.nested == path {
			names = append(names, f.path)
		}
	}
	names = append(names, path, path+".nothing", "profile.headline")
	name := func() string {
		n := pick(g.r, names...)
		switch g.r.IntN(8) {
		case 0: // a prefix
			return n[:1+g.r.IntN(len(n))] + "*"
		case 1: // a suffix
			return "*" + n[g.r.IntN(len(n)):]
		case 2: // a wildcard inside
			i := g.r.IntN(len(n))
			return n[:i] + "*" + n[i+g.r.IntN(len(n)-i):]
		case 3: // a name relative to the element, which matches nothing
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

// WholeInner returns body with all inner hits instead of windows of them, for the reference.
func WholeInner(body map[string]any) map[string]any {
	whole, _ := clone(body).(map[string]any)
	eachInner(whole, func(_, _ string, hits map[string]any) {
		hits["from"], hits["size"] = 0, mostInner
	})
	return whole
}

// eachInner calls visit with each inner_hits of a value, its name and its path.
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

// innerWindows returns the windows of a request by name.
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

// CompareInner returns an error that describes how the inner hits of got differ from those of the reference for
// WholeInner(body). Elements with equal scores may be in any order if scores order them. If anyOrder is set, positions
// are not compared.
func CompareInner(body map[string]any, reference, got Result, anyOrder bool) error {
	windows := innerWindows(body)
	if len(windows) == 0 {
		return nil
	}
	known := make(map[string]Hit, len(reference.Hits))
	for _, h := range reference.Hits {
		known[h.ID] = h
	}
	for _, h := range got.Hits {
		for name, window := range windows {
			want, judged := known[h.ID].Inner[name]
			given, shown := h.Inner[name]
			if judged != shown {
				return fmt.Errorf("inner hits %q of %s: shown %v, by the reference %v", name, h.ID, shown, judged)
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
		return fmt.Errorf("total is %d, the reference's %d", got.Total, want.Total)
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
			if !taken[k] && shown[k] == text && want.Offsets[k] == got.Offsets[i] &&
				(anyOrder || want.alike(window, place, k)) {
				found = k
				break
			}
		}
		if found < 0 {
			return fmt.Errorf("place %d shows %s, the reference has element %d there, of which it shows %s", i, text,
				want.Offsets[place], shown[place])
		}
		taken[found] = true
		if s := got.Scores[i]; s != nil && !anyOrder && want.Scores[found] != nil && !near(*s, *want.Scores[found]) {
			return fmt.Errorf("place %d has score %g, want %g", i, *s, *want.Scores[found])
		}
	}
	return nil
}

// alike reports whether the k-th element of the reference may be at a place too, since it ties.
func (i Inner) alike(window innerWindow, place, k int) bool {
	if window.sorted {
		return place == k
	}
	return sameRank(Hit{Score: i.Scores[place], Sort: i.Sorts[place]}, Hit{Score: i.Scores[k], Sort: i.Sorts[k]})
}

// canonical returns a canonical form of a JSON text.
func canonical(v jsontext.Value) (string, error) {
	if v == nil {
		return "{}", nil
	}
	v = v.Clone()
	err := v.Canonicalize()
	return string(v), err
}

// InnerOf returns the inner hits of a search result by name.
func InnerOf(result []byte) (map[string]Inner, error) {
	var document struct {
		Inner map[string]struct {
			Hits struct {
				Total struct {
					Value int `json:"value"`
				} `json:"total"`
				Hits []struct {
					Nested struct {
						Offset int `json:"offset"`
					} `json:"_nested"`
					Score  *float64       `json:"_score"`
					Source jsontext.Value `json:"_source"`
				} `json:"hits"`
			} `json:"hits"`
		} `json:"inner_hits"`
	}
	if err := json.Unmarshal(result, &document); err != nil {
		return nil, err
	}
	if document.Inner == nil {
		return nil, nil // not requested
	}
	out := make(map[string]Inner)
	for name, s := range document.Inner {
		inner := Inner{Total: s.Hits.Total.Value}
		for _, h := range s.Hits.Hits {
			inner.Offsets, inner.Scores = append(inner.Offsets, h.Nested.Offset), append(inner.Scores, h.Score)
			inner.Sources = append(inner.Sources, h.Source)
		}
		out[name] = inner
	}
	return out, nil
}
