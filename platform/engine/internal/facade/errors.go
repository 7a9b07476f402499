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

// statuses are the HTTP statuses of exceptions, as of a ClickHouse server (exceptionCodeToHTTPStatus). Others have 500.
var statuses = map[string]int{
	"REQUIRED_PASSWORD": http.StatusUnauthorized,

	"UNKNOWN_USER": http.StatusForbidden, "WRONG_PASSWORD": http.StatusForbidden,
	"AUTHENTICATION_FAILED": http.StatusForbidden,
	"SET_NON_GRANTED_ROLE":  http.StatusForbidden, "ACCESS_DENIED": http.StatusForbidden,

	"BAD_ARGUMENTS": http.StatusBadRequest, "CANNOT_COMPILE_REGEXP": http.StatusBadRequest,
	"CANNOT_PARSE_TEXT": http.StatusBadRequest, "CANNOT_PARSE_ESCAPE_SEQUENCE": http.StatusBadRequest,
	"CANNOT_PARSE_QUOTED_STRING": http.StatusBadRequest, "CANNOT_PARSE_DATE": http.StatusBadRequest,
	"CANNOT_PARSE_DATETIME": http.StatusBadRequest, "CANNOT_PARSE_NUMBER": http.StatusBadRequest,
	"CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING": http.StatusBadRequest, "CANNOT_PARSE_IPV4": http.StatusBadRequest,
	"CANNOT_PARSE_IPV6": http.StatusBadRequest, "CANNOT_PARSE_UUID": http.StatusBadRequest,
	"CANNOT_PARSE_INPUT_ASSERTION_FAILED": http.StatusBadRequest, "DUPLICATE_COLUMN": http.StatusBadRequest,
	"ILLEGAL_COLUMN": http.StatusBadRequest, "THERE_IS_NO_COLUMN": http.StatusBadRequest,
	"UNKNOWN_ELEMENT_IN_AST": http.StatusBadRequest, "UNKNOWN_TYPE_OF_AST_NODE": http.StatusBadRequest,
	"TOO_DEEP_AST": http.StatusBadRequest, "TOO_BIG_AST": http.StatusBadRequest,
	"UNEXPECTED_AST_STRUCTURE": http.StatusBadRequest, "SYNTAX_ERROR": http.StatusBadRequest,
	"INCORRECT_DATA": http.StatusBadRequest, "TYPE_MISMATCH": http.StatusBadRequest,
	"VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE": http.StatusBadRequest,

	"UNKNOWN_TABLE": http.StatusNotFound, "UNKNOWN_FUNCTION": http.StatusNotFound,
	"UNKNOWN_IDENTIFIER": http.StatusNotFound,
	"UNKNOWN_TYPE":       http.StatusNotFound, "UNKNOWN_STORAGE": http.StatusNotFound,
	"UNKNOWN_DATABASE": http.StatusNotFound,
	"UNKNOWN_SETTING":  http.StatusNotFound, "UNKNOWN_DIRECTION_OF_SORTING": http.StatusNotFound,
	"UNKNOWN_AGGREGATE_FUNCTION": http.StatusNotFound, "UNKNOWN_FORMAT": http.StatusNotFound,
	"UNKNOWN_DATABASE_ENGINE": http.StatusNotFound, "UNKNOWN_TYPE_OF_QUERY": http.StatusNotFound,
	"UNKNOWN_ROLE": http.StatusNotFound,

	"QUERY_IS_TOO_LARGE":     http.StatusRequestEntityTooLarge,
	"NOT_IMPLEMENTED":        http.StatusNotImplemented,
	"SOCKET_TIMEOUT":         http.StatusServiceUnavailable,
	"CANNOT_OPEN_FILE":       http.StatusServiceUnavailable,
	"CANNOT_SCHEDULE_TASK":   http.StatusServiceUnavailable,
	"HTTP_LENGTH_REQUIRED":   http.StatusLengthRequired,
	"TIMEOUT_EXCEEDED":       http.StatusRequestTimeout,
	"UNSUPPORTED_MEDIA_TYPE": http.StatusUnsupportedMediaType,
}

func statusOf(e *chdb.Error) int {
	if status, ok := statuses[e.Name]; ok {
		return status
	}
	return http.StatusInternalServerError
}
