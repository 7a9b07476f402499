package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/extract/goldentest"
	"muster/discovery-worker/internal/extract/view"
)

// Every line has a location in the original.
func TestNew_ReadsEveryKindOfMarkup(t *testing.T) {
	goldentest.Run(t, "testdata/*.txtar", func(t *testing.T, input string) string {
		v := view.New("", input)
		var lines []string
		for _, line := range v.Lines() {
			span := line.Span()
			require.True(t, 0 <= span.Start && span.Start <= span.End && span.End <= len(input), line.Text())
			if line.Text() != "" {
				lines = append(lines, line.Text())
			}
		}
		return strings.Join(lines, "\n")
	})
}
