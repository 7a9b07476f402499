package profile

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Source says what a value rests on.
type Source struct {
	// Type is input or record.
	Type string `json:"type"`
	// Path, Start and End are the span of the input: the JSON pointer of a string in
	// an object ("" in a text), and offsets of bytes in it.
	Path  *string `json:"path,omitempty"`
	Start *int    `json:"start,omitempty"`
	End   *int    `json:"end,omitempty"`
	// Platform, Username and UpdatedAt name a record.
	Platform  string `json:"platform,omitempty"`
	Username  string `json:"username,omitempty"`
	UpdatedAt string `json:"last_updated,omitempty"`
	// Model says that a language model read it there.
	Model string `json:"model,omitempty"`
}

// Types of a [Source].
const (
	fromInput  = "input"
	fromRecord = "record"
)

// Value is one value of a profile.
type Value struct {
	JSON       jsontext.Value
	Confidence float64
	Source     Source
}

// span is a source in the input.
func span(path string, start, end int) Source {
	return Source{Type: fromInput, Path: &path, Start: &start, End: &end}
}

func round(p float64) float64 { return math.Round(p*1e4) / 1e4 }

// alike reports whether two values say the same.
func alike(a, b jsontext.Value) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	s, ok1 := x.(string)
	t, ok2 := y.(string)
	if ok1 && ok2 {
		return fold(s) == fold(t)
	}
	return string(a) == string(b)
}

// fold is a text's form for comparing: lower case, one space between words.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// text is a string value; empty if it is none.
func (v Value) text() string {
	var s string
	if json.Unmarshal(v.JSON, &s) != nil {
		return ""
	}
	return s
}

// empty reports whether a value says nothing.
func empty(v jsontext.Value) bool {
	switch strings.TrimSpace(string(v)) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}
