package clause

import (
	"strings"
	"unicode/utf8"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/termregexp"
)

func lowerRegexp(l *lowering, c *Clause, v value) (algebra.Node, error) {
	return l.oneField(c, v, "value", func(f algebra.Field, a *args) (algebra.Node, error) {
		at := a.must("value")
		flags := a.text("flags", "ALL")
		insensitive := a.flag("case_insensitive", false)
		a.integer("max_determinized_states", 10_000, 0, 1<<30) // no effect: nothing is determinized here
		rewrite := a.rewrite("rewrite")
		boost := a.boost()
		if a.err != nil {
			return nil, a.err
		}
		text, err := at.scalar()
		if err != nil {
			return nil, err
		}
		if !f.IsString() {
			return nil, at.errorf("can only use regexp queries on text fields, not on %s", f.Name())
		}
		n, err := regexpNode(f, at, text, flags, insensitive, rewrite)
		if err != nil {
			return nil, err
		}
		return boosted(l.leaf(f, n), boost), nil
	})
}

// regexpNode parses a Lucene regular expression, which matches whole terms.
func regexpNode(f algebra.Field, at value, text, flags string, insensitive bool,
	rewrite rewriting) (algebra.Node, error) {
	if utf8.RuneCountInString(text) > MaxRegexp {
		return nil, at.errorf("the length of regex [%d] exceeds %d", utf8.RuneCountInString(text), MaxRegexp)
	}
	o := termregexp.Options{Insensitive: insensitive}
	for flag := range strings.SplitSeq(strings.ToUpper(flags), "|") {
		switch flag {
		case "ALL":
			o.AnyString, o.Empty, o.Interval, o.Intersection, o.Complement = true, true, true, true, true
		case "ANYSTRING":
			o.AnyString = true
		case "EMPTY":
			o.Empty = true
		case "INTERVAL":
			o.Interval = true
		case "INTERSECTION":
			o.Intersection = true
		case "COMPLEMENT":
			o.Complement = true
		case "NONE", "":
		default:
			return nil, at.errorf("unknown regexp flag [%s]: known are ALL, ANYSTRING, COMPLEMENT, EMPTY, "+
				"INTERSECTION, INTERVAL, NONE", strings.ReplaceAll(quote(flag), `"`, ""))
		}
	}
	if text == "" {
		return algebra.None{}, nil // matches only the empty term, which does not exist
	}
	x, problem := termregexp.Parse(text, o)
	if problem != "" {
		return nil, at.errorf("invalid regular expression: %s", problem)
	}
	n := algebra.Pattern{Field: f, Kind: algebra.Regexp, Text: text, Insensitive: insensitive,
		Flags: strings.ToUpper(flags)}
	var exact bool
	if n.Expression, exact = x.RE2(); !exact {
		n.Regexp = x
	}
	return rewrite.of(n), nil
}
