package oracle

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

const maxDifferences = 12

// Diff describes the differences of got from want, one per line. It returns "" for equal JSON values.
func Diff(want, got any) string {
	d := differ{}
	d.compare("$", want, got)
	if d.more > 0 {
		d.lines = append(d.lines, fmt.Sprintf("and %d more", d.more))
	}
	return strings.Join(d.lines, "\n")
}

type differ struct {
	lines []string
	more  int
}

func (d *differ) report(path, format string, args ...any) {
	if len(d.lines) == maxDifferences {
		d.more++
		return
	}
	d.lines = append(d.lines, path+": "+fmt.Sprintf(format, args...))
}

func (d *differ) compare(path string, want, got any) {
	switch want := want.(type) {
	case Object:
		if got, ok := got.(Object); ok {
			d.objects(path, want, got)
			return
		}
	case []any:
		if got, ok := got.([]any); ok {
			d.lists(path, want, got)
			return
		}
	case Number:
		if got, ok := got.(Number); ok && sameNumber(want, got) {
			return
		}
	default:
		switch got.(type) {
		case Object, []any: // not comparable
		default:
			if want == got {
				return
			}
		}
	}
	d.report(path, "want %s, got %s", show(want), show(got))
}

func (d *differ) objects(path string, want, got Object) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; ok {
			d.compare(path+"."+k, want[k], v)
		} else {
			d.report(path+"."+k, "want %s, got none", show(want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			d.report(path+"."+k, "want none, got %s", show(got[k]))
		}
	}
}

func (d *differ) lists(path string, want, got []any) {
	if len(want) != len(got) {
		d.report(path, "want %d entries, got %d", len(want), len(got))
	}
	for i := range min(len(want), len(got)) {
		d.compare(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])
	}
}

func sameNumber(a, b Number) bool {
	if a == b {
		return true
	}
	ra, oka := new(big.Rat).SetString(string(a))
	rb, okb := new(big.Rat).SetString(string(b))
	return oka && okb && ra.Cmp(rb) == 0
}

func show(v any) string {
	s := fmt.Sprintf("%q", v)
	switch v := v.(type) {
	case nil:
		s = "null"
	case Number:
		s = string(v)
	case bool:
		s = fmt.Sprint(v)
	}
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
}
