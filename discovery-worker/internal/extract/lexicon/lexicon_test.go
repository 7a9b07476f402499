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

// Headings of every language and form have their kind; names, titles and companies have none.
func TestWords_DistinguishesHeadingsFromNames(t *testing.T) {
	w := newWords(t)
	goldentest.Run(t, "testdata/headings.txtar", func(_ *testing.T, input string) string {
		return goldentest.Lines(input, func(line string) string { return cmp.Or(w.Heading(line), "none") })
	})
}

// Labels of forms have their kind.
func TestWords_KnowsLabels(t *testing.T) {
	w := newWords(t)
	goldentest.Run(t, "testdata/labels.txtar", func(_ *testing.T, input string) string {
		return goldentest.Lines(input, func(line string) string { return cmp.Or(w.Kind(line), "none") })
	})
}
