package record

import (
	"fmt"
	"slices"
	"strings"
)

// date validates an optional date. The path is formatted only for an invalid one.
func date(d PartialDate, format string, args ...any) *Invalid {
	if d == "" {
		return nil
	}
	if _, err := ParseVersion(string(d)); err != nil {
		return &Invalid{Path: fmt.Sprintf(format, args...), Code: CodeBadDate, Reason: err.Error()}
	}
	return nil
}

// required checks that a string is not empty.
func required(field, value string) *Invalid {
	if strings.TrimSpace(value) == "" {
		return &Invalid{Path: field, Code: CodeMissingField, Reason: "is missing"}
	}
	return nil
}

// oneOf checks an optional string against its allowed values.
func oneOf(field, value string, allowed ...string) *Invalid {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return &Invalid{Path: field, Code: CodeBadValue, Reason: "must be one of " + strings.Join(allowed, ", ")}
}

// first returns the first error.
func first(defects ...*Invalid) *Invalid {
	for _, d := range defects {
		if d != nil {
			return d
		}
	}
	return nil
}
