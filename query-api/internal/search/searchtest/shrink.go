package searchtest

import (
	"strings"
)

// Shrink reduces a request body while fails reports true for it, by omitting fields and elements, replacing clauses by
// clauses inside them, and shortening texts. It calls fails at most tries times.
func Shrink(body map[string]any, tries int, fails func(map[string]any) bool) map[string]any {
	for {
		smaller := false
		for _, candidate := range candidates(body) {
			if tries--; tries < 0 {
				return body
			}
			c, ok := candidate.(map[string]any)
			if !ok || c["query"] == nil || size(c) >= size(body) {
				continue
			}
			if fails(c) {
				body, smaller = c, true
				break
			}
		}
		if !smaller {
			return body
		}
	}
}

// candidates returns the values that one step makes from v.
func candidates(v any) []any {
	var out []any
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sorted(v) {
			m := clone(v).(map[string]any)
			delete(m, k)
			out = append(out, m)
		}
		// A clause inside replaces the whole.
		for _, k := range sorted(v) {
			out = append(out, clausesIn(v[k])...)
		}
		for _, k := range sorted(v) {
			for _, c := range candidates(v[k]) {
				m := clone(v).(map[string]any)
				m[k] = c
				out = append(out, m)
			}
		}
	case []any:
		for i := range v {
			if len(v) > 1 {
				l := clone(v).([]any)
				out = append(out, append(l[:i:i], l[i+1:]...))
			}
		}
		for i := range v {
			for _, c := range candidates(v[i]) {
				l := clone(v).([]any)
				l[i] = c
				out = append(out, l)
			}
		}
	case string:
		if words := strings.Fields(v); len(words) > 1 {
			for i := range words {
				rest := append(append([]string{}, words[:i]...), words[i+1:]...)
				out = append(out, strings.Join(rest, " "))
			}
		}
	}
	return out
}

// clausesIn returns the objects in a clause's arguments that are clauses.
func clausesIn(v any) []any {
	names := map[string]bool{}
	for _, c := range clauses() {
		names[c.name] = true
	}
	var out []any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 1 {
				for k := range v {
					if names[k] {
						out = append(out, clone(v))
						return
					}
				}
			}
			for _, k := range sorted(v) {
				walk(v[k])
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return out
}

// size returns the number of values, and words in texts.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += size(e) + 1
		}
	case []any:
		for _, e := range v {
			n += size(e)
		}
	case string:
		n += len(v)
	}
	return n
}
