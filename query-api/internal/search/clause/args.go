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

// args reads the parameters of an object. The first error sticks and is
// returned by done, which also refuses what nobody asked for.
type args struct {
	at    value
	known []string // names, for who mistypes one
	read  map[string]bool
	err   error
}

// arguments begins to read an object whose members are parameters of a clause.
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

// get finds a member.
func (a *args) get(name string) (value, bool) {
	a.read[name] = true
	for _, m := range a.at.members {
		if m.name == name {
			return m.value, true
		}
	}
	return value{}, false
}

// must finds a member that has to be there.
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

// filled reads a text that may be left out, but not be empty.
func (a *args) filled(name string) string {
	s := a.text(name, "")
	if v, ok := a.get(name); ok && v.kind != 'n' && s == "" {
		a.fail(v.errorf("must not be empty: leave it out"))
	}
	return s
}

// choice reads a word of a list; letter case does not matter.
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
	x = math.Trunc(x) // Elasticsearch cuts off a fraction
	if !ok || x < float64(least) || x > float64(most) {
		a.fail(v.errorf("must be an integer from %d to %d", least, most))
		return otherwise
	}
	return int(x)
}

// expansions reads how many terms a word may become; more than are done is a wish for many.
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

// boost is the parameter that every clause has. Elasticsearch keeps it as a
// 32-bit number.
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

// analyzer reads the name of one; empty: the field's own.
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

// noSynonyms reads a parameter that says how synonyms are searched, of which
// there are none here.
func (a *args) noSynonyms() { a.flag("auto_generate_synonyms_phrase_query", true) }

// rewriting says how the terms are scored that a pattern or a fuzzy word becomes, and of how many at most; 0: it is not said.
type rewriting struct {
	how   algebra.RewriteMethod
	terms int
}

// rewrite reads the parameter of that name. Those ways in which each match of a pattern scores the same are one.
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
		return rewriting{algebra.RewriteScored, MaxExpansions + 1} // more are refused
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

// of puts it into a pattern, in which constant scores are usual.
func (r rewriting) of(n algebra.Pattern) algebra.Node {
	if r.terms > 0 {
		n.Rewrite, n.Expansions = r.how, r.terms
	}
	return n
}

// done gives the first error, or one that names a member nobody asked for.
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

// suggestion names the nearest of the known names.
func suggestion(name string, known []string) string {
	if len(known) == 0 {
		return "there are none here"
	}
	return suggest.Hint(name, known, "Known are "+strings.Join(known, ", "))
}
