package phrase_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/goldentest"
	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

func newReader(t *testing.T) *phrase.Reader {
	w, err := lexicon.New()
	require.NoError(t, err)
	return phrase.New(w, dates.New())
}

func whole(line string) view.Part {
	v := view.New("", line)
	return view.Part{View: v, End: len(v.Text)}.Trim("")
}

func TestReader_ReadsNames(t *testing.T) {
	r := newReader(t)
	for file, read := range map[string]func(string) (phrase.PersonName, bool){
		"names":   func(s string) (phrase.PersonName, bool) { return r.Name(s, false) },
		"labeled": func(s string) (phrase.PersonName, bool) { return r.Name(s, true) },
		"parts":   func(s string) (phrase.PersonName, bool) { return r.NameParts(s, true) },
	} {
		goldentest.Run(t, "testdata/"+file+".txtar", func(_ *testing.T, input string) string {
			return goldentest.Lines(input, func(line string) string {
				if n, ok := read(whole(line).Text()); ok {
					return n.Full + " (" + n.First + ", " + n.Last + ")"
				}
				return "none"
			})
		})
	}
}

func TestReader_ReadsPlaces(t *testing.T) {
	r := newReader(t)
	for file, labeled := range map[string]bool{"places": false, "labeled-places": true} {
		goldentest.Run(t, "testdata/"+file+".txtar", func(_ *testing.T, input string) string {
			return goldentest.Lines(input, func(line string) string {
				place, ok := r.Place(whole(line), labeled)
				if !ok {
					return "none"
				}
				return strings.Join([]string{place.City.TextOrEmpty(), place.State.TextOrEmpty(),
					place.Country.TextOrEmpty()}, " | ")
			})
		})
	}
}

func TestReader_SplitsTitleAndEmployer(t *testing.T) {
	r := newReader(t)
	goldentest.Run(t, "testdata/titles.txtar", func(_ *testing.T, input string) string {
		return goldentest.Lines(input, func(line string) string {
			title, company := r.SplitTitle(whole(line))
			return title.TextOrEmpty() + " | " + company.TextOrEmpty()
		})
	})
}
