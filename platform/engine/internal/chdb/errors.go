package chdb

import (
	"regexp"
	"strconv"
	"strings"
)

// Error is an exception of the engine.
type Error struct {
	Code    int    // ClickHouse's error code; 0 if the text has none
	Name    string // name of the code, such as UNKNOWN_TABLE; "" if the text has none
	Message string // without "Code: N. DB::Exception: ", including the name
}

func (e *Error) Error() string {
	return "Code: " + strconv.Itoa(e.Code) + ". DB::Exception: " + e.Message
}

var (
	codePattern = regexp.MustCompile(`Code: (\d+)\. (?:DB::Exception: )?`)
	namePattern = regexp.MustCompile(`\(([A-Z][A-Z0-9_]+)\)(?: \(version [^()]*\))?\.?$`)
)

// parseError parses an error text of the engine. It may have a prefix ("Error: ") and, for std::exception, no code.
func parseError(text string) *Error {
	text = strings.TrimSpace(text)
	m := codePattern.FindStringSubmatchIndex(text)
	if m == nil {
		return &Error{Message: text}
	}
	code, err := strconv.Atoi(text[m[2]:m[3]])
	if err != nil {
		return &Error{Message: text}
	}
	e := &Error{Code: code, Message: text[m[1]:]}
	if name := namePattern.FindStringSubmatch(e.Message); name != nil {
		e.Name = name[1]
	}
	return e
}
