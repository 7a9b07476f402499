package extract

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestPointers(t *testing.T) {
	tree, err := parseTree(jsontext.Value(`{"a/b~c":[{"":"deep"}],"` + strings.Repeat("k", maxPointer) + `":1,"` + strings.Repeat("l", maxPointer+1) + `":[[2]]}`))
	require.NoError(t, err)
	require.Len(t, tree.members, 2, "what stands below longer names is not read")
	require.Empty(t, tree.path())
	require.Equal(t, "/a~1b~0c/0/", tree.members[0].value.members[0].value.members[0].value.path())
	require.Equal(t, "/"+strings.Repeat("k", maxPointer), tree.members[1].value.path())
}
