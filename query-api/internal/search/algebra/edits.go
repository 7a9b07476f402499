package algebra

import (
	"slices"
	"strings"
)

// Edits returns the edit distance of two terms. If transpositions is set, a swap counts as one edit.
func Edits(a, b string, transpositions bool) int {
	x, y := []rune(a), []rune(b)
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if transpositions && i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}

// Prefix returns the characters of the text that must be equal.
func (n Fuzzy) Prefix() string {
	text := []rune(n.Text)
	return string(text[:min(n.PrefixLength, len(text))])
}

// Near returns those of a sorted list of terms that are within the edit distance of a fuzzy word, whatever their
// prefix. What terms begin with is compared once, and terms are skipped if it is too far from any beginning of the
// word.
func Near(n Fuzzy, sorted []string) []string {
	text := []rune(n.Text)
	first := make([]int, len(text)+1)
	for i := range first {
		first[i] = i
	}
	rows := [][]int{first} // the distances of the beginnings of last to those of the text
	var near []string
	var last, term []rune
	tooFar := "" // what skipped terms begin with
	known := 0   // characters of last that were compared
	for _, t := range sorted {
		if len(t) < len(text)-n.Edits || tooFar != "" && strings.HasPrefix(t, tooFar) {
			continue
		}
		last, term = term, append(last[:0], []rune(t)...)
		shared := 0
		for shared < min(known, len(term)) && last[shared] == term[shared] {
			shared++
		}
		tooFar = ""
		for known = shared; known < len(term) && tooFar == ""; known++ {
			if len(rows) == known+1 {
				rows = append(rows, make([]int, len(text)+1))
			}
			row, before := rows[known+1], rows[known]
			row[0] = known + 1
			for j := 1; j <= len(text); j++ {
				cost := 1
				if term[known] == text[j-1] {
					cost = 0
				}
				row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+cost)
				if n.Transpositions && known > 0 && j > 1 && term[known] == text[j-2] && term[known-1] == text[j-1] {
					row[j] = min(row[j], rows[known-1][j-2]+1)
				}
			}
			// A swap of the next two characters adds one to a distance of the row before.
			if slices.Min(row) > n.Edits && slices.Min(before) >= n.Edits {
				tooFar = string(term[:known+1])
			}
		}
		if tooFar == "" && rows[len(term)][len(text)] <= n.Edits {
			near = append(near, t)
		}
	}
	return near
}
