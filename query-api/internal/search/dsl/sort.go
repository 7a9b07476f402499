package dsl

import (
	"strconv"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/searchindex"
)

// Sort renders sort keys. The last ones are the hash of the profile ID and the profile ID; before them is one for each
// key that is not SortDocument.
func (r Renderer) Sort(keys []planner.Sort) ([]Object, error) {
	var out []Object
	for _, k := range keys {
		switch k.Kind {
		case planner.SortScore:
			out = append(out, Object{"_score": Object{"order": order(k.Descending)}})
		case planner.SortField:
			parameters := fieldOrder(k.Field, k.Descending, k.MissingFirst, k.Missing, k.Double)
			parameters["mode"] = string(k.Mode)
			if k.Nested != nil || k.Children != nil {
				elements := Object{"path": k.Field.Nested}
				if k.Nested != nil {
					filter, err := r.render(k.Nested, 1)
					if err != nil {
						return nil, err
					}
					elements["filter"] = filter
				}
				if k.Children != nil {
					elements["max_children"] = *k.Children
				}
				parameters["nested"] = elements
			}
			out = append(out, Object{valueField(k.Field): parameters})
		}
	}
	return append(out, r.TieBreak()...), nil
}

// TieBreak returns the last sort keys.
func (Renderer) TieBreak() []Object {
	return []Object{
		{searchindex.FieldHash: Object{"order": "asc"}}, {searchindex.FieldID: Object{"order": "asc"}},
	}
}

func order(descending bool) string {
	if descending {
		return "desc"
	}
	return "asc"
}

func fieldOrder(f algebra.Field, descending, missingFirst bool, missing *string, double bool) Object {
	out := Object{"order": order(descending), "missing": "_last"}
	switch {
	case missingFirst:
		out["missing"] = "_first"
	case missing == nil:
	case f.IsString():
		out["missing"] = *missing
	case double:
		if x, err := strconv.ParseFloat(*missing, 64); err == nil {
			out["missing"] = x
		}
	default:
		if n, err := strconv.ParseInt(*missing, 10, 64); err == nil {
			out["missing"] = n
		}
	}
	if double && !f.IsString() {
		out["numeric_type"] = "double"
	}
	return out
}

// innerHits renders the request of nested documents: their positions only, from the first one on. If From is beyond the
// last one, OpenSearch says that there are none.
func innerHits(h *algebra.InnerHits) Object {
	keys := []Object{}
	for _, k := range h.Sort {
		switch k.By {
		case algebra.InnerScore:
			keys = append(keys, Object{"_score": Object{"order": order(k.Descending)}})
		case algebra.InnerPosition:
			keys = append(keys, Object{"_doc": Object{"order": order(k.Descending)}})
		case algebra.InnerField:
			keys = append(keys, Object{
				valueField(k.Field): fieldOrder(k.Field, k.Descending, k.MissingFirst, k.Missing, k.Double),
			})
		}
	}
	if len(keys) == 0 {
		keys = append(keys, Object{"_doc": Object{"order": "asc"}})
	}
	return Object{
		"name": h.Name, "from": 0, "size": max(1, h.From+h.Size), "sort": keys, "_source": false,
		"track_scores": h.Scored(),
	}
}
