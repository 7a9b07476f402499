package record

import (
	"fmt"
	"slices"
	"strings"
)

// date checks an optional date. The path is only composed for a bad one.
func date(d PartialDate, format string, args ...any) *Invalid {
	if d == "" {
		return nil
	}
	if _, err := ParseVersion(string(d)); err != nil {
		return &Invalid{Path: fmt.Sprintf(format, args...), Code: CodeBadDate, Reason: err.Error()}
	}
	return nil
}

// required checks a string that must be there.
func required(field, value string) *Invalid {
	if strings.TrimSpace(value) == "" {
		return &Invalid{Path: field, Code: CodeMissingField, Reason: "is missing"}
	}
	return nil
}

// oneOf checks an optional string that has few values.
func oneOf(field, value string, allowed ...string) *Invalid {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return &Invalid{Path: field, Code: CodeBadValue, Reason: "must be one of " + strings.Join(allowed, ", ")}
}

// first returns the first defect.
func first(defects ...*Invalid) *Invalid {
	for _, d := range defects {
		if d != nil {
			return d
		}
	}
	return nil
}
