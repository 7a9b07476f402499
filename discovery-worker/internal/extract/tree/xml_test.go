package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/extract/goldentest"
	"muster/discovery-worker/internal/extract/tree"
)

// Repeated elements become arrays, and every pointer has a range of the text.
func TestParseXML_ReadsElementsAsMembers(t *testing.T) {
	goldentest.Run(t, "testdata/xml.txtar", func(t *testing.T, input string) string {
		require.True(t, tree.IsXML(input))
		root, ranges := tree.ParseXML(input)
		for _, r := range ranges {
			require.True(t, 0 <= r[0] && r[0] <= r[1] && r[1] <= len(input), r)
		}
		var b strings.Builder
		write(&b, root, "")
		return b.String()
	})
}

func write(b *strings.Builder, n tree.Node, indent string) {
	if n.Text != "" {
		fmt.Fprintf(b, " %q", n.Text)
	}
	b.WriteByte('\n')
	for _, m := range n.Members {
		b.WriteString(indent + "- " + m.Key)
		write(b, m.Value, indent+"  ")
	}
}
