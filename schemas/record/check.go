package record

import (
	"fmt"
	"slices"
	"strings"
)

// date validates an optional date. The path is formatted only for an invalid one.
func date(d PartialDate, format string, args ...any) *ValidationError {
	if d == "" {
		return nil
	}
	if _, err := ParseVersion(string(d)); err != nil {
		return &ValidationError{Path: fmt.Sprintf(format, args...), Code: CodeBadDate, Reason: err.Error()}
	}
	return nil
}

// required checks that a string is not empty.
func required(field, value string) *ValidationError {
	if strings.TrimSpace(value) == "" {
		return &ValidationError{Path: field, Code: CodeMissingField, Reason: "is missing"}
	}
	return nil
}

// oneOf checks an optional string against its allowed values.
func oneOf(field, value string, allowed ...string) *ValidationError {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return &ValidationError{Path: field, Code: CodeBadValue, Reason: "must be one of " + strings.Join(allowed, ", ")}
}

// first returns the first error.
func first(defects ...*ValidationError) *ValidationError {
	for _, d := range defects {
		if d != nil {
			return d
		}
	}
	return nil
}
