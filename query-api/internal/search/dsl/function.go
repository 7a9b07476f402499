package dsl

import (
	"math"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/searchindex"
)

// function renders a function_score. A boost around it has been moved into its query (clause.Lower); that of a boosting
// clause multiplies the result.
func (r Renderer) function(n algebra.Function, boost float64) (Object, error) {
	query, err := r.render(n.Node, 1)
	if err != nil {
		return nil, err
	}
	if n.Sealed {
		negative, err := r.render(n.Functions[0].Filter, 1)
		if err != nil {
			return nil, err
		}
		return Object{"boosting": withBoost(Object{
			"positive": query, "negative": negative, "negative_boost": n.Functions[0].Weight,
		}, boost)}, nil
	}
	functions := make([]Object, len(n.Functions))
	for i, f := range n.Functions {
		if functions[i], err = r.factor(f); err != nil {
			return nil, err
		}
	}
	out := Object{
		"query": query, "functions": functions, "score_mode": string(n.ScoreMode), "boost_mode": string(n.BoostMode),
	}
	if n.MaxBoost < math.MaxFloat32 {
		out["max_boost"] = n.MaxBoost
	}
	if n.MinScore != nil {
		out["min_score"] = *n.MinScore
	}
	return Object{"function_score": withBoost(out, boost)}, nil
}

func (r Renderer) factor(f algebra.Factor) (Object, error) {
	out := Object{"weight": f.Weight}
	if f.Filter != nil {
		filter, err := r.render(f.Filter, 1)
		if err != nil {
			return nil, err
		}
		out["filter"] = filter
	}
	switch f.Kind {
	case algebra.FactorField:
		parameters := Object{"field": field(f.Field), "factor": f.Multiplier, "modifier": f.Modifier}
		if f.Missing != nil {
			parameters["missing"] = *f.Missing
		}
		out["field_value_factor"] = parameters
	case algebra.FactorDecay:
		out[f.Shape] = Object{
			field(f.Field):     Object{"origin": f.Origin, "scale": f.Scale, "offset": f.Offset, "decay": f.Decay},
			"multi_value_mode": string(f.MultiValue),
		}
	case algebra.FactorRandom:
		name := searchindex.FieldHash // the same on all replicas, unlike _seq_no
		if f.Field.Path != "" {
			name = valueField(f.Field)
		}
		out["random_score"] = Object{"seed": f.Seed, "field": name}
	}
	return out, nil
}
