package nativetest

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// clause matches the beginning of a clause.
var clause = regexp.MustCompile(`^(?:SELECT|FROM|GROUP BY|HAVING|ORDER BY|LIMIT|WINDOW|QUALIFY|SETTINGS) `)

// clauses splits an initiator's query, which has a normal form, into its outermost clauses. It returns false for a
// query with WITH or UNION.
func clauses(text string) (map[string]string, bool) {
	out := make(map[string]string)
	name, start := "", 0
	for i := 0; i < len(text); {
		if i == 0 || text[i-1] == ' ' {
			if m := clause.FindString(text[i:]); m != "" {
				if name == "" && i > 0 {
					return nil, false
				}
				out[name] = strings.TrimSpace(text[start:i])
				name, start = strings.TrimSpace(m), i+len(m)
				i = start
				continue
			}
		}
		switch text[i] {
		case '(', '[', '\'':
			n := balanced(text[i:])
			if n == 0 {
				return nil, false
			}
			i += n
		case '`':
			n := strings.IndexByte(text[i+1:], '`')
			if n < 0 {
				return nil, false
			}
			i += n + 2
		default:
			i++
		}
	}
	out[name] = strings.TrimSpace(text[start:])
	_, from := out["FROM"]
	return out, from && out["SELECT"] != ""
}

// items splits a list at its outermost commas.
func items(list string) (out []string) {
	start := 0
	for i := 0; i < len(list); {
		switch list[i] {
		case '(', '[', '\'':
			i += max(1, balanced(list[i:]))
		case '`':
			i += strings.IndexByte(list[i+1:], '`') + 2
		case ',':
			out = append(out, strings.TrimSpace(list[start:i]))
			i++
			start = i
		default:
			i++
		}
	}
	if rest := strings.TrimSpace(list[start:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

// aggregateCalls returns the distinct calls of the functions in a text.
func aggregateCalls(text string, functions map[string]bool) (out []string) {
	seen := make(map[string]bool)
	for i := 0; i < len(text); {
		switch text[i] {
		case '\'':
			i += max(1, balanced(text[i:]))
			continue
		case '`':
			i += strings.IndexByte(text[i+1:], '`') + 2
			continue
		}
		word := innerWord.FindString(text[i:])
		if word == "" {
			i++
			continue
		}
		n := len(word)
		if functions[word] && strings.HasPrefix(text[i+n:], "(") {
			n += balanced(text[i+n:])
			if strings.HasPrefix(text[i+n:], "(") { // the first parentheses were parameters
				n += balanced(text[i+n:])
			}
			if call := text[i : i+n]; !seen[call] {
				seen[call] = true
				out = append(out, call)
			}
		}
		i += n
	}
	return out
}

// toStates rewrites a query with aggregate functions to return their states: each call is replaced by the State form of
// the function, with the column name that the initiator expects. The names come from EXPLAIN of the original and of the
// new query, which must agree.
func (c *conn) toStates(q *query, tables []block, aggregating plan) error {
	parts, ok := clauses(q.text)
	if !ok {
		return errUnsupported(q, "needs states of aggregate functions and is not a plain SELECT")
	}
	wanted, functions := make(map[string]bool), make(map[string]bool)
	for _, a := range aggregating.Aggregates {
		wanted[a.Name] = true
		functions[innerWord.FindString(a.Name)] = true
	}
	for _, key := range aggregating.Keys {
		wanted[key] = true
	}
	calls := aggregateCalls(parts["SELECT"]+" , "+parts["HAVING"]+" , "+parts["ORDER BY"], functions)
	keys := items(parts["GROUP BY"])
	build := func(alias func(i int) string) string {
		var list []string
		for i, call := range calls {
			name := innerWord.FindString(call)
			list = append(list, name+"State"+call[len(name):]+" AS "+quote(alias(i)))
		}
		for i, key := range keys {
			list = append(list, key+" AS "+quote(alias(len(calls)+i)))
		}
		text := "SELECT " + strings.Join(list, ", ") + " FROM " + parts["FROM"]
		if len(keys) > 0 {
			text += " GROUP BY " + parts["GROUP BY"]
		}
		return text + " SETTINGS max_block_size = 1000000, max_threads = 1, optimize_trivial_count_query = 0"
	}
	probe := query{text: build(func(i int) string { return "nativetest_" + strconv.Itoa(i) }), settings: q.settings}
	top, err := c.explain(&probe, tables)
	if err != nil {
		return err
	}
	var renamed struct{ Actions []action }
	if err := json.Unmarshal(top.Expression, &renamed); err != nil {
		return err
	}
	inner := aliases(renamed.Actions)
	names := make([]string, len(calls)+len(keys))
	for i := range names {
		name, ok := inner["nativetest_"+strconv.Itoa(i)]
		if i < len(calls) {
			function := innerWord.FindString(name)
			name = strings.TrimSuffix(function, "State") + name[len(function):]
		}
		if !ok || !wanted[name] {
			return errUnsupported(q, "needs states of aggregate functions under other names than "+name)
		}
		delete(wanted, name)
		names[i] = name
	}
	if len(wanted) > 0 {
		return errUnsupported(q, "needs states of aggregate functions that are not in its text")
	}
	q.text, q.states = build(func(i int) string { return names[i] }), true
	return nil
}

// appendStates appends a result with states as a packet. The result must be one block, because only the engine knows
// where a state ends.
func appendStates(dst, result []byte, rows uint64, q *query) ([]byte, error) {
	_, n := binary.Uvarint(result)
	blockRows, m := binary.Uvarint(result[max(0, n):])
	if n <= 0 || m <= 0 || blockRows != rows {
		return nil, errUnsupported(q, "has states in more than one block")
	}
	dst = append(dst, serverData, 0)
	dst = append(dst, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0) // not overflows, no bucket
	return append(dst, result...), nil
}
