package termregexp_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/termregexp"
)

func all() termregexp.Options {
	return termregexp.Options{AnyString: true, Empty: true, Interval: true, Intersection: true, Complement: true}
}

func matches(t *testing.T, x *termregexp.Expression, term string) bool {
	t.Helper()
	ok, err := x.Match(t.Context(), term)
	require.NoError(t, err)
	return ok
}

func TestExpression_MatchesAsLucene(t *testing.T) {
	for expression, terms := range map[string]struct{ yes, no string }{
		`abc`:               {"abc", "ab abcd xabc"},
		`a.c`:               {"abc aöc", "ac abbc"},
		`a[b-dx]*e`:         {"ae abe axbcde", "afe"},
		`[^a-c]`:            {"d ü", "a b dd"},
		`(ab|c)+d?`:         {"ab ababc cd", "d abx c_"},
		`a{2,3}`:            {"aa aaa", "a aaaa"},
		`a{2,}`:             {"aa aaaaaa", "a"},
		`(a?){3}b`:          {"b ab aaab", "aaaab"},
		`(~(a|b)&.?){1000}`: {"c cc", "a ca"}, // also an empty part, repeated
		`((a?){5}b){2}`:     {"bb aaaaabb abab", "b aaaaaabb bbb"},
		`"a.b"c`:            {"a.bc", "axbc"},
		`\d+\w`:             {"12 1a", "a 1"},
		`<1-20>x`:           {"1x 020x 19x", "21x 0x x"},
		`<01-20>`:           {"01 20", "1 021"},
		`@b@`:               {"b abc", "ac"},
		`a#?`:               {"a", "ab"},
		`~(ab)`:             {"a abc b", "ab"},
		`~a*b`:              {"b bb xb aab", "bbba"}, // any text but a single a, then b
		`a~(bc)`:            {"a ab abcd", "abc b"},
		`x(~(foo)&f.*)y`:    {"xfy xfooly xfoy", "xfooy xay"},
		`a|b&c`:             {"a", "b c"}, // & has precedence
		`(a|b)&b`:           {"b", "a"},
		`.*a.*&.*b.*&~(@c)`: {"ab ba", "a b abc"},
		`~~(ab)`:            {"ab", "a b"},
		`[\d]+`:             {"12", "1d d"},
		`x[\W\d-]`:          {"x# x1 xö x-", "xa x_"},
		`[^\w]`:             {"- ä", "a 1 _"},
		`[\S]\D`:            {"1a ä#", "a1"},
		`|a`:                {"|a", "a"},
		`a||b`:              {"a |b", "b"},
		`(*a)`:              {"*a", "a"},
		`+*`:                {"+ ++", "a"},
		`<7-1203>`:          {"7 10 99 0100 1000 1199 1203", "6 1204 2000 11990"},
		`<095-300>`:         {"095 100 299 300", "95 301 094 0100"},
		`<0-2147483647>`:    {"0 00 2147483647", "2147483648"},
	} {
		x, problem := termregexp.Parse(expression, all())
		require.Empty(t, problem, expression)
		superset, exact := x.RE2()
		re, err := regexp.Compile(superset)
		require.NoError(t, err, superset)
		for _, term := range strings.Fields(terms.yes) {
			require.True(t, matches(t, x, term), "%s: %s", expression, term)
			require.True(t, re.MatchString(term), "%s as %s: %s", expression, superset, term)
		}
		for _, term := range strings.Fields(terms.no) {
			require.False(t, matches(t, x, term), "%s: %s", expression, term)
			require.False(t, exact && re.MatchString(term), "%s as %s: %s", expression, superset, term)
		}
		require.Equal(t, !strings.ContainsAny(expression, "&~"), exact, expression)
	}
}

func TestParse_OptionsDisableSyntax(t *testing.T) {
	plain, problem := termregexp.Parse(`a&~@#<1-2>`, termregexp.Options{})
	require.Empty(t, problem)
	require.True(t, matches(t, plain, `a&~@#<1-2>`))
	either, problem := termregexp.Parse(`aB[c]`, termregexp.Options{Insensitive: true})
	require.Empty(t, problem)
	require.True(t, matches(t, either, "AbC"))
}

func TestParse_ReportsSyntaxErrors(t *testing.T) {
	for expression, want := range map[string]string{
		`(a`: "( is not closed", `a)`: ") has no (", `[a`: "[ is not closed", `"a`: "is not closed", `a|`: "is missing",
		`(a|)`: "( is not closed", `a&`: "is missing", `\e`: "no class of characters", `[\b]`: "no class of characters",
		`[e-]`: "ends before it begins", `a\`: "nothing after it",
		`<1>`: "two numbers", `a{`: "{ is not closed", `a{3,1}`: "the greater second", `a{1001}`: "at most 1000",
		`[b-a]`: "ends before it begins", `a~`: "is missing",
		strings.Repeat("(", 200): "nested too deeply", strings.Repeat("~", 200) + "a": "nested too deeply",
	} {
		_, problem := termregexp.Parse(expression, all())
		require.Contains(t, problem, want, expression)
	}
}

// The time of nested repetitions is not exponential in their depth, since matches of parts are cached by position.
func TestMatch_NestedRepetitionsArePolynomial(t *testing.T) {
	long := strings.Repeat("engineer", 31)
	for expression, want := range map[string]bool{
		"~(" + strings.Repeat("(", 40) + ".?" + strings.Repeat(")*", 40) + "z)":                              true,
		"~(" + strings.Repeat("(", 60) + "(a|e|.)?" + strings.Repeat(")+", 60) + ")":                         false,
		"~(((((.?){200}){200}){200}){200}z)":                                                                 true,
		"~(((((.?){1000}){1000}){1000}){1000}z)":                                                             true,
		"(((((e|n|g|i|r)*&~(x))*&~(y))*&~(z))*&@)*":                                                          true,
		strings.Repeat("(", 30) + "~(e)" + strings.Repeat(")*", 30) + "&~(" + strings.Repeat("@", 50) + "z)": true,
	} {
		x, problem := termregexp.Parse(expression, all())
		require.Empty(t, problem, expression)
		for _, term := range []string{"engineer", long} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			ok, err := x.Match(ctx, term)
			cancel()
			require.NoError(t, err, expression)
			require.Equal(t, want, ok, "%s: %s", expression, term)
		}
	}
}

func TestMatch_StopsSoonAfterCancel(t *testing.T) {
	x, problem := termregexp.Parse("~((((.?){1000}){1000}){1000}z)", all())
	require.Empty(t, problem)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := x.Match(ctx, strings.Repeat("engineer", 31))
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzMatch_EqualsRE2(f *testing.F) {
	f.Add(`a(b|c)*d`, "abcd")
	f.Add(`[^x]{2,4}`, "abc")
	f.Add(`~(a)&<1-9>`, "5")
	f.Add(`~(((((.?){9})*)*)*z)`, "abcabc")
	f.Fuzz(func(t *testing.T, expression, term string) {
		if len(expression) > 40 || len(term) > 40 {
			return
		}
		x, problem := termregexp.Parse(expression, all())
		if problem != "" {
			return
		}
		superset, exact := x.RE2()
		re, err := regexp.Compile(superset)
		if err != nil {
			return // nested repetitions
		}
		found := matches(t, x, term)
		if exact {
			require.Equal(t, re.MatchString(strings.ToValidUTF8(term, "\uFFFD")),
				matches(t, x, strings.ToValidUTF8(term, "\uFFFD")), "%q %q", expression, term)
		} else if found {
			require.True(t, re.MatchString(term), "%q as %q: %q", expression, superset, term)
		}
	})
}
