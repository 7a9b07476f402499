package facade

import (
	"errors"
	"fmt"
	"net/http"

	"muster/platform/engine/internal/chdb"
)

// code is a ClickHouse error code that the facade returns.
type code struct {
	number int
	name   string
}

var (
	errBadArguments          = code{36, "BAD_ARGUMENTS"}
	errNotImplemented        = code{48, "NOT_IMPLEMENTED"}
	errSyntax                = code{62, "SYNTAX_ERROR"}
	errUnknownCompression    = code{89, "UNKNOWN_COMPRESSION_METHOD"}
	errUnknownSetting        = code{115, "UNKNOWN_SETTING"}
	errTimeoutExceeded       = code{159, "TIMEOUT_EXCEEDED"}
	errReadonly              = code{164, "READONLY"}
	errTooManyQueries        = code{202, "TOO_MANY_SIMULTANEOUS_QUERIES"}
	errCannotDecompress      = code{271, "CANNOT_DECOMPRESS"}
	errSessionNotFound       = code{372, "SESSION_NOT_FOUND"}
	errSessionLocked         = code{373, "SESSION_IS_LOCKED"}
	errInvalidSessionTimeout = code{374, "INVALID_SESSION_TIMEOUT"}
	errQueryCancelled        = code{394, "QUERY_WAS_CANCELLED"}
	errSettingConstraint     = code{452, "SETTING_CONSTRAINT_VIOLATION"}
	errAccessDenied          = code{497, "ACCESS_DENIED"}
	errAuthenticationFailed  = code{516, "AUTHENTICATION_FAILED"}
	errPoco                  = code{1000, "POCO_EXCEPTION"}
	errStd                   = code{1001, "STD_EXCEPTION"}
)

func (c code) errorf(format string, args ...any) *chdb.Error {
	return &chdb.Error{Code: c.number, Name: c.name, Message: fmt.Sprintf(format, args...) + ". (" + c.name + ")"}
}

// asException returns err as an exception of the engine.
func asException(err error) *chdb.Error {
	if e, ok := errors.AsType[*chdb.Error](err); ok && e.Code != 0 {
		return e
	}
	return errStd.errorf("%s", err)
}

// statusOf returns the HTTP status of an exception, as a ClickHouse server (exceptionCodeToHTTPStatus).
func statusOf(e *chdb.Error) int {
	switch e.Name {
	case "REQUIRED_PASSWORD":
		return http.StatusUnauthorized
	case "UNKNOWN_USER", "WRONG_PASSWORD", "AUTHENTICATION_FAILED", "SET_NON_GRANTED_ROLE", "ACCESS_DENIED":
		return http.StatusForbidden
	case "BAD_ARGUMENTS", "CANNOT_COMPILE_REGEXP", "CANNOT_PARSE_TEXT", "CANNOT_PARSE_ESCAPE_SEQUENCE",
		"CANNOT_PARSE_QUOTED_STRING", "CANNOT_PARSE_DATE", "CANNOT_PARSE_DATETIME", "CANNOT_PARSE_NUMBER",
		"CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING", "CANNOT_PARSE_IPV4", "CANNOT_PARSE_IPV6", "CANNOT_PARSE_UUID",
		"CANNOT_PARSE_INPUT_ASSERTION_FAILED", "DUPLICATE_COLUMN", "ILLEGAL_COLUMN", "THERE_IS_NO_COLUMN",
		"UNKNOWN_ELEMENT_IN_AST", "UNKNOWN_TYPE_OF_AST_NODE", "TOO_DEEP_AST", "TOO_BIG_AST",
		"UNEXPECTED_AST_STRUCTURE", "SYNTAX_ERROR", "INCORRECT_DATA", "TYPE_MISMATCH",
		"VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE":
		return http.StatusBadRequest
	case "UNKNOWN_TABLE", "UNKNOWN_FUNCTION", "UNKNOWN_IDENTIFIER", "UNKNOWN_TYPE", "UNKNOWN_STORAGE",
		"UNKNOWN_DATABASE", "UNKNOWN_SETTING", "UNKNOWN_DIRECTION_OF_SORTING", "UNKNOWN_AGGREGATE_FUNCTION",
		"UNKNOWN_FORMAT", "UNKNOWN_DATABASE_ENGINE", "UNKNOWN_TYPE_OF_QUERY", "UNKNOWN_ROLE":
		return http.StatusNotFound
	case "QUERY_IS_TOO_LARGE":
		return http.StatusRequestEntityTooLarge
	case "NOT_IMPLEMENTED":
		return http.StatusNotImplemented
	case "SOCKET_TIMEOUT", "CANNOT_OPEN_FILE", "CANNOT_SCHEDULE_TASK":
		return http.StatusServiceUnavailable
	case "HTTP_LENGTH_REQUIRED":
		return http.StatusLengthRequired
	case "TIMEOUT_EXCEEDED":
		return http.StatusRequestTimeout
	case "UNSUPPORTED_MEDIA_TYPE":
		return http.StatusUnsupportedMediaType
	}
	return http.StatusInternalServerError
}
