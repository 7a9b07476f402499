package readmodel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestYearsOfExperience_CountsEachMonthOnce(t *testing.T) {
	current, past := true, false
	job := func(start, end string, current *bool) record.Position {
		return record.Position{Title: "x", Start: record.PartialDate(start), End: record.PartialDate(end), Current: current}
	}
	years := func(n int64) *int64 { return &n }
	until, err := record.ParseVersion("2024-06-15")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		jobs []record.Position
		want *int64
	}{
		"no entry":                        {nil, nil},
		"no start date":                   {[]record.Position{job("", "2020", nil)}, nil},
		"twelve months":                   {[]record.Position{job("2019-01", "2019-12", nil)}, years(1)},
		"eleven months":                   {[]record.Position{job("2019-01", "2019-11", nil)}, years(0)},
		"years alone are their January":   {[]record.Position{job("2010", "2012", nil)}, years(2)},
		"ongoing lasts until the version": {[]record.Position{job("2014-07", "", &current)}, years(10)},
		"overlapping jobs": {[]record.Position{job("2010-01", "2013-12", nil), job("2012-01", "2014-12", nil),
			job("2012-05", "2012-06", nil)}, years(5)},
		"a gap":                       {[]record.Position{job("2000-01", "2000-12", nil), job("2010-01", "2010-12", nil)}, years(2)},
		"neither end nor ongoing":     {[]record.Position{job("2010-01", "", &past)}, years(0)},
		"an end before the start":     {[]record.Position{job("2015-01", "2014-01", nil)}, years(0)},
		"a start after the version":   {[]record.Position{job("2030-01", "", &current)}, years(0)},
		"days are within their month": {[]record.Position{job("2019-01-31", "2019-12-01", nil)}, years(1)},
	} {
		r := &Renderer{}
		require.Equal(t, c.want, yearsOfExperience(c.jobs, r.rankExperience(c.jobs), until), name)
	}
}
