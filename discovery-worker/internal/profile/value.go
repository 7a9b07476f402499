package profile

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Source is where a value comes from.
type Source struct {
	// Type is "input" or "record".
	Type string `json:"type"`
	// Path, Start and End are the span in the input: the JSON pointer of a string ("" for a text),
	// and byte offsets in it.
	Path  *string `json:"path,omitempty"`
	Start *int    `json:"start,omitempty"`
	End   *int    `json:"end,omitempty"`
	// Platform, Username and UpdatedAt identify a record.
	Platform  string `json:"platform,omitempty"`
	Username  string `json:"username,omitempty"`
	UpdatedAt string `json:"last_updated,omitempty"`
	// Model is the language model that read the value there, or "".
	Model string `json:"model,omitempty"`
}

// Types of a [Source].
const (
	sourceInput  = "input"
	sourceRecord = "record"
)

// Value is one value of a profile.
type Value struct {
	JSON       jsontext.Value
	Confidence float64
	Source     Source
}

// inputSource returns a source in the input.
func inputSource(path string, start, end int) Source {
	return Source{Type: sourceInput, Path: &path, Start: &start, End: &end}
}

func round(p float64) float64 { return math.Round(p*1e4) / 1e4 }

// isEquivalent reports whether two values are equal, ignoring case and white space.
func isEquivalent(a, b jsontext.Value) bool {
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

// fold returns the comparison form of a text: lower case, single spaces.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// stringValue returns a string value, or "" for other types.
func (v Value) stringValue() string {
	var s string
	if json.Unmarshal(v.JSON, &s) != nil {
		return ""
	}
	return s
}

// isEmpty reports whether a value is null, missing or empty.
func isEmpty(v jsontext.Value) bool {
	switch strings.TrimSpace(string(v)) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}
