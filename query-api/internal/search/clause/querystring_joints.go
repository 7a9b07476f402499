package clause

import "muster/query-api/internal/search/algebra"

// occurrence is how a clause of a query counts (BooleanClause.Occur).
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

// joint is what precedes a clause: operators.
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

// before returns how the clause before a joint counts. Without the joint it counts like occur.
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

// behind returns how the clause after a joint counts.
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
