package v1

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/account"
	"muster/query-api/internal/readstore"
)

func TestProblemOf_UnreadAccountsAreRetryable(t *testing.T) {
	p := problemOf(&operation{unavailable: http.StatusServiceUnavailable}, account.ErrLoading)
	require.Equal(t, http.StatusServiceUnavailable, p.status)
	require.Equal(t, retryAfter, p.retryAfter)
}

func TestProblemOf_DamagedDataIsNotRetryable(t *testing.T) {
	op := &operation{unavailable: http.StatusServiceUnavailable}
	unavailable := fmt.Errorf("%w: read: %w", readstore.ErrUnavailable,
		&clickhouse.Exception{Code: 241, Message: "memory"})
	p := problemOf(op, unavailable)
	require.Equal(t, http.StatusServiceUnavailable, p.status)
	require.Equal(t, retryAfter, p.retryAfter)

	damaged := fmt.Errorf("%w: read: %w", readstore.ErrUnavailable, &clickhouse.Exception{
		Code: 40, Message: "Checksum doesn't match: (while reading from part /d/store/a/b/all_1_1_0/ in table " +
			"muster.people (b) located on disk default)",
	})
	p = problemOf(op, damaged)
	require.Equal(t, http.StatusInternalServerError, p.status)
	require.Zero(t, p.retryAfter)
	require.NotContains(t, p.detail, "call again")
	require.Contains(t, p.detail, "operator")
	require.NotContains(t, p.detail, "store", "no inner names")
	require.ErrorIs(t, p.cause, readstore.ErrUnavailable)
}
