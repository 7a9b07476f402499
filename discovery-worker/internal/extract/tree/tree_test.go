package tree

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestNode_PathIsJSONPointer(t *testing.T) {
	tree, err := Parse(jsontext.Value(`{"a/b~c":[{"":"deep"}],"` + strings.Repeat("k", maxPointer) + `":1,"` +
		strings.Repeat("l", maxPointer+1) + `":[[2]]}`))
	require.NoError(t, err)
	require.Len(t, tree.Members, 2, "values below longer names are skipped")
	require.Empty(t, tree.Path())
	require.Equal(t, "/a~1b~0c/0/", tree.Members[0].Value.Members[0].Value.Members[0].Value.Path())
	require.Equal(t, "/"+strings.Repeat("k", maxPointer), tree.Members[1].Value.Path())
}
