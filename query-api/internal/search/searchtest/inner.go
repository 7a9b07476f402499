package searchtest

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Inner are the inner hits of a document under one name.
type Inner struct {
	Total   int
	Offsets []int      // of the elements in their list
	Scores  []*float64 // needed of the judge only
}

// innerWindow is which of the inner hits were asked for.
type innerWindow struct{ from, size int }

// mostInner is the largest window that a judge gives.
const mostInner = 100

// innerHits draws the parameter of nested, or nothing.
func (g *Generator) innerHits(args map[string]any) {
	if !g.may("nested", "inner_hits", 4) {
		return
	}
	hits := object()
	name := args["path"].(string) //nolint:forcetypeassert // nested has drawn it
	if g.inner[name] || g.r.IntN(2) == 0 {
		name = "hits " + strconv.Itoa(len(g.inner))
		hits["name"] = name
	}
	g.inner[name] = true
	if g.r.IntN(3) == 0 {
		hits["from"] = g.r.IntN(3)
	}
	if g.r.IntN(2) == 0 {
		hits["size"] = pick(g.r, 0, 1, 2, 5, 100)
	}
	args["inner_hits"] = hits
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
		out[name] = w
	})
	return out
}

// CompareInner says how the inner hits of got differ from those that the judge gave for WholeInner(body), or returns nil.
// Elements whose scores are equal may come in any order. anyOrder: only totals can be compared.
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
	if n := max(0, min(window.size, want.Total-window.from)); len(got.Offsets) != n {
		return fmt.Errorf("%d are shown, not %d", len(got.Offsets), n)
	}
	scores := make(map[int]*float64, len(want.Offsets))
	for i, offset := range want.Offsets {
		scores[offset] = want.Scores[i]
	}
	for i, offset := range got.Offsets {
		score, ok := scores[offset]
		if !ok {
			return fmt.Errorf("element %d is none of the judge's, or came before", offset)
		}
		delete(scores, offset)
		if place := want.Scores[window.from+i]; !anyOrder && (score == nil || place == nil || !near(*score, *place)) {
			return fmt.Errorf("place %d has element %d, the judge has %d there", i, offset, want.Offsets[window.from+i])
		}
	}
	return nil
}

// InnerOf reads the inner hits of a result of search, which shows the elements, by name; the lists that they are of are in
// the result too.
func InnerOf(body map[string]any, result []byte) (map[string]Inner, error) {
	var document map[string]jsontext.Value
	if err := json.Unmarshal(result, &document); err != nil {
		return nil, err
	}
	if document["inner_hits"] == nil {
		return nil, nil //nolint:nilnil // nobody asked
	}
	var shown map[string]struct {
		Total int              `json:"total"`
		Hits  []jsontext.Value `json:"hits"`
	}
	if err := json.Unmarshal(document["inner_hits"], &shown); err != nil {
		return nil, err
	}
	paths := make(map[string]string)
	eachInner(body, func(name, path string, _ map[string]any) { paths[name] = path })
	out := make(map[string]Inner)
	for name, s := range shown {
		var elements []jsontext.Value
		if list := document[paths[name]]; list != nil {
			if err := json.Unmarshal(list, &elements); err != nil {
				return nil, err
			}
		}
		inner := Inner{Total: s.Total}
		taken := make(map[int]bool) // elements may be equal
		for _, hit := range s.Hits {
			offset := -1
			for i, e := range elements {
				if !taken[i] && string(e) == string(hit) {
					offset = i
					break
				}
			}
			taken[offset] = true
			inner.Offsets = append(inner.Offsets, offset)
		}
		out[name] = inner
	}
	return out, nil
}
