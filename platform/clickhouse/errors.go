package clickhouse

import (
	"context"
	"errors"
	"net/http"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	lib "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// Code is a ClickHouse exception code; its String method returns ClickHouse's name, such as "TOO_MANY_PARTS". The
// constants are those of ch-go's proto package.
type Code = proto.Error

// CodeOf returns the exception code in err. ok is false if err was not returned by the server's engine, as with network
// errors, responses of proxies and client errors.
func CodeOf(err error) (code Code, ok bool) {
	var exception *ch.Exception
	if !errors.As(err, &exception) {
		return 0, false
	}
	return Code(exception.Code), true
}

// IsTransient reports whether the same work may succeed later. It decides between blocking (retry) and dead-lettering.
// The two mistakes differ: a wrong "permanent" discards valid records, a wrong "transient" visibly stops the consumer.
// So an error is permanent only if it is clearly caused by the data or the statement: the listed exception codes, a
// value that the client cannot convert, and HTTP 413 and 414 from a proxy, where a smaller batch may pass. Everything
// else is transient: network errors, EOF, timeouts, HTTP 429 and 5xx, overload, memory, too many parts, Keeper; also a
// canceled context, rejected credentials and missing tables or columns, which an operator or a migration fixes, and
// unknown codes. nil is not transient.
func IsTransient(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if code, ok := CodeOf(err); ok {
		_, damaged := DamageOf(err) // an operator can repair it; the work is not the cause
		return damaged || !isPermanent(code)
	}
	var status *ch.HTTPError
	if errors.As(err, &status) {
		return status.StatusCode != http.StatusRequestEntityTooLarge &&
			status.StatusCode != http.StatusRequestURITooLong
	}
	return !isConversion(err)
}

// isConversion reports whether the client failed to convert values to their columns.
func isConversion(err error) bool {
	var block *lib.BlockError
	if errors.As(err, &block) {
		return block.Op == "Append" || block.Op == "AppendRow"
	}
	var convert *column.ColumnConverterError
	return errors.As(err, &convert)
}

// isRejected reports whether opening a connection failed with an error that retrying does not fix, although an operator
// may fix it later.
func isRejected(err error) bool {
	code, ok := CodeOf(err)
	if !ok {
		var status *ch.HTTPError
		return errors.As(err, &status) &&
			(status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
	}
	switch code {
	case proto.ErrAuthenticationFailed, proto.ErrUnknownUser, proto.ErrWrongPassword, proto.ErrRequiredPassword,
		proto.ErrIPAddressNotAllowed, proto.ErrUnknownDatabase, proto.ErrDatabaseAccessDenied, proto.ErrAccessDenied:
		return true
	}
	return isPermanent(code)
}

// isPermanent reports whether code is about the data or the statement. These codes are omitted on purpose:
// UNKNOWN_TABLE, UNKNOWN_DATABASE, UNKNOWN_IDENTIFIER, NO_SUCH_COLUMN_IN_TABLE, NOT_FOUND_COLUMN_IN_BLOCK,
// THERE_IS_NO_COLUMN, UNKNOWN_FUNCTION and NOT_IMPLEMENTED (a schema or server that is not yet migrated or upgraded),
// MEMORY_LIMIT_EXCEEDED, TOO_MANY_ROWS, TOO_MANY_BYTES and QUERY_IS_TOO_LARGE (limits set by the operator),
// UNKNOWN_SETTING, READONLY and ACCESS_DENIED (the user's permissions), CANNOT_READ_ALL_DATA and CHECKSUM_DOESNT_MATCH
// (a broken connection or disk) and LOGICAL_ERROR (a bug in the server).
func isPermanent(code Code) bool {
	switch code {
	// The data cannot be parsed.
	case proto.ErrCannotParseText, proto.ErrCannotParseEscapeSequence, proto.ErrCannotParseQuotedString,
		proto.ErrCannotParseInputAssertionFailed, proto.ErrCannotParseDate, proto.ErrCannotParseDatetime,
		proto.ErrCannotParseNumber, proto.ErrCannotParseUUID, proto.ErrCannotParseBool, proto.ErrCannotParseIpv4,
		proto.ErrCannotParseIpv6, proto.ErrCannotParseDomainValueFromString, proto.ErrCannotReadArrayFromText,
		proto.ErrCannotReadMapFromText, proto.ErrIncorrectData, proto.ErrUnexpectedDataAfterParsedValue,
		proto.ErrCannotSkipUnknownField:
		return true
	// The data does not fit its column.
	case proto.ErrTypeMismatch, proto.ErrCannotConvertType, proto.ErrValueIsOutOfRangeOfDataType,
		proto.ErrDecimalOverflow, proto.ErrArgumentOutOfBound, proto.ErrTooLargeStringSize, proto.ErrTooLargeArraySize,
		proto.ErrSizeOfFixedStringDoesntMatch, proto.ErrCannotInsertNullInOrdinaryColumn, proto.ErrUnknownElementOfEnum,
		proto.ErrSizesOfNestedColumnsAreInconsistent, proto.ErrSizesOfColumnsDoesntMatch,
		proto.ErrSizesOfColumnsInTupleDoesntMatch, proto.ErrSizesOfArraysDontMatch,
		proto.ErrCannotInsertValueOfDifferentSizeIntoTuple, proto.ErrViolatedConstraint, proto.ErrInvalidPartitionValue,
		proto.ErrFunctionThrowIfValueIsNonZero:
		return true
	// The statement is not valid.
	case proto.ErrSyntaxError, proto.ErrEmptyQuery, proto.ErrIncorrectQuery, proto.ErrUnknownTypeOfQuery,
		proto.ErrUnknownFormat, proto.ErrTooDeepAst, proto.ErrTooBigAst, proto.ErrTooDeepSubqueries,
		proto.ErrTooDeepRecursion, proto.ErrUnknownQueryParameter, proto.ErrBadQueryParameter:
		return true
	// The statement misuses functions or columns.
	case proto.ErrBadArguments, proto.ErrNumberOfArgumentsDoesntMatch, proto.ErrTooManyArgumentsForFunction,
		proto.ErrTooFewArgumentsForFunction, proto.ErrIllegalTypeOfArgument, proto.ErrIllegalAggregation,
		proto.ErrNotAnAggregate, proto.ErrAmbiguousIdentifier, proto.ErrAmbiguousColumnName, proto.ErrNoCommonType,
		proto.ErrIllegalDivision, proto.ErrCannotCompileRegexp, proto.ErrMultipleExpressionsForAlias,
		proto.ErrCyclicAliases, proto.ErrDuplicateColumn, proto.ErrNumberOfColumnsDoesntMatch,
		proto.ErrIncorrectNumberOfColumns, proto.ErrUnionAllResultStructuresMismatch:
		return true
	}
	return false
}
