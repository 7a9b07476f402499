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

// compiler turns nodes into ops. It compiles a query twice: once without a view, to record what the query needs of each
// part, and then once for each part.
type compiler struct {
	stats   *planner.Stats
	weights *planner.Weights // nil: no scores are needed
	needs   *needs
	view    *view // nil in the first pass
	buffers *buffers
	pace    *pace
	// keys are the keys of the leaves in the order of the first pass; later passes meet them in the same order.
	keys []string
	next int
}

// misplaced returns the error of a field that the units of a path do not have: a defect of lowering.
func misplaced(f algebra.Field, path string) error {
	return fmt.Errorf("postings: the field %s within %q", f.Name(), path)
}

// node compiles a node for people or the elements of a path.
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
	case algebra.Combined:
		return c.combined(n, path, scored)
	case algebra.Set:
		if n.Field.Identity && path != "" {
			return c.owner(n, path, scored)
		}
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
	return nil, fmt.Errorf("postings: a node %T", n)
}

func (c *compiler) size(path string) int {
	if c.view == nil {
		return 0
	}
	return c.view.size(path)
}

// fits reports whether the units of a path have a field.
func fits(f algebra.Field, path string) bool { return path == "" || f.Nested == path }

// maxLeaves is the maximum number of leaves, equal ones counted each: more exceed the time limit whatever they match.
const maxLeaves = 8192

// CheckLeaves returns a [TooLarge] if a query has more leaves than are ranked.
func CheckLeaves(n int) error {
	if n <= maxLeaves {
		return nil
	}
	return &TooLarge{fmt.Sprintf("the query has more than %d pairs of a word and a field: name fewer fields, or fewer "+
		"words", maxLeaves)}
}

// members returns the posting list of a leaf, empty without a view.
func (c *compiler) members(n algebra.Node, f algebra.Field, path string) (*matched, error) {
	if !fits(f, path) {
		return nil, misplaced(f, path)
	}
	if c.view == nil {
		leaf := planner.Leaf{Node: n, Path: path}
		key := leaf.Key()
		c.keys = append(c.keys, key)
		if err := CheckLeaves(len(c.keys)); err != nil {
			return nil, err
		}
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
	if n.Absent || c.stats.WasAbsent(n.Field, n.Text) {
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
	text := planner.Text{Field: n.Field, Path: path}
	return newTextOp(m, c.view.norms[textKey(text)], planner.NewBM25(weight, average)), nil
}

func (c *compiler) needNorms(f algebra.Field, path string) error {
	if !fits(f, path) {
		return misplaced(f, path)
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
	if len(n.Terms) == 0 || len(n.Terms) == 1 && len(n.Terms[0]) == 0 {
		return noneOp{}, nil
	}
	if len(n.Terms) == 1 && len(n.Terms[0]) == 1 {
		return c.term(algebra.Term{Field: n.Field, Text: n.Terms[0][0]}, path, scored)
	}
	for _, position := range n.Terms {
		if len(position) > 0 &&
			!slices.ContainsFunc(position, func(t string) bool { return !c.stats.WasAbsent(n.Field, t) }) {
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
	text := planner.Text{Field: n.Field, Path: path}
	return newTextOp(m, c.view.norms[textKey(text)], planner.NewBM25(weight, average)), nil
}

// column returns a field as seen from the units of a path.
func (c *compiler) column(f algebra.Field, path string) (column, error) {
	if !fits(f, path) {
		return column{}, misplaced(f, path)
	}
	if c.view == nil {
		c.needs.values[f.Name()] = f
		if f.Nested != "" {
			c.needs.paths[f.Nested] = true
		}
		return column{}, nil
	}
	out := column{values: c.view.values[f.Name()]}
	if f.Nested != path {
		out.elements = c.view.elements[f.Nested]
	}
	return out, nil
}

// inRange compiles a range. At the root, a nested field matches if any of its elements does.
func (c *compiler) inRange(f algebra.Field, least, most int64, path string) (op, error) {
	if path == "" && f.Nested != "" {
		return c.nested(
			algebra.Nested{
				Path: f.Nested,
				Node: algebra.Range{Field: f, Min: least, Max: most},
				Mode: algebra.ScoreMax,
			},
			path,
			true,
		)
	}
	values, err := c.column(f, path)
	if err != nil || c.view == nil {
		return rangeOp{constant: 1}, err
	}
	return rangeOp{1, values.numbers, least, most}, nil
}

func (c *compiler) memberOf(n algebra.Set, path string) (op, error) {
	if path == "" && n.Field.Nested != "" {
		return c.nested(algebra.Nested{Path: n.Field.Nested, Node: n, Mode: algebra.ScoreMax}, path, true)
	}
	set := make(map[int64]bool, len(n.Values))
	for _, v := range n.Values {
		number, err := strconv.ParseInt(v, 10, 64)
		if err == nil && number != readmodel.SearchMissing { // no other value is stored
			set[number] = true
		}
	}
	values, err := c.column(n.Field, path)
	if err != nil || c.view == nil {
		return memberOp{constant: 1}, err
	}
	return memberOp{1, values.numbers, set}, nil
}

// combined compiles a term in those of several texts that the units of a path have.
func (c *compiler) combined(n algebra.Combined, path string, scored bool) (op, error) {
	out := &combinedOp{buffers: c.buffers}
	var matching []op
	for i, f := range n.Fields {
		if n.Absent(f) {
			continue
		}
		field := combinedField{weight: n.Weights[i]}
		if !c.stats.WasAbsent(f, n.Text) {
			var err error
			if field.matched, err = c.members(algebra.Term{Field: f, Text: n.Text}, f, path); err != nil {
				return nil, err
			}
			matching = append(matching, leafOp{0, field.matched})
		}
		if scored {
			if err := c.needNorms(f, path); err != nil {
				return nil, err
			}
		}
		if scored && c.view != nil {
			field.norms = c.view.norms[textKey(planner.Text{Field: f, Path: path})]
		}
		out.fields = append(out.fields, field)
	}
	if len(matching) == 0 {
		return noneOp{}, nil
	}
	weight, average := 0.0, 1.0
	if scored && c.view != nil {
		weight, average = c.weights.Combined(n)
	}
	if weight == 0 {
		return &disMaxOp{buffers: c.buffers, nodes: matching}, nil
	}
	out.model = planner.NewBM25(weight, average)
	return out, nil
}

// owner compiles a clause about the person for the elements of a path.
func (c *compiler) owner(n algebra.Node, path string, scored bool) (op, error) {
	inner, err := c.node(n, "", scored)
	if err != nil {
		return nil, err
	}
	out := &ownerOp{buffers: c.buffers, op: inner}
	if c.view == nil {
		c.needs.paths[path] = true
	} else {
		out.elements = c.view.elements[path]
	}
	return out, nil
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
	b := &boolOp{buffers: c.buffers, minimum: max(0, n.Minimum)}
	var filter []op
	var err error
	if f := n.MinimumField; f != nil {
		if !fits(*f, path) {
			return noneOp{}, nil
		}
		b.ownMinimum = true
		if b.minimums, err = c.column(*f, path); err != nil {
			return nil, err
		}
	}
	for _, part := range []struct {
		to     *[]op
		of     []algebra.Node
		scored bool
	}{
		{&b.must, n.Must, scored}, {&filter, n.Filter, false},
		{&b.should, n.Should, scored}, {&b.excluded, n.MustNot, false},
	} {
		if *part.to, err = c.list(part.of, path, part.scored); err != nil {
			return nil, err
		}
	}
	b.required = append(slices.Clone(b.must), filter...)
	if c.view != nil {
		slices.SortStableFunc(b.required, func(x, y op) int { return cmp.Compare(x.maxMatches(), y.maxMatches()) })
	}
	b.withScore = make([]bool, len(b.should))
	for i, s := range b.should {
		score, ok := s.uniformScore()
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
		return nil, fmt.Errorf("postings: a nested clause within %q", path) // lowering rejects it
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

// reads reports whether a factor depends on the values of its field. A random one does if each person has one value.
func (*compiler) reads(f algebra.Factor, path string) bool {
	switch f.Kind {
	case algebra.FactorField, algebra.FactorDecay:
		return true
	case algebra.FactorRandom:
		return path == "" && f.Field.Path != "" && f.Field.Nested == ""
	}
	return false
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
		if c.reads(factor, path) {
			if o.column, err = c.column(factor.Field, path); err != nil {
				return nil, err
			}
		}
		if factor.Kind == algebra.FactorRandom && path == "" && c.view != nil {
			o.hashes = c.view.part.hashes
		}
		f.factors = append(f.factors, o)
	}
	return f, nil
}
