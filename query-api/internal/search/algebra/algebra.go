package algebra

import (
	"math"
	"slices"

	"muster/query-api/internal/search/termregexp"
	"muster/schemas/readmodel"
)

// Field is a searchable field, or the .keyword of a text.
type Field struct {
	readmodel.SearchField
	// Keyword: the whole values of a text, its subfield .keyword.
	Keyword bool
	// Identity: the field is _id. The elements of nested paths have it, too, each that
	// of its person, and all who are found by it score the same.
	Identity bool
}

// Name is the field as queries name it.
func (f Field) Name() string {
	switch {
	case f.Identity:
		return "_id"
	case f.Keyword:
		return f.Path + ".keyword"
	}
	return f.Path
}

// IsText says that the field's values are analysed.
func (f Field) IsText() bool { return f.Type == readmodel.SearchText && !f.Keyword }

// IsString says that terms of the field are strings.
func (f Field) IsString() bool { return f.Type == readmodel.SearchText }

// Node is a part of a query.
type Node interface{ isNode() }

// All matches everything with score 1.
type All struct{}

// None matches nothing.
type None struct{}

// Term matches documents whose field has a term, scored by BM25. Booleans have
// the terms "T" and "F".
type Term struct {
	Field Field
	Text  string
	// Blend, when not zero, joins the statistics of all terms of the query with
	// the same number.
	Blend int
	// Across says how a blend counts: over the fields of a multi_match of type
	// cross_fields; else over the terms of an expansion.
	Across bool
	// Absent: the field does not exist in the elements of the nested path where the
	// term is asked for. It matches none of them, and counts in its blend all the same.
	Absent bool
	// As, when not zero, is the blend whose statistics the term has in place of those
	// of its own one, in which it counts all the same (ShareStatistics).
	As int
}

// Alone as Term.As stands for the statistics of the term itself.
const Alone = math.MinInt

// Statistics is the number of the blend whose statistics a term has, zero when
// it has its own.
func (t Term) Statistics() int {
	switch t.As {
	case 0:
		return t.Blend
	case Alone:
		return 0
	}
	return t.As
}

// Set matches documents whose field has any of the terms, with score 1.
type Set struct {
	Field  Field
	Values []string
}

// Phrase matches documents in which a text has terms one after the other,
// scored by BM25. Position i accepts any of Terms[i]. Slop is how many
// positions they may be apart. With PrefixLast the last term is the beginning
// of one, expanded to at most Expansions terms before planning.
type Phrase struct {
	Field      Field
	Terms      [][]string
	Slop       int
	PrefixLast bool
	Expansions int
}

// Combined matches documents in which any of several texts has a term, scored
// by BM25F: as if the fields were one, each repeated by its weight.
type Combined struct {
	Fields  []Field
	Weights []float64
	Text    string
	// Path is the nested path whose elements are asked. Fields that do not exist
	// there count in the statistics alone.
	Path string
}

// Absent says that a field does not exist where the node is asked for.
func (c Combined) Absent(f Field) bool { return c.Path != "" && f.Nested != c.Path }

// Range matches documents with a value between two bounds, with score 1.
type Range struct {
	Field Field
	// Min and Max are inclusive bounds of numbers and dates.
	Min, Max int64
	// Lower and Upper are bounds of strings; nil: none.
	Lower, Upper *Bound
}

// Bound is an end of a range of strings.
type Bound struct {
	Text      string
	Inclusive bool
}

// Rewriting says how somebody scores who has some of the terms that a pattern or a fuzzy word becomes.
type Rewriting uint8

// The ways. Without one a pattern is RewriteConstant, a fuzzy word RewriteBlended.
const (
	RewriteDefault Rewriting = iota
	// RewriteConstant: 1, by any of all terms.
	RewriteConstant
	// RewriteScored: the sum of what each term counts by BM25; a fuzzy word's terms count the less the more they differ.
	RewriteScored
	// RewriteNearness: the sum of how near the terms are, 1 each for a pattern.
	RewriteNearness
	// RewriteBlended: RewriteScored, with all terms as rare as the most frequent one.
	RewriteBlended
)

// PatternKind is a way of matching terms.
type PatternKind uint8

// The kinds of patterns.
const (
	// Prefix: terms that begin with the text.
	Prefix PatternKind = iota + 1
	// Wildcard: * any number of characters, ? one, \ takes the next as it is.
	Wildcard
	// Regexp: Lucene's regular expressions, which match a whole term.
	Regexp
	// Whole: the term itself, for the sake of Insensitive.
	Whole
)

// Pattern matches documents whose field has a term of a form, with score 1.
type Pattern struct {
	Field Field
	Kind  PatternKind
	Text  string
	// Insensitive takes ASCII letters of either case as equal.
	Insensitive bool
	// Expression is the RE2 form of a Regexp. Where RE2 has no such form it matches
	// more, and Regexp, nil otherwise, knows which terms match; it is expanded to
	// them before planning.
	Expression string
	Regexp     *termregexp.Expression
	// Flags are those of a Regexp, in capitals.
	Flags string
	// Rewrite is RewriteDefault, or how the first Expansions of the terms are scored that it is expanded to before planning.
	Rewrite    Rewriting
	Expansions int
}

// Fuzzy matches documents whose field has a term at most Edits single-character
// edits away. It is expanded to at most Expansions terms before planning.
type Fuzzy struct {
	Field          Field
	Text           string
	Edits          int
	PrefixLength   int // characters that must be equal
	Expansions     int
	Transpositions bool // swapping two neighbours is one edit
	Rewrite        Rewriting
}

// Exists matches documents with any value in the field, with score 1.
type Exists struct{ Field Field }

// Bool combines nodes. Its score is the sum of those of Must and of the
// matching ones of Should.
type Bool struct {
	Must, Filter, Should, MustNot []Node
	// Minimum is how many of Should must match.
	Minimum int
	// MinimumField, when set, is the number field that says how many instead.
	MinimumField *Field
}

// DisMax matches what any of its nodes matches. Its score is the greatest of
// theirs plus Tie times the sum of the others.
type DisMax struct {
	Nodes []Node
	Tie   float64
}

// Boost multiplies the score of a node.
type Boost struct {
	Node   Node
	Factor float64
}

// Constant gives what a node matches a score of its own.
type Constant struct {
	Node  Node
	Score float64
}

// ScoreMode says how several scores become one.
type ScoreMode string

// The score modes. Nested knows avg, sum, min, max and none; Function
// multiply, sum, avg, first, max and min; several values avg, sum, min, max and median.
const (
	ScoreAvg      ScoreMode = "avg"
	ScoreSum      ScoreMode = "sum"
	ScoreMin      ScoreMode = "min"
	ScoreMax      ScoreMode = "max"
	ScoreMedian   ScoreMode = "median"
	ScoreNone     ScoreMode = "none"
	ScoreMultiply ScoreMode = "multiply"
	ScoreFirst    ScoreMode = "first"
	ScoreReplace  ScoreMode = "replace" // boost_mode only
)

// Nested matches documents with an element of a nested path that matches a node.
type Nested struct {
	Path string
	Node Node
	Mode ScoreMode
	// InnerHits asks for the matching elements.
	InnerHits *InnerHits
}

// InnerHits says which of the matching elements are shown beside a result, in which
// order, and what of them.
type InnerHits struct {
	Name   string
	From   int
	Size   int
	Sort   []InnerSort
	Source Source
}

// Scored says that scores order the elements.
func (h *InnerHits) Scored() bool {
	return h != nil && slices.ContainsFunc(h.Sort, func(s InnerSort) bool { return s.By == InnerScore })
}

// InnerKey is what elements are ordered by.
type InnerKey uint8

// The keys of elements.
const (
	InnerScore InnerKey = iota + 1
	InnerField
	InnerPlace // where they stand in the document
)

// InnerSort is a key of the order of elements. Those that are equal in all keys come as
// they stand in the document.
type InnerSort struct {
	By         InnerKey
	Field      Field
	Double     bool // whole numbers are compared as others are, and Missing may be one
	Descending bool
	// MissingFirst puts elements without a value first; Missing, when set, is the value
	// that they count with instead.
	MissingFirst bool
	Missing      *string
}

// Source says which members of a document are shown, by their names and those of the
// objects that hold them. Names may hold *.
type Source struct {
	None               bool
	Includes, Excludes []string
}

// Function changes the score of a node (function_score, boosting).
type Function struct {
	Node      Node
	Functions []Factor
	// ScoreMode joins the factors, BoostMode joins them with the node's score.
	ScoreMode, BoostMode ScoreMode
	MaxBoost             float64 // bounds the joined factors; +Inf: no bound
	MinScore             *float64
	// Sealed: a boost around it multiplies what it makes, and is not seen within.
	Sealed bool
}

// FactorKind is a way of computing a factor.
type FactorKind uint8

// The kinds of factors.
const (
	FactorWeight FactorKind = iota + 1 // the weight alone
	FactorField
	FactorDecay
	FactorRandom
)

// Factor is one function of a Function: it counts for documents that Filter
// matches, nil for all.
type Factor struct {
	Filter Node
	Kind   FactorKind
	Weight float64
	// Field of FactorField, FactorDecay and FactorRandom.
	Field Field
	// FactorField: Multiplier times the value, then Modifier. Missing stands in
	// for a missing value; without it a missing value is an error in
	// Elasticsearch and 1 here.
	Multiplier float64
	Modifier   string
	Missing    *float64
	// FactorDecay: Shape is gauss, exp or linear.
	Shape                        string
	Origin, Scale, Offset, Decay float64
	MultiValue                   ScoreMode
	// FactorRandom.
	Seed int64
}

func (All) isNode()      {}
func (None) isNode()     {}
func (Term) isNode()     {}
func (Set) isNode()      {}
func (Phrase) isNode()   {}
func (Combined) isNode() {}
func (Range) isNode()    {}
func (Pattern) isNode()  {}
func (Fuzzy) isNode()    {}
func (Exists) isNode()   {}
func (Bool) isNode()     {}
func (DisMax) isNode()   {}
func (Boost) isNode()    {}
func (Constant) isNode() {}
func (Nested) isNode()   {}
func (Function) isNode() {}
