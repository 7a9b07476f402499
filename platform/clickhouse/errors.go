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

// Code is a ClickHouse exception code; its String is ClickHouse's name for it, such as "TOO_MANY_PARTS". The constants
// are those of ch-go's proto package.
type Code = proto.Error

// CodeOf returns the exception code in err. ok is false when err does not come from the server's engine: network
// errors, answers of proxies, errors of the client.
func CodeOf(err error) (code Code, ok bool) {
	var exception *ch.Exception
	if !errors.As(err, &exception) {
		return 0, false
	}
	return Code(exception.Code), true
}

// IsTransient says whether the same work may succeed later. It decides between blocking (retry) and dead-lettering,
// and the two mistakes are not alike: a wrong "permanent" throws healthy records away, a wrong "transient" stops the
// consumer, loudly. So an error is permanent only if it is clearly about the data or the statement: the listed
// exception codes, the client's refusal to convert a value, and HTTP 413 and 414 (a proxy's; a smaller batch passes). Everything else is transient: network
// errors, EOF, timeouts, HTTP 429 and 5xx, overload, memory, too many parts, Keeper; also a cancelled context, refused
// credentials and missing tables or columns, which an operator or a migration puts right, and every code not known
// here. nil is not transient.
func IsTransient(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	if code, ok := CodeOf(err); ok {
		_, damaged := DamageOf(err) // the operator can repair it; the work is not at fault
		return damaged || !permanent(code)
	}
	var status *ch.HTTPError
	if errors.As(err, &status) {
		return status.StatusCode != http.StatusRequestEntityTooLarge && status.StatusCode != http.StatusRequestURITooLong
	}
	return !isConversion(err)
}

// isConversion: the client could not make a column of the values it was given.
func isConversion(err error) bool {
	var block *lib.BlockError
	if errors.As(err, &block) {
		return block.Op == "Append" || block.Op == "AppendRow"
	}
	var convert *column.ColumnConverterError
	return errors.As(err, &convert)
}

// refused: asking again does not help at the opening of a connection, although an operator may change it later.
func refused(err error) bool {
	code, ok := CodeOf(err)
	if !ok {
		var status *ch.HTTPError
		return errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden)
	}
	switch code {
	case proto.ErrAuthenticationFailed, proto.ErrUnknownUser, proto.ErrWrongPassword, proto.ErrRequiredPassword,
		proto.ErrIPAddressNotAllowed, proto.ErrUnknownDatabase, proto.ErrDatabaseAccessDenied, proto.ErrAccessDenied:
		return true
	}
	return permanent(code)
}

// permanent lists the codes that speak about the data or the statement. Left out on purpose, although they look like
// it: UNKNOWN_TABLE, UNKNOWN_DATABASE, UNKNOWN_IDENTIFIER, NO_SUCH_COLUMN_IN_TABLE, NOT_FOUND_COLUMN_IN_BLOCK,
// THERE_IS_NO_COLUMN and UNKNOWN_FUNCTION and NOT_IMPLEMENTED (a schema or server that is not yet migrated or upgraded),
// MEMORY_LIMIT_EXCEEDED, TOO_MANY_ROWS, TOO_MANY_BYTES and QUERY_IS_TOO_LARGE (limits that are the operator's),
// UNKNOWN_SETTING, READONLY and ACCESS_DENIED (a user's rights), CANNOT_READ_ALL_DATA and CHECKSUM_DOESNT_MATCH (a
// broken connection or disk), LOGICAL_ERROR (a server's bug).
func permanent(code Code) bool {
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
	// The statement is not one.
	case proto.ErrSyntaxError, proto.ErrEmptyQuery, proto.ErrIncorrectQuery, proto.ErrUnknownTypeOfQuery,
		proto.ErrUnknownFormat, proto.ErrTooDeepAst, proto.ErrTooBigAst, proto.ErrTooDeepSubqueries,
		proto.ErrTooDeepRecursion, proto.ErrUnknownQueryParameter, proto.ErrBadQueryParameter:
		return true
	// The statement uses what exists wrongly.
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
