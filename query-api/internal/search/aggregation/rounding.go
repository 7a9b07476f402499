package aggregation

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rounding divides time into intervals: of a length in milliseconds or, if that is 0, of a number of months.
type Rounding struct {
	millis, offset int64 // an interval begins offset after a multiple of millis
	months         int
	// parameter is the parameter of the interval, calendar_interval or fixed_interval; name is its value.
	parameter, name string
}

const day = int64(24 * time.Hour / time.Millisecond)

// CalendarRounding returns the rounding of a calendar_interval.
func CalendarRounding(name string) (Rounding, bool) {
	r := Rounding{parameter: "calendar_interval", name: name}
	switch name {
	case "second", "1s":
		r.millis = 1000
	case "minute", "1m":
		r.millis = 60_000
	case "hour", "1h":
		r.millis = 3_600_000
	case "day", "1d":
		r.millis = day
	case "week", "1w": // from Monday; the epoch began on a Thursday
		r.millis, r.offset = 7*day, -3*day
	case "month", "1M":
		r.months = 1
	case "quarter", "1q":
		r.months = 3
	case "year", "1y":
		r.months = 12
	default:
		return Rounding{}, false
	}
	return r, true
}

// FixedRounding returns the rounding of a fixed_interval, such as 12h.
func FixedRounding(name string) (Rounding, bool) {
	digits := strings.TrimRight(name, "dhms")
	unit, ok := map[string]int64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": day}[name[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63) // without a sign
	const most = 1 << 53
	if !ok || err != nil || n < 1 || int64(n) > most/unit {
		return Rounding{}, false
	}
	return Rounding{parameter: "fixed_interval", name: name, millis: int64(n) * unit}, true
}

// Parameter returns the name and the value of the parameter of the interval.
func (r Rounding) Parameter() (name, value string) { return r.parameter, r.name }

// Round returns the beginning of the interval of an instant, in milliseconds.
func (r Rounding) Round(ms int64) int64 {
	if r.months == 0 {
		past := (ms - r.offset) % r.millis
		if past < 0 {
			past += r.millis
		}
		return ms - past
	}
	t := time.UnixMilli(ms).UTC()
	month := (int(t.Month()) - 1) / r.months * r.months
	return time.Date(t.Year(), time.Month(month+1), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}

// Next returns the beginning of the interval after the one that begins at an instant.
func (r Rounding) Next(ms int64) int64 {
	if r.months == 0 {
		return ms + r.millis
	}
	return time.UnixMilli(ms).UTC().AddDate(0, r.months, 0).UnixMilli()
}

// ISODate returns an instant as Elasticsearch writes it by default.
func ISODate(ms int64) string {
	t := time.UnixMilli(ms).UTC()
	return Year(t.Year(), 4) + t.Format("-01-02T15:04:05.000Z")
}

// Year returns a year with at least the given number of digits. As in Java, one with more has a sign.
func Year(year, digits int) string {
	sign, n := "", year
	if year < 0 {
		sign, n = "-", -year
	}
	text := fmt.Sprintf("%0*d", digits, n)
	if sign == "" && len(text) > digits && digits > 1 {
		sign = "+"
	}
	return sign + text
}
