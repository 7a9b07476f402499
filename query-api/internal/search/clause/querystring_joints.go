package clause

import "muster/query-api/internal/search/algebra"

// occurrence says how a part of a query counts.
type occurrence int

const (
	should occurrence = iota
	must
	mustNot
)

type part struct {
	node  algebra.Node
	occur occurrence
}

// joint is what stands before a clause.
type joint struct {
	and, or  bool
	modifier occurrence // of + and -
}

func (q *queryString) joint(first bool) (j joint) {
	j.and = !first && q.took(tokenAnd)
	j.or = !first && !j.and && q.took(tokenOr)
	switch {
	case q.took(tokenPlus):
		j.modifier = must
	case q.took(tokenMinus, tokenNot):
		j.modifier = mustNot
	}
	return j
}

// before says how the clause in front of a joint counts, which counts like occur without it.
func (q *queryString) before(j joint, occur occurrence) occurrence {
	switch {
	case occur == mustNot:
		return mustNot
	case j.and:
		return must
	case j.or && q.and:
		return should
	}
	return occur
}

// behind says how the clause after a joint counts.
func (q *queryString) behind(j joint) occurrence {
	switch {
	case j.modifier == mustNot:
		return mustNot
	case j.or && q.and:
		return should
	case j.and, q.and:
		return must
	}
	return j.modifier
}

func together(parts []part) (algebra.Node, error) {
	var b algebra.Bool
	for _, p := range parts {
		switch p.occur {
		case must:
			b.Must = append(b.Must, p.node)
		case mustNot:
			b.MustNot = append(b.MustNot, p.node)
		default:
			b.Should = append(b.Should, p.node)
		}
	}
	return boolean(b)
}
