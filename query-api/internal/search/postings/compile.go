package postings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// compiler makes ops of nodes. It goes over a query twice: once without a view, which notes what the query needs of each
// part, and then once for each part.
type compiler struct {
	stats   *planner.Stats
	weights *planner.Weights // nil: no scores are asked for
	needs   *needs
	view    *view // nil at first
	buffers *buffers
	pace    *pace
	// keys are those of the leaves, as the first time has found them: each further one comes by them in the same order.
	keys []string
	next int
}

func unsupported(what string) error { return fmt.Errorf("%w: %s", ErrUnsupported, what) }

// node makes the op of a node that is asked of people or of the elements of a path.
func (c *compiler) node(n algebra.Node, path string, scored bool) (op, error) {
	switch n := n.(type) {
	case algebra.All:
		return everyOp{1, c.size(path)}, nil
	case algebra.None:
		return noneOp{}, nil
	case algebra.Term:
		return c.term(n, path, scored)
	case algebra.Phrase:
		return c.phrase(n, path, scored)
	case algebra.Set:
		if !n.Field.IsString() && n.Field.Type != readmodel.SearchBoolean {
			return c.memberOf(n, path)
		}
		return c.leaf(n, n.Field, path)
	case algebra.Range:
		if n.Field.IsString() {
			return c.leaf(n, n.Field, path)
		}
		if n.Max < n.Min {
			return noneOp{}, nil
		}
		return c.inRange(n.Field, max(n.Min, readmodel.SearchMissing+1), n.Max, path)
	case algebra.Pattern:
		return c.leaf(n, n.Field, path)
	case algebra.Exists:
		if !n.Field.IsString() && n.Field.Type != readmodel.SearchBoolean {
			return c.inRange(n.Field, readmodel.SearchMissing+1, math.MaxInt64, path)
		}
		return c.leaf(n, n.Field, path)
	case algebra.Bool:
		return c.boolean(n, path, scored)
	case algebra.DisMax:
		return c.disMax(n, path, scored)
	case algebra.Boost:
		inner, err := c.node(n.Node, path, scored)
		if err != nil {
			return nil, err
		}
		return boostOp{inner, n.Factor}, nil
	case algebra.Constant:
		inner, err := c.node(n.Node, path, false)
		if err != nil {
			return nil, err
		}
		return constantOp{inner, constant(n.Score)}, nil
	case algebra.Nested:
		return c.nested(n, path, scored)
	case algebra.Function:
		return c.function(n, path, scored)
	}
	return nil, unsupported(fmt.Sprintf("%T", n))
}

func (c *compiler) size(path string) int {
	if c.view == nil {
		return 0
	}
	return c.view.size(path)
}

// fits says that a field is asked where its values are.
func fits(f algebra.Field, path string) bool {
	return !f.Identity && (path == "" || f.Nested == path)
}

// members are who matches a leaf; empty without a view.
func (c *compiler) members(n algebra.Node, f algebra.Field, path string) (*matched, error) {
	if !fits(f, path) {
		return nil, unsupported(f.Name() + " within " + strconv.Quote(path))
	}
	if c.view == nil {
		leaf := planner.Leaf{Node: n, Path: path}
		key := leaf.Key()
		c.keys = append(c.keys, key)
		c.needs.leaves[key] = leaf
		if path != "" {
			c.needs.paths[path] = true
		}
		return &matched{}, nil
	}
	c.next++
	return c.view.leaves[c.keys[c.next-1]], nil
}

func (c *compiler) leaf(n algebra.Node, f algebra.Field, path string) (op, error) {
	m, err := c.members(n, f, path)
	if err != nil {
		return nil, err
	}
	return leafOp{1, m}, nil
}

func (c *compiler) term(n algebra.Term, path string, scored bool) (op, error) {
	if n.Absent || c.stats.HadNobody(n.Field, n.Text) {
		return noneOp{}, nil
	}
	m, err := c.members(algebra.Term{Field: n.Field, Text: n.Text}, n.Field, path)
	if err != nil {
		return nil, err
	}
	if !scored {
		return leafOp{0, m}, nil
	}
	if n.Field.IsText() {
		if err := c.needNorms(n.Field, path); err != nil {
			return nil, err
		}
	}
	if c.view == nil {
		return leafOp{0, m}, nil
	}
	weight, average := c.weights.Term(n)
	switch {
	case weight == 0:
		return leafOp{0, m}, nil
	case !n.Field.IsText():
		return leafOp{constant(planner.WholeScore(weight, average)), m}, nil
	}
	return newTextOp(m, c.view.norms[textKey(planner.Text{Field: n.Field, Path: path})], planner.NewBM25(weight, average)), nil
}

func (c *compiler) needNorms(f algebra.Field, path string) error {
	if !fits(f, path) {
		return unsupported(f.Name())
	}
	if c.view == nil {
		text := planner.Text{Field: f, Path: path}
		c.needs.norms[textKey(text)] = text
		if path != "" {
			c.needs.paths[path] = true
		}
	}
	return nil
}

func (c *compiler) phrase(n algebra.Phrase, path string, scored bool) (op, error) {
	if n.Found != nil || n.PrefixLast {
		return nil, unsupported("a phrase that is counted")
	}
	if len(n.Terms) == 0 || len(n.Terms) == 1 && len(n.Terms[0]) == 0 {
		return noneOp{}, nil
	}
	if len(n.Terms) == 1 && len(n.Terms[0]) == 1 {
		return c.term(algebra.Term{Field: n.Field, Text: n.Terms[0][0]}, path, scored)
	}
	for _, position := range n.Terms {
		if len(position) > 0 && !slices.ContainsFunc(position, func(t string) bool { return !c.stats.HadNobody(n.Field, t) }) {
			return noneOp{}, nil
		}
	}
	m, err := c.members(n, n.Field, path)
	if err != nil {
		return nil, err
	}
	if !scored {
		return leafOp{0, m}, nil
	}
	if err := c.needNorms(n.Field, path); err != nil || c.view == nil {
		return leafOp{0, m}, err
	}
	weight, average := c.weights.Phrase(n)
	if weight == 0 {
		return leafOp{0, m}, nil
	}
	return newTextOp(m, c.view.norms[textKey(planner.Text{Field: n.Field, Path: path})], planner.NewBM25(weight, average)), nil
}

// column are the values of a field of numbers where they are asked for.
func (c *compiler) column(f algebra.Field, path string) (numbers, error) {
	if f.Nested != path || f.Identity {
		return nil, unsupported(f.Name() + " within " + strconv.Quote(path))
	}
	if c.view == nil {
		c.needs.numbers[f.Name()] = f
		if path != "" {
			c.needs.paths[path] = true
		}
		return nil, nil
	}
	return c.view.numbers[f.Name()], nil
}

// inRange asks people for a number of their elements, too, as of any of them.
func (c *compiler) inRange(f algebra.Field, least, most int64, path string) (op, error) {
	if path == "" && f.Nested != "" {
		return c.nested(algebra.Nested{Path: f.Nested, Node: algebra.Range{Field: f, Min: least, Max: most}, Mode: algebra.ScoreMax}, path, true)
	}
	values, err := c.column(f, path)
	return rangeOp{1, values, least, most}, err
}

func (c *compiler) memberOf(n algebra.Set, path string) (op, error) {
	if path == "" && n.Field.Nested != "" {
		return c.nested(algebra.Nested{Path: n.Field.Nested, Node: n, Mode: algebra.ScoreMax}, path, true)
	}
	set := make(map[int64]bool, len(n.Values))
	for _, v := range n.Values {
		number, err := strconv.ParseInt(v, 10, 64)
		if err != nil || number == readmodel.SearchMissing {
			return nil, unsupported("a set of what is no number")
		}
		set[number] = true
	}
	values, err := c.column(n.Field, path)
	return memberOp{1, values, set}, err
}

func (c *compiler) list(nodes []algebra.Node, path string, scored bool) ([]op, error) {
	out := make([]op, len(nodes))
	for i, n := range nodes {
		if c.pace.ended() {
			return nil, c.pace.ctx.Err()
		}
		var err error
		if out[i], err = c.node(n, path, scored); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) boolean(n algebra.Bool, path string, scored bool) (op, error) {
	if n.MinimumField != nil {
		return nil, unsupported("a minimum in a field")
	}
	b := &boolOp{buffers: c.buffers, minimum: max(0, n.Minimum)}
	var filter []op
	var err error
	for _, part := range []struct {
		to     *[]op
		of     []algebra.Node
		scored bool
	}{{&b.must, n.Must, scored}, {&filter, n.Filter, false}, {&b.should, n.Should, scored}, {&b.excluded, n.MustNot, false}} {
		if *part.to, err = c.list(part.of, path, part.scored); err != nil {
			return nil, err
		}
	}
	b.required = append(slices.Clone(b.must), filter...)
	if c.view != nil {
		slices.SortStableFunc(b.required, func(x, y op) int { return cmp.Compare(x.few(), y.few()) })
	}
	b.withScore = make([]bool, len(b.should))
	for i, s := range b.should {
		score, ok := s.always()
		b.withScore[i] = scored && (!ok || score != 0)
	}
	return b, nil
}

func (c *compiler) disMax(n algebra.DisMax, path string, scored bool) (op, error) {
	nodes, err := c.list(n.Nodes, path, scored)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(o op) bool { _, none := o.(noneOp); return none })
	switch {
	case len(nodes) == 0:
		return noneOp{}, nil
	case len(nodes) == 1:
		return nodes[0], nil
	}
	return &disMaxOp{buffers: c.buffers, nodes: nodes, tie: n.Tie}, nil
}

func (c *compiler) nested(n algebra.Nested, path string, scored bool) (op, error) {
	if path != "" {
		return nil, unsupported("nested within nested")
	}
	inner, err := c.node(n.Node, n.Path, scored && n.Mode != algebra.ScoreNone)
	if err != nil {
		return nil, err
	}
	if c.view == nil {
		c.needs.paths[n.Path] = true
		return &nestedOp{inner: inner, mode: n.Mode}, nil
	}
	return &nestedOp{buffers: c.buffers, elements: c.view.elements[n.Path], inner: inner, mode: n.Mode}, nil
}

func (c *compiler) function(n algebra.Function, path string, scored bool) (op, error) {
	inner, err := c.node(n.Node, path, scored || n.MinScore != nil)
	if err != nil {
		return nil, err
	}
	f := &functionOp{buffers: c.buffers, op: inner, node: n, neutral: planner.Neutral(n)}
	for _, factor := range n.Functions {
		o := factorOp{Factor: factor}
		if factor.Filter != nil {
			if o.filter, err = c.node(factor.Filter, path, false); err != nil {
				return nil, err
			}
		}
		switch factor.Kind {
		case algebra.FactorWeight:
		case algebra.FactorField, algebra.FactorDecay:
			if factor.Field.IsString() || factor.Field.Type == readmodel.SearchBoolean || factor.Field.Nested != "" {
				return nil, unsupported("a function of " + factor.Field.Name())
			}
			if o.values, err = c.column(factor.Field, path); err != nil {
				return nil, err
			}
		default:
			return nil, unsupported("a random function")
		}
		f.factors = append(f.factors, o)
	}
	return f, nil
}
