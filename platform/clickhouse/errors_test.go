package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
)

func exception(code proto.Error) error {
	return fmt.Errorf("insert: %w", &ch.Exception{Code: int32(code), Message: "m"})
}

func TestIsTransient_DistinguishesErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                {nil, false},
		"EOF":                {fmt.Errorf("read: %w", io.EOF), true},
		"unexpected EOF":     {io.ErrUnexpectedEOF, true},
		"connection refused": {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"reset":              {syscall.ECONNRESET, true},
		"broken pipe":        {syscall.EPIPE, true},
		"DNS":                {&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		"canceled":           {context.Canceled, true},
		"deadline":           {context.DeadlineExceeded, true},
		"pool exhausted":     {ch.ErrAcquireConnTimeout, true},
		"unknown error":      {errors.New("?"), true},
		"unknown code":       {exception(54321), true},
		"memory":             {exception(proto.ErrMemoryLimitExceeded), true},
		"too many parts":     {exception(proto.ErrTooManyParts), true},
		"too many queries":   {exception(proto.ErrTooManySimultaneousQueries), true},
		"timeout":            {exception(proto.ErrTimeoutExceeded), true},
		"read-only table":    {exception(proto.ErrTableIsReadOnly), true},
		"disk full":          {exception(proto.ErrNotEnoughSpace), true},
		"keeper":             {exception(proto.ErrKeeperException), true},
		"quorum":             {exception(proto.ErrUnknownStatusOfInsert), true},
		"not migrated":       {exception(proto.ErrUnknownTable), true},
		"new column":         {exception(proto.ErrNoSuchColumnInTable), true},
		"password rotated":   {exception(proto.ErrAuthenticationFailed), true},
		"server bug":         {exception(proto.ErrLogicalError), true},
		"syntax":             {exception(proto.ErrSyntaxError), false},
		"bad number":         {exception(proto.ErrCannotParseNumber), false},
		"bad date":           {exception(proto.ErrCannotParseDatetime), false},
		"out of range":       {exception(proto.ErrValueIsOutOfRangeOfDataType), false},
		"null":               {exception(proto.ErrCannotInsertNullInOrdinaryColumn), false},
		"constraint":         {exception(proto.ErrViolatedConstraint), false},
		"500 with bad data":  {&ch.HTTPError{StatusCode: 500, Err: exception(proto.ErrCannotParseText)}, false},
		"404 not migrated":   {&ch.HTTPError{StatusCode: 404, Err: exception(proto.ErrUnknownTable)}, true},
		"429 from a proxy":   {&ch.HTTPError{StatusCode: http.StatusTooManyRequests, Err: errors.New("slow")}, true},
		"502 from a proxy":   {&ch.HTTPError{StatusCode: http.StatusBadGateway, Err: errors.New("down")}, true},
		"503 from a proxy":   {&ch.HTTPError{StatusCode: http.StatusServiceUnavailable, Err: errors.New("down")}, true},
		"400 from a proxy":   {&ch.HTTPError{StatusCode: http.StatusBadRequest, Err: errors.New("bad")}, true},
		"413 from a proxy": {
			&ch.HTTPError{StatusCode: http.StatusRequestEntityTooLarge, Err: errors.New("big")}, false,
		},
		"canceled and wrong": {errors.Join(context.Canceled, exception(proto.ErrSyntaxError)), true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, clickhouse.IsTransient(tc.err)) })
	}
}

func TestCodeOf_ReturnsOnlyServerCodes(t *testing.T) {
	code, ok := clickhouse.CodeOf(exception(proto.ErrTooManyParts))
	require.True(t, ok)
	require.Equal(t, "TOO_MANY_PARTS", code.String())
	_, ok = clickhouse.CodeOf(io.EOF)
	require.False(t, ok)
}

func TestIsTransient_ClassifiesErrorsOfTheEngine(t *testing.T) {
	conn := open(t)
	exec(t, conn, `CREATE TABLE t (n UInt8, d Date, CONSTRAINT small CHECK n < 100) ENGINE = MergeTree ORDER BY n`)
	for name, tc := range map[string]struct {
		sql  string
		code proto.Error
		want bool
	}{
		"syntax":        {"SELEKT 1", proto.ErrSyntaxError, false},
		"bad data":      {"INSERT INTO t FORMAT TSV\nx\t2020-01-01\n", proto.ErrCannotParseInputAssertionFailed, false},
		"constraint":    {"INSERT INTO t VALUES (200, '2020-01-01')", proto.ErrViolatedConstraint, false},
		"missing table": {"SELECT * FROM missing", proto.ErrUnknownTable, true},
		"throwIf":       {"SELECT throwIf(1)", proto.ErrFunctionThrowIfValueIsNonZero, false},
		"memory": {
			"SELECT groupArray(number) FROM numbers(10000000) SETTINGS max_memory_usage = 1000000",
			proto.ErrMemoryLimitExceeded, true,
		},
		"timeout": {
			"SELECT sum(sleepEachRow(0.1)) FROM numbers(100) " +
				"SETTINGS max_execution_time = 1, max_block_size = 1, max_threads = 1",
			proto.ErrTimeoutExceeded, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := conn.Exec(t.Context(), tc.sql)
			code, ok := clickhouse.CodeOf(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tc.code, code, "%v", err)
			require.Equal(t, tc.want, clickhouse.IsTransient(err), "%v", err)
		})
	}
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO t")
	require.NoError(t, err)
	err = batch.Append("text", "not a date")
	require.Error(t, err)
	require.False(t, clickhouse.IsTransient(err), "%v", err)
	require.NoError(t, batch.Close())
}
