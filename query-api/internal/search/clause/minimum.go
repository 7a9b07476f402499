package clause

import (
	"strconv"
	"strings"
)

// minimum evaluates a minimum_should_match for n clauses: n, -n, p%, -p%, and conditions "a<spec", separated by one
// space, of which the last whose bound is below n applies. Negative results become zero; there is no upper limit.
func minimum(v value, spec string, n int) (int, error) {
	fail := func() (int, error) {
		return 0, v.errorf("minimum_should_match is a number, a percentage, or conditions such as \"2<75%%\", not %s",
			quote(spec))
	}
	spec = javaTrim(spec)
	if strings.Contains(spec, "<") {
		result := n
		for _, part := range strings.Split(closeUp(spec), " ") {
			bounds := strings.Split(part, "<") // A second "<" and what follows are ignored.
			limit, err := strconv.Atoi(bounds[0])
			if err != nil {
				return fail()
			}
			if n <= limit {
				return result, nil
			}
			if len(bounds) < 2 {
				return fail()
			}
			if result, err = minimum(v, bounds[1], n); err != nil {
				return fail()
			}
		}
		return result, nil
	}
	percent, isPercent := strings.CutSuffix(spec, "%")
	count, err := strconv.ParseInt(percent, 10, 32)
	if err != nil {
		return fail()
	}
	result := int(count)
	if isPercent {
		result = int(float32(int64(n)*count) * (1 / float32(100)))
	}
	if count < 0 {
		result += n
	}
	return max(result, 0), nil
}

// closeUp removes the spaces around "<".
func closeUp(spec string) string {
	parts := strings.Split(spec, "<")
	for i := range parts {
		parts[i] = javaTrim(parts[i])
	}
	return strings.Join(parts, "<")
}

// minimumText returns the parameter, which may be a number, as text.
func (a *args) minimumText() (spec string, given bool) {
	v, ok := a.get("minimum_should_match")
	if !ok || v.kind == 'n' {
		return "", false
	}
	if v.kind != '0' && v.kind != '"' {
		a.fail(v.errorf("must be a number or a string, not %s", v.what()))
	}
	return v.text, true
}
