package lexicon_test

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/extract/goldentest"
	"muster/discovery-worker/internal/extract/lexicon"
)

func newWords(t *testing.T) *lexicon.Words {
	w, err := lexicon.New()
	require.NoError(t, err)
	return w
}

// Names, titles and companies have no heading kind, in any language.
func TestWords_DistinguishesHeadingsFromNames(t *testing.T) {
	w := newWords(t)
	goldentest.Run(t, "testdata/headings.txtar", func(_ *testing.T, input string) string {
		return goldentest.Lines(input, func(line string) string { return cmp.Or(w.Heading(line), "none") })
	})
}

func TestWords_KnowsLabels(t *testing.T) {
	w := newWords(t)
	goldentest.Run(t, "testdata/labels.txtar", func(_ *testing.T, input string) string {
		return goldentest.Lines(input, func(line string) string { return cmp.Or(w.Kind(line), "none") })
	})
}
