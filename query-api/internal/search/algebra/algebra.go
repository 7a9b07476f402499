package algebra

import (
	"math"
	"slices"

	"muster/query-api/internal/search/termregexp"
	"muster/schemas/readmodel"
)

// Subfield is an analyzed subfield of a text field.
type Subfield string

// The subfields, by their names in queries. Their tokens are those of [analysis.Folded] and [analysis.Code].
const (
	Folded Subfield = "folded"
	Code   Subfield = "code"
)

// Field is a searchable field, or a subfield of a text field.
type Field struct {
	readmodel.SearchField
	// Subfield is set if it is a subfield with its own analyzer.
	Subfield Subfield
	// Keyword reports whether it is the .keyword subfield, whose terms are whole values.
	Keyword bool
	// Identity reports whether it is _id. Nested documents have the _id of their person, and all matches score the
	// same.
	Identity bool
	// Namespace is that of the hashes of _id (readmodel.KeyHash).
	Namespace readmodel.LookupType
}

// NewSubfield returns an analyzed subfield of a text field. It has no columns of its own, only the dictionary of
// .folded is that of the field.
func NewSubfield(f readmodel.SearchField, subfield Subfield) Field {
	f.KeywordIndexed = false
	f.Indexed = f.Indexed && subfield == Folded
	return Field{SearchField: f, Subfield: subfield}
}

// Name returns the name of the field in queries.
func (f Field) Name() string {
	switch {
	case f.Identity:
		return "_id"
	case f.Keyword:
		return f.Path + ".keyword"
	case f.Subfield != "":
		return f.Path + "." + string(f.Subfield)
	}
	return f.Path
}

// IsText reports whether the field's values are analyzed.
func (f Field) IsText() bool { return f.Type == readmodel.SearchText && !f.Keyword }

// IsString reports whether terms of the field are strings.
func (f Field) IsString() bool { return f.Type == readmodel.SearchText }

// Node is a part of a query.
type Node interface{ isNode() }

// All matches everything with score 1.
type All struct{}

// None matches nothing.
type None struct{}

// Term matches documents whose field has a term, scored by BM25. Boolean fields have the terms "T" and "F".
type Term struct {
	Field Field
	Text  string
	// Blend is the number of the term's blend; terms of one blend share their statistics (BlendedTermQuery). 0: none.
	Blend int
	// Across reports whether the blend is over the fields of a multi_match of type cross_fields; otherwise it is over
	// the terms of an expansion.
	Across bool
	// Absent reports whether the field does not exist in the nested documents that are searched. The term matches none
	// of them, but counts in its blend.
	Absent bool
	// As is the number of the blend whose statistics the term has instead of those of its own, in which it still counts
	// (ShareStatistics). 0: its own blend.
	As int
}

// OwnStatistics as Term.As selects the statistics of the term itself.
const OwnStatistics = math.MinInt

// Statistics returns the number of the blend whose statistics the term has, or 0 if it has its own.
func (t Term) Statistics() int {
	switch t.As {
	case 0:
		return t.Blend
	case OwnStatistics:
		return 0
	}
	return t.As
}

// Set matches documents whose field has any of the terms, with score 1 (TermInSetQuery).
type Set struct {
	Field  Field
	Values []string
}

// Phrase matches documents in which a text field has terms at consecutive positions, scored by BM25. Position i
// accepts any of Terms[i]. Slop is the allowed edit distance of positions. If PrefixLast is set, the last term is a
// prefix, which is expanded to at most Expansions terms before planning.
type Phrase struct {
	Field      Field
	Terms      [][]string
	Slop       int
	PrefixLast bool
	Expansions int
}

// Combined matches documents in which any of several text fields has a term, scored by BM25F: as if the fields were
// one, each repeated by its weight (CombinedFieldQuery).
type Combined struct {
	Fields  []Field
	Weights []float64
	Text    string
	// Path is the nested path whose documents are searched. Fields outside it count in the statistics only.
	Path string
}

// Absent reports whether a field does not exist in the documents that are searched.
func (c Combined) Absent(f Field) bool { return c.Path != "" && f.Nested != c.Path }

// Range matches documents with a value between two bounds, with score 1.
type Range struct {
	Field Field
	// Min and Max are the inclusive bounds of numbers and dates.
	Min, Max int64
	// Lower and Upper are the bounds of strings; nil: unbounded.
	Lower, Upper *Bound
}

// Bound is a bound of a range of strings.
type Bound struct {
	Text      string
	Inclusive bool
}

// RewriteMethod is how a multi-term node scores documents (MultiTermQuery.RewriteMethod in Lucene).
type RewriteMethod uint8

// The rewrite methods. The default is RewriteConstant for patterns, RewriteBlended for fuzzy words.
const (
	RewriteDefault RewriteMethod = iota
	// RewriteConstant scores 1 for any of all terms.
	RewriteConstant
	// RewriteScored adds the BM25 scores of the terms; those of a fuzzy word are boosted by their similarity.
	RewriteScored
	// RewriteTopTermsBoost adds the similarities of the terms, 1 for each term of a pattern.
	RewriteTopTermsBoost
	// RewriteBlended is RewriteScored with the statistics of the most frequent term for all terms.
	RewriteBlended
)

// PatternKind is the kind of a pattern.
type PatternKind uint8

// The kinds of patterns.
const (
	// Prefix: terms that begin with the text.
	Prefix PatternKind = iota + 1
	// Wildcard: * matches any characters, ? one, \ escapes the next.
	Wildcard
	// Regexp: Lucene's regular expressions, which match a whole term.
	Regexp
	// Whole: the term itself, for Insensitive.
	Whole
)

// Pattern matches documents whose field has a term that matches a pattern, with score 1.
type Pattern struct {
	Field Field
	Kind  PatternKind
	Text  string
	// Insensitive ignores the case of ASCII letters.
	Insensitive bool
	// Expression is the RE2 equivalent of a Regexp. If there is none, it matches a superset, Regexp is set and decides
	// which terms match, and the node is expanded to them before planning.
	Expression string
	Regexp     *termregexp.Expression
	// Flags are those of a Regexp, in upper case.
	Flags string
	// Rewrite, unless it is RewriteDefault, expands the pattern to at most Expansions terms before planning.
	Rewrite    RewriteMethod
	Expansions int
}

// Fuzzy matches documents whose field has a term within an edit distance of Edits. It is expanded to at most Expansions
// terms before planning.
type Fuzzy struct {
	Field          Field
	Text           string
	Edits          int
	PrefixLength   int // characters that must be equal
	Expansions     int
	Transpositions bool // swapping two adjacent characters is one edit
	Rewrite        RewriteMethod
}

// Exists matches documents with any value in the field, with score 1.
type Exists struct{ Field Field }

// Bool combines nodes. Its score is the sum of the scores of Must and of the matching nodes of Should.
type Bool struct {
	Must, Filter, Should, MustNot []Node
	// Minimum is how many of Should must match (minimum_should_match).
	Minimum int
	// MinimumField, if set, is the number field whose value replaces Minimum.
	MinimumField *Field
}

// DisMax matches documents that any of its nodes matches. Its score is the greatest of their scores plus Tie times the
// sum of the others.
type DisMax struct {
	Nodes []Node
	Tie   float64
}

// Boost multiplies the score of a node.
type Boost struct {
	Node   Node
	Factor float64
}

// Constant replaces the scores of a node by a constant.
type Constant struct {
	Node  Node
	Score float64
}

// ScoreMode is how several scores are combined.
type ScoreMode string

// The score modes. Nested supports avg, sum, min, max and none; Function multiply, sum, avg, first, max and min;
// several values avg, sum, min, max and median.
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

// Nested matches documents with a nested document of a path that matches a node.
type Nested struct {
	Path string
	Node Node
	Mode ScoreMode
	// InnerHits, if set, returns the matching nested documents.
	InnerHits *InnerHits
}

// InnerHits selects which of the matching nested documents are returned, their order and their fields.
type InnerHits struct {
	Name   string
	From   int
	Size   int
	Sort   []InnerSort
	Source Source
	// Highlights are fields of the path.
	Highlights []Highlight
}

// Scored reports whether scores determine the order.
func (h *InnerHits) Scored() bool {
	return h != nil && slices.ContainsFunc(h.Sort, func(s InnerSort) bool { return s.By == InnerScore })
}

// InnerKey is the kind of a sort key of inner hits.
type InnerKey uint8

// The kinds of sort keys.
const (
	InnerScore InnerKey = iota + 1
	InnerField
	InnerPosition // position in the document
)

// InnerSort is a sort key of inner hits. Ties are broken by the position in the document.
type InnerSort struct {
	By         InnerKey
	Field      Field
	Double     bool // integers are compared as floating-point numbers, and Missing may be one
	Descending bool
	// MissingFirst sorts nested documents without a value first. Missing, if set, is the value that they have instead.
	MissingFirst bool
	Missing      *string
}

// Highlight requests fragments of a field in which the words of the query are marked.
type Highlight struct {
	Field Field
	// AnyField marks the words that the query looks for in any field, not only in this one.
	AnyField bool
	// Before and After are the tags of a marked word.
	Before, After string
	// Fragments is the maximum number of fragments; 0: whole texts. Length is that of a fragment in characters.
	Fragments, Length int
}

// Source selects fields of a document by their paths, in which * is a wildcard (_source filtering).
type Source struct {
	None               bool
	Includes, Excludes []string
}

// Function changes the score of a node (function_score, boosting).
type Function struct {
	Node      Node
	Functions []Factor
	// ScoreMode combines the factors, BoostMode combines the result with the node's score.
	ScoreMode, BoostMode ScoreMode
	MaxBoost             float64 // limits the combined factors
	MinScore             *float64
	// Sealed reports whether an outer boost multiplies the result instead of the node's score.
	Sealed bool
}

// FactorKind is the kind of a factor.
type FactorKind uint8

// The kinds of factors.
const (
	FactorWeight FactorKind = iota + 1 // the weight only
	FactorField
	FactorDecay
	FactorRandom
)

// Factor is one function of a Function. It applies to documents that Filter matches; nil: to all.
type Factor struct {
	Filter Node
	Kind   FactorKind
	Weight float64
	// Field of FactorField, FactorDecay and FactorRandom.
	Field Field
	// FactorField: Multiplier times the value, then Modifier. Missing replaces a missing value; without it, a missing
	// value is an error in Elasticsearch and 1 here.
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
