package extract

import (
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// Memory is linear in the object: names are not kept again for each value below them.
func TestTreeOfALongNameAndManyValues(t *testing.T) {
	e, err := New(Options{})
	require.NoError(t, err)
	for name, in := range map[string]jsontext.Value{
		"one name":   jsontext.Value(`{"` + strings.Repeat("k", 20<<10) + `":[` + strings.Repeat("0,", 20_000) + `"x"],"name":"Ada Lovelace"}`),
		"many names": jsontext.Value(strings.Repeat(`{"`+strings.Repeat("k", 95)+`":`, 10) + `[` + strings.Repeat("0,", 20_000) + `"x"]` + strings.Repeat(`}`, 10)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := e.Extract(t.Context(), Input{Object: in})
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(32), "MiB")
		})
	}
}

func TestPointers(t *testing.T) {
	tree, err := parseTree(jsontext.Value(`{"a/b~c":[{"":"deep"}],"` + strings.Repeat("k", maxPointer) + `":1,"` + strings.Repeat("l", maxPointer+1) + `":[[2]]}`))
	require.NoError(t, err)
	require.Len(t, tree.members, 2, "what stands below longer names is not read")
	require.Empty(t, tree.path())
	require.Equal(t, "/a~1b~0c/0/", tree.members[0].value.members[0].value.members[0].value.path())
	require.Equal(t, "/"+strings.Repeat("k", maxPointer), tree.members[1].value.path())
}
