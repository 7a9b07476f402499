package planner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
)

// BM25 as Elasticsearch has it (rulings.md, Search).
const (
	k1 = 1.2
	b  = 0.75
)

// score is the score of a node where it matches; elsewhere it means nothing.
func (c *compiler) score(n algebra.Node, s *scope) string {
	switch n := n.(type) {
	case algebra.Term:
		return c.termScore(n, s)
	case algebra.Phrase:
		return c.phraseScore(n, s)
	case algebra.Combined:
		return c.combinedScore(n, s)
	case algebra.Bool:
		var parts []string
		for _, m := range n.Must {
			parts = append(parts, c.score(m, s))
		}
		for _, m := range n.Should {
			parts = append(parts, c.scoreIf(m, s))
		}
		return add(parts)
	case algebra.DisMax:
		return c.disMax(n, s)
	case algebra.Boost:
		return multiply(c.float(n.Factor), c.score(n.Node, s))
	case algebra.Constant:
		return c.float(n.Score)
	case algebra.Nested:
		return c.nestedScore(n, s)
	case algebra.Function:
		return c.function(n, s)
	case algebra.None:
		return "0."
	}
	return "1."
}

// scoreIf is the score of a node, zero where it does not match.
func (c *compiler) scoreIf(n algebra.Node, s *scope) string {
	m := c.match(n, s)
	switch m {
	case no:
		return "0."
	case yes:
		return c.score(n, s)
	}
	score := c.score(n, s)
	switch n := n.(type) {
	case algebra.DisMax:
		return score // of the scores of its nodes, each zero where it does not match
	case algebra.Bool:
		if len(n.Must)+len(n.Filter)+len(n.MustNot) == 0 && n.Minimum <= 1 && n.MinimumField == nil {
			return score
		}
	}
	if score == "0." {
		return score // the server refuses a condition between equal constants in some places
	}
	if t, ok := n.(algebra.Term); ok && t.Field.IsText() && !s.nested() {
		return "(" + m + " * " + score + ")" // cheaper than evaluating it for some of the people
	}
	return "if(" + m + ", " + score + ", 0.)"
}

func add(parts []string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "0." {
			kept = append(kept, p)
		}
	}
	switch len(kept) {
	case 0:
		return "0."
	case 1:
		return kept[0]
	}
	return plus(kept)
}

// longSum is the most parts that are added from left to right.
const longSum = 32

// plus is a sum in brackets. A long one is a tree of sums, since each sign in a row is a level deeper for the server.
func plus(parts []string) string {
	if len(parts) <= longSum {
		return "(" + strings.Join(parts, " + ") + ")"
	}
	half := len(parts) / 2
	return "(" + plus(parts[:half]) + " + " + plus(parts[half:]) + ")"
}

func multiply(a, b string) string {
	if b == "0." {
		return b
	}
	return "(" + a + " * " + b + ")"
}

// quantised is a length of a text as Lucene's norms keep it
// (SmallFloat.intToByte4): exact up to 40, and what is beyond 24 to four
// significant bits, which a number of 64 bits has in front as its exponent and the
// first three bits of its fraction.
func (c *compiler) quantised(length string) string {
	return "(least(" + length + ", 24) + reinterpretAsFloat64(bitAnd(reinterpretAsUInt64(toFloat64(greatest(" + length + ", 24) - 24)), " +
		c.param("UInt64", significant) + ")))"
}

// significant are the bits of a Float64 that make its first four: 0xfffe000000000000.
const significant = "18446181123756130304"

// idf is the weight of a term that df of n documents have.
func idf(df, n float64) float64 {
	n = max(n, df)
	return math.Log(1 + (n-df+0.5)/(df+0.5))
}

func (c *compiler) termScore(n algebra.Term, s *scope) string {
	weight, average := c.stats.term(n, c.blends[n.Statistics()])
	if weight == 0 {
		return "0."
	}
	w := c.float(weight * (k1 + 1))
	f := n.Field
	if !f.IsText() {
		// Whole values have no norms: the length is 1, and so is the frequency.
		return c.float(weight * (k1 + 1) / (1 + k1*(1-b+b/average)))
	}
	var tf, length string
	if s.nested() {
		tokens := s.column(f.Tokens())
		tf, length = "countEqual("+tokens+", "+c.str(n.Text)+")", "length("+tokens+")"
	} else {
		tf, length = c.times(f, n.Text), f.Length()
	}
	length, fixed, slope := c.quantised(length), c.float(k1*(1-b)), c.float(k1*b/average)
	if norm := bm25Norm(length, fixed, slope); !s.nested() && !slices.Contains(c.norms, norm) {
		c.norms = append(c.norms, norm)
	}
	return bm25(w, tf, length, fixed, slope)
}

// manyTimes is from how many times on a part is named: for fewer it takes as long.
const manyTimes = 4

// named is a SELECT in which what many scores share has a name, and stands there once.
func (c *compiler) named(sql string) string {
	for i, norm := range c.norms {
		if strings.Count(sql, norm) < manyTimes {
			continue
		}
		name := "norm" + strconv.Itoa(i)
		first := strings.Index(sql, norm)
		sql = sql[:first] + "(" + norm + " AS " + name + ")" + strings.ReplaceAll(sql[first+len(norm):], norm, name)
	}
	return sql
}

// bm25 is weight * tf / (tf + fixed + slope * length), with each part there once: what a statement costs before it reads
// grows with its text.
func bm25(weight, tf, length, fixed, slope string) string {
	return "(" + weight + " / (1 + " + bm25Norm(length, fixed, slope) + " / " + tf + "))"
}

func bm25Norm(length, fixed, slope string) string {
	return "(" + fixed + " + " + slope + " * " + length + ")"
}

func (c *compiler) disMax(n algebra.DisMax, s *scope) string {
	var list []string
	for _, m := range n.Nodes {
		if score := c.scoreIf(m, s); score != "0." {
			list = append(list, score) // no score is less
		}
	}
	switch len(list) {
	case 0:
		return "0."
	case 1:
		return list[0]
	}
	if n.Tie == 1 {
		return plus(list)
	}
	best := "arrayMax([" + strings.Join(list, ", ") + "])"
	if n.Tie == 0 {
		return best
	}
	tie := c.float(n.Tie)
	return fmt.Sprintf("(%s * (1 - %s) + %s * %s)", best, tie, tie, plus(list))
}

// nestedScore joins the scores of the elements that match: those are chosen
// first, by an expression that the condition has too (matching), so that the
// server does it once and scores no others.
func (c *compiler) nestedScore(n algebra.Nested, _ *scope) string {
	if n.Mode == algebra.ScoreNone {
		return "0."
	}
	inner, chosen := &scope{path: n.Path}, &scope{path: n.Path}
	m := c.match(n.Node, inner)
	if m == no {
		return "0."
	}
	score := "toFloat64(" + c.score(n.Node, chosen) + ")"
	if len(chosen.used) == 0 { // the same for each
		if n.Mode == algebra.ScoreSum {
			return "(" + score + " * " + inner.lambda("arrayCount", m) + ")"
		}
		return score
	}
	lists := make([]string, len(chosen.used))
	for i, u := range chosen.used {
		lists[i] = inner.chosen(m, u)
	}
	c.kept[inner.lambda("arrayExists", m)] = lists[0]
	scores := chosen.over("arrayMap", score, lists)
	switch n.Mode {
	case algebra.ScoreSum:
		return "arraySum(" + scores + ")"
	case algebra.ScoreMin:
		return "arrayMin(" + scores + ")"
	case algebra.ScoreMax:
		return "arrayMax(" + scores + ")"
	}
	return "arrayAvg(" + scores + ")"
}

// matching is the condition that an element matches. Where the scores of those
// elements are wanted it chooses them as nestedScore does.
func (c *compiler) matching(inner *scope, m string) string {
	exists := inner.lambda("arrayExists", m)
	if list, ok := c.kept[exists]; ok {
		return "notEmpty(" + list + ")"
	}
	return exists
}

// function joins the factors of a Function with the score of its node.
func (c *compiler) function(n algebra.Function, s *scope) string {
	base := c.score(n.Node, s)
	if neutral(n) {
		return base
	}
	type part struct{ match, value, weight string }
	parts := make([]part, len(n.Functions))
	for i, f := range n.Functions {
		p := part{match: yes, weight: c.float(f.Weight)}
		if f.Filter != nil {
			p.match = c.match(f.Filter, s)
		}
		p.value = c.factor(f, s)
		parts[i] = p
	}
	var joined string
	pick := func(parts []part, otherwise, function string) string {
		matches, list := make([]string, len(parts)), make([]string, len(parts))
		for i, p := range parts {
			matches[i] = p.match
			list[i] = "if(" + p.match + ", toFloat64(" + p.value + "), " + otherwise + ")"
		}
		return "if(" + or(matches...) + ", " + function + "([" + strings.Join(list, ", ") + "]), 1.)"
	}
	switch n.ScoreMode {
	case algebra.ScoreMultiply:
		joined = pick(parts, "1.", "arrayProduct")
	case algebra.ScoreSum:
		// Where the weights of what matches add up to 0, the score stays as it is, as for avg.
		var weighing []part
		for i, p := range parts {
			if n.Functions[i].Weight != 0 {
				weighing = append(weighing, p)
			}
		}
		if joined = "1."; len(weighing) > 0 {
			joined = pick(weighing, "0.", "arraySum")
		}
	case algebra.ScoreMax:
		joined = pick(parts, "-inf", "arrayMax")
	case algebra.ScoreMin:
		joined = pick(parts, "inf", "arrayMin")
	case algebra.ScoreAvg:
		weights := make([]string, len(parts))
		for i, p := range parts {
			weights[i] = "if(" + p.match + ", " + p.weight + ", 0.)"
		}
		total := plus(weights)
		joined = "if(" + total + " > 0, " + pick(parts, "0.", "arraySum") + " / " + total + ", 1.)"
	default: // first
		var b strings.Builder
		for _, p := range parts {
			b.WriteString("if(" + p.match + ", toFloat64(" + p.value + "), ")
		}
		b.WriteString("1.")
		b.WriteString(strings.Repeat(")", len(parts)))
		joined = b.String()
	}
	// A value that is no number makes the score none (InvalidScore), which what chooses the least or greatest would lose.
	invalid := make([]string, 0, len(parts))
	for i, p := range parts {
		if kind := n.Functions[i].Kind; kind == algebra.FactorField || kind == algebra.FactorDecay {
			invalid = append(invalid, and(p.match, "isNaN(toFloat64("+p.value+"))"))
		}
	}
	if n.ScoreMode == algebra.ScoreFirst && len(invalid) > 0 { // the others do not matter
		invalid = []string{"isNaN(" + joined + ")"}
	}
	if !math.IsInf(n.MaxBoost, 1) {
		joined = "least(" + joined + ", " + c.float(n.MaxBoost) + ")"
	}
	switch n.BoostMode {
	case algebra.ScoreReplace:
	case algebra.ScoreSum:
		joined = base + " + " + joined
	case algebra.ScoreAvg:
		joined = "(" + base + " + " + joined + ") / 2"
	case algebra.ScoreMin:
		joined = "least(toFloat64(" + base + "), " + joined + ")"
	case algebra.ScoreMax:
		joined = "greatest(toFloat64(" + base + "), " + joined + ")"
	default:
		joined = base + " * " + joined
	}
	if len(invalid) > 0 {
		return "if(" + or(invalid...) + ", nan, " + joined + ")"
	}
	return "(" + joined + ")"
}

// fallible says that a query may give scores that Lucene refuses: those that are negative or no numbers, which only
// functions make.
func fallible(n algebra.Node) bool {
	found := false
	algebra.Walk(n, func(n algebra.Node) {
		f, ok := n.(algebra.Function)
		found = found || ok && !neutral(f)
	})
	return found
}

// neutral says that the functions leave the score as it is. The server refuses a condition between equal constants in
// some places.
func neutral(n algebra.Function) bool {
	return n.ScoreMode != algebra.ScoreSum && n.BoostMode == algebra.ScoreMultiply && n.MaxBoost >= 1 &&
		!slices.ContainsFunc(n.Functions, func(f algebra.Factor) bool { return f.Kind != algebra.FactorWeight || f.Weight != 1 }) ||
		len(n.Functions) == 0
}

// factor is the value of one function, its weight included.
func (c *compiler) factor(f algebra.Factor, s *scope) string {
	weight := c.float(f.Weight)
	switch f.Kind {
	case algebra.FactorField:
		return multiply(weight, c.fieldFactor(f, s))
	case algebra.FactorDecay:
		return multiply(weight, c.decay(f, s))
	case algebra.FactorRandom:
		return multiply(weight, c.random(f, s))
	}
	return weight
}

func (c *compiler) fieldFactor(f algebra.Factor, s *scope) string {
	if f.Field.Nested != s.path && f.Field.Nested != "" && s.nested() {
		return "1."
	}
	value := s.column(f.Field.Column)
	if s.many(f.Field) {
		value = "if(empty(arrayFilter(v -> v != -9223372036854775808, " + f.Field.Column + ")), -9223372036854775808, arrayMin(arrayFilter(v -> v != -9223372036854775808, " + f.Field.Column + ")))"
	}
	missing := "nan" // the score is none then
	if f.Missing != nil {
		missing = c.float(*f.Missing)
	}
	x := "(" + c.float(f.Multiplier) + " * if(" + value + " = -9223372036854775808, " + missing + ", toFloat64(" + value + ")))"
	switch f.Modifier {
	case "log":
		x = "log10(" + x + ")"
	case "log1p":
		x = "log10(" + x + " + 1)"
	case "log2p":
		x = "log10(" + x + " + 2)"
	case "ln":
		x = "log(" + x + ")"
	case "ln1p":
		x = "log1p(" + x + ")"
	case "ln2p":
		x = "log1p(" + x + " + 1)"
	case "square":
		x = "(" + x + " * " + x + ")"
	case "sqrt":
		x = "sqrt(" + x + ")"
	case "reciprocal":
		x = "(1 / " + x + ")"
	}
	return "if(" + x + " >= 0, " + x + ", nan)"
}

// decay falls with the distance of a value from an origin; a missing value
// counts as the origin.
func (c *compiler) decay(f algebra.Factor, s *scope) string {
	distance := func(v string) string {
		return "greatest(0., abs(toFloat64(" + v + ") - " + c.float(f.Origin) + ") - " + c.float(f.Offset) + ")"
	}
	var d string
	if s.many(f.Field) {
		list := "arrayMap(v -> " + distance("v") + ", arrayFilter(v -> v != -9223372036854775808, " + f.Field.Column + "))"
		join := map[algebra.ScoreMode]string{algebra.ScoreMin: "arrayMin", algebra.ScoreMax: "arrayMax", algebra.ScoreSum: "arraySum", algebra.ScoreAvg: "arrayAvg"}[f.MultiValue]
		if d = join + "(" + list + ")"; f.MultiValue == algebra.ScoreMedian {
			d = median(list)
		}
		d = "if(empty(" + list + "), 0., " + d + ")"
	} else {
		v := s.column(f.Field.Column)
		d = "if(" + v + " = -9223372036854775808, 0., " + distance(v) + ")"
	}
	switch f.Shape {
	case "gauss":
		return "exp(" + c.float(math.Log(f.Decay)/(f.Scale*f.Scale)) + " * " + d + " * " + d + ")"
	case "exp":
		return "exp(" + c.float(math.Log(f.Decay)/f.Scale) + " * " + d + ")"
	}
	limit := c.float(f.Scale / (1 - f.Decay))
	return "greatest(0., (" + limit + " - " + d + ") / " + limit + ")"
}

// median is that of the numbers of a list: of an even count the mean of the two in the middle.
func median(list string) string {
	sorted := "arraySort(" + list + ")"
	return "(" + sorted + "[intDiv(length(" + list + ") + 1, 2)] + " + sorted + "[intDiv(length(" + list + "), 2) + 1]) / 2"
}

// random is a number from 0 to below 1 that depends on the seed and the person
// or, with a field, on the field's value.
func (c *compiler) random(f algebra.Factor, s *scope) string {
	if s.nested() {
		return "0.5" // elements have no identity
	}
	of := "profile_hash"
	if f.Field.Path != "" && !s.many(f.Field) {
		of = f.Field.Column
	}
	return "((cityHash64(" + of + ", " + c.int(f.Seed) + ") % 16777216) / 16777216)"
}
