package dates_test

import (
	"testing"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/goldentest"
)

func TestReader_FindsDatesAndPeriods(t *testing.T) {
	r := dates.New()
	goldentest.Run(t, "testdata/dates.txtar", func(_ *testing.T, input string) string {
		return goldentest.Lines(input, func(line string) string {
			if p, ok := r.Find(line); ok {
				if p.Current {
					return p.Start + " to now"
				}
				return p.Start + " to " + p.End
			}
			if date, _, ok := r.FindOne(line); ok {
				return date
			}
			return "none"
		})
	})
}
