package clause_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/clause"
)

func TestPage_IsCurrent(t *testing.T) {
	const path = "../../../../deploy/docs/search-language.md"
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(clause.Page()), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), clause.Page(), "run go test ./internal/search/clause -update")
}

func TestPage_HasTheLimitsOfAllParameters(t *testing.T) {
	repeat := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	sorts := func(n int) error {
		_, err := clause.Sorts([]byte(`[`+repeat(n, `"profile.connections"`)+`]`), "sort", clause.Options{})
		return err
	}
	source := func(n int) error {
		_, err := clause.Source([]byte(`[`+repeat(n, `"profile"`)+`]`), "_source")
		return err
	}
	fields := func(n int) error {
		_, err := clause.Lower([]byte(`{"multi_match":{"query":"a","fields":[`+repeat(n, `"profile.headline"`)+`]}}`),
			"query", clause.Options{})
		return err
	}
	sortObject := func(n int) error {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf(`"unknown%d":{"unmapped_type":"long"}`, i)
		}
		_, err := clause.Sorts([]byte(`{`+strings.Join(members, ",")+`}`), "sort", clause.Options{})
		return err
	}
	named := func(n int) error {
		_, err := clause.Lower([]byte(`{"match_all":{"_name":"`+strings.Repeat("n", n)+`"}}`), "query", clause.Options{})
		return err
	}
	inner := func(n int) error {
		_, err := clause.Lower(fmt.Appendf(nil, `{"nested":{"path":"experience","query":{"match_all":{}},`+
			`"inner_hits":{"from":1,"size":%d}}}`, n-1), "query", clause.Options{})
		return err
	}
	order := func(n int) error {
		_, err := aggregationsOf(`{"a":{"terms":{"field":"profile.location.country.keyword","order":[` +
			repeat(n, `{"_key":"asc"}`) + `]}}}`)
		return err
	}
	for row, limited := range map[string]struct {
		limit int
		call  func(int) error
	}{
		"sort keys": {16, sorts}, "names in `_source`, or in its `includes` or `excludes`": {256, source},
		"names of fields, and patterns of names, of a clause": {1024, fields},
		"bytes of a `_name`": {256, named}, "`from` + `size` of `inner_hits`": {100, inner}, "keys of `order`": {8, order},
	} {
		require.Contains(t, clause.Page(), fmt.Sprintf("| %s | %d |", row, limited.limit))
		require.NoError(t, limited.call(limited.limit), row)
		require.Error(t, limited.call(limited.limit+1), row)
	}
	require.NoError(t, sortObject(16))
	require.ErrorContains(t, sortObject(17), "more than 16 keys")
}

func TestClauses_UnsupportedParametersAreRejected(t *testing.T) {
	for _, c := range clause.Clauses() {
		for _, name := range c.Without {
			require.NotContains(t, c.Parameters, clause.Parameter{Name: name}, c.Name)
		}
	}
}
