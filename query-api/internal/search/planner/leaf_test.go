package planner_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

func TestLeafKey_DistinguishesValues(t *testing.T) {
	var field algebra.Field
	for _, f := range readmodel.SearchFields() {
		if f.Path == "profile.headline" {
			field = algebra.Field{SearchField: f}
		}
	}
	many := make([]string, 1001) // in an external table
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	set := func(values ...string) string {
		return planner.Leaf{Node: algebra.Set{Field: field, Values: values}}.Key()
	}
	for _, list := range [][]string{nil, many} {
		joined := set(append(list[:len(list):len(list)], "x\x00y")...)
		require.NotEqual(t, joined, set(append(list[:len(list):len(list)], "x", "y")...))
		require.Equal(t, joined, set(append(list[:len(list):len(list)], "x\x00y")...))
	}
}
