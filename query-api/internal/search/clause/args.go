package clause

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/platform/suggest"
	"muster/query-api/internal/search/algebra"
	"muster/schemas/analysis"
)

// args reads the parameters of an object. Its methods record the first error, which done returns.
type args struct {
	at    value
	known []string // names, for suggestions
	read  map[string]bool
	err   error
}

// arguments returns a reader of an object whose fields are parameters of a clause.
func arguments(v value, known []Parameter) *args {
	a := &args{at: v, read: make(map[string]bool)}
	for _, p := range known {
		a.known = append(a.known, p.Name)
	}
	if v.kind != '{' {
		a.err = v.errorf("must be an object, not %s", v.what())
	}
	return a
}

func (a *args) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// get returns a field of the object.
func (a *args) get(name string) (value, bool) {
	a.read[name] = true
	for _, m := range a.at.members {
		if m.name == name {
			return m.value, true
		}
	}
	return value{}, false
}

// must returns a required field of the object.
func (a *args) must(name string) value {
	v, ok := a.get(name)
	if !ok {
		a.fail(a.at.errorf("needs %q", name))
	}
	return v
}

func (a *args) text(name, otherwise string) string {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return otherwise
	}
	s, err := v.scalar()
	if err != nil {
		a.fail(err)
	}
	return s
}

// filled returns an optional string that must not be empty.
func (a *args) filled(name string) string {
	s := a.text(name, "")
	if v, ok := a.get(name); ok && v.kind != 'n' && s == "" {
		a.fail(v.errorf("must not be empty: omit it"))
	}
	return s
}

// choice returns one of the words, without regard to letter case.
func (a *args) choice(name, otherwise string, words ...string) string {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return otherwise
	}
	s := strings.ToLower(v.text)
	if v.kind != '"' || !slices.Contains(words, s) {
		a.fail(v.errorf("must be one of %s", strings.Join(words, ", ")))
	}
	return s
}

func (a *args) number(name string, otherwise float64) float64 {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return otherwise
	}
	n, ok := v.number()
	if !ok {
		a.fail(v.errorf("must be a number"))
	}
	return n
}

func (a *args) integer(name string, otherwise, least, most int) int {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return otherwise
	}
	x, ok := v.number()
	x = math.Trunc(x) // Elasticsearch truncates fractions.
	if !ok || x < float64(least) || x > float64(most) {
		a.fail(v.errorf("must be an integer from %d to %d", least, most))
		return otherwise
	}
	return int(x)
}

// expansions returns max_expansions, limited to MaxExpansions.
func (a *args) expansions(name string) int {
	return min(a.integer(name, defaultExpansions, 1, math.MaxInt32), MaxExpansions)
}

func (a *args) flag(name string, otherwise bool) bool {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return otherwise
	}
	switch {
	case v.kind == 't', v.kind == '"' && v.text == "true":
		return true
	case v.kind == 'f', v.kind == '"' && v.text == "false":
		return false
	}
	a.fail(v.errorf("must be true or false"))
	return otherwise
}

// boost returns the boost, which every clause has, as the 32-bit number that Elasticsearch stores.
func (a *args) boost() float64 {
	b := a.number("boost", 1)
	if math.Signbit(b) {
		a.fail(a.at.errorf("boost must not be negative"))
	}
	if b > math.MaxFloat32 {
		a.fail(a.at.errorf("boost is too large"))
	}
	return float64(float32(b))
}

// analyzer returns the name of an analyzer, or "" for the analyzer of the field.
func (a *args) analyzer(name string) string {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return ""
	}
	if _, err := analysis.Named(v.text); v.kind != '"' || err != nil {
		a.fail(v.errorf("unknown analyzer %s: known are %s", quote(v.text), strings.Join(analysis.Names(), ", ")))
	}
	return v.text
}

// noSynonyms reads a parameter about synonyms, which do not exist here.
func (a *args) noSynonyms() { a.flag("auto_generate_synonyms_phrase_query", true) }

// rewriting is the rewrite method of a pattern or a fuzzy word and its maximum number of terms; 0: the default.
type rewriting struct {
	how   algebra.RewriteMethod
	terms int
}

// rewrite returns the parameter rewrite. Methods that score all matches of a pattern equally are one.
func (a *args) rewrite(name string) rewriting {
	v, ok := a.get(name)
	if !ok || v.kind == 'n' {
		return rewriting{}
	}
	digit := strings.IndexAny(v.text, "0123456789")
	switch {
	case v.kind != '"':
	case v.text == "constant_score", v.text == "constant_score_boolean", v.text == "constant_score_blended":
		return rewriting{how: algebra.RewriteConstant}
	case v.text == "scoring_boolean":
		return rewriting{algebra.RewriteScored, MaxExpansions + 1} // More are rejected.
	case digit > 0:
		how := map[string]algebra.RewriteMethod{
			"top_terms_": algebra.RewriteScored, "top_terms_boost_": algebra.RewriteTopTermsBoost,
			"top_terms_blended_freqs_": algebra.RewriteBlended,
		}[v.text[:digit]]
		if n, err := strconv.ParseInt(v.text[digit:], 10, 32); err == nil && n > 0 && how != algebra.RewriteDefault {
			return rewriting{how, min(int(n), MaxExpansions)}
		}
	}
	a.fail(v.errorf("must be constant_score, constant_score_boolean, constant_score_blended, scoring_boolean, " +
		"top_terms_N, top_terms_boost_N or top_terms_blended_freqs_N with a number from 1"))
	return rewriting{}
}

// of applies the rewrite method to a pattern, whose default is a constant score.
func (r rewriting) of(n algebra.Pattern) algebra.Node {
	if r.terms > 0 {
		n.Rewrite, n.Expansions = r.how, r.terms
	}
	return n
}

// done returns the first error, or an error that names an unknown field.
func (a *args) done() error {
	if a.err != nil {
		return a.err
	}
	for _, m := range a.at.members {
		if !a.read[m.name] {
			if hint, ok := otherParameter(m.name, a.known); ok {
				return a.at.errorf("unknown parameter %s: %s", quote(m.name), hint)
			}
			return a.at.errorf("unknown parameter %s: %s", quote(m.name), suggestion(m.name, a.known))
		}
	}
	return nil
}

// suggestion returns a hint with the closest known name.
func suggestion(name string, known []string) string {
	if len(known) == 0 {
		return "there are none here"
	}
	return suggest.Hint(name, known, "Known are "+strings.Join(known, ", "))
}
