package record

import (
	"errors"
	"strings"
	"time"
)

// Version orders the states of one identity: the newest wins (records.md,
// rule 1). It counts microseconds since 0001-01-01T00:00:00Z. Finer parts of a
// second are cut off.
type Version int64

// unixOfYearOne is the Unix time of 0001-01-01T00:00:00Z in seconds.
const unixOfYearOne = -62135596800

var (
	errDateForm  = errors.New("must be a year (2006), a month (2006-01), a day (2006-01-02) or an RFC 3339 timestamp")
	errDateRange = errors.New("must lie within the years 0001 to 9999 in UTC")
)

// ParseVersion reads a year, a month, a day or an RFC 3339 timestamp, which may
// lack its offset and then means UTC. A partial date means its first instant.
// The years are 0001 to 9999.
func ParseVersion(s string) (Version, error) {
	// A partial date is filled up to a timestamp and the standard library reads
	// that; what it lets through beyond RFC 3339 is refused here.
	const fill = "0000-01-01T00:00:00"
	var buf [64]byte
	if len(s) > 48 || strings.IndexByte(s, ',') >= 0 { // ISO 8601's other decimal sign, which UnmarshalText lets through
		return 0, errDateForm
	}
	text := append(buf[:0], s...)
	switch len(s) {
	case len("2006"), len("2006-01"), len("2006-01-02"):
		text = append(text, fill[len(s):]...)
		text = append(text, 'Z')
	default:
		if len(s) < len(fill) {
			return 0, errDateForm
		}
		if isNaive(s) {
			text = append(text, 'Z')
		}
	}
	var t time.Time
	if err := t.UnmarshalText(text); err != nil || !isStrict(text) {
		return 0, errDateForm
	}
	t = t.UTC()
	if year := t.Year(); year < 1 || year > 9999 {
		return 0, errDateRange
	}
	return Version((t.Unix()-unixOfYearOne)*1_000_000 + int64(t.Nanosecond()/1000)), nil
}

// isStrict reports whether a timestamp that UnmarshalText read has an hour of
// two digits and an offset below 24:00 with less than 60 minutes.
func isStrict(text []byte) bool {
	if text[len("2006-01-02T15")] != ':' {
		return false
	}
	if text[len(text)-1] == 'Z' {
		return true
	}
	offset := text[len(text)-len("07:00"):]
	return string(offset[:2]) < "24" && offset[3] < '6'
}

// isNaive reports whether the timestamp s has no offset: after the seconds there
// are only digits of a fraction.
func isNaive(s string) bool {
	for i := len("2006-01-02T15:04:05"); i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// Time returns the instant in UTC.
func (v Version) Time() time.Time {
	seconds, micros := int64(v)/1_000_000, int64(v)%1_000_000
	return time.Unix(seconds+unixOfYearOne, micros*1000).UTC()
}

// String returns the instant as an RFC 3339 timestamp in UTC, with as much of a
// fraction as it has. ParseVersion reads it back.
func (v Version) String() string { return v.Time().Format(time.RFC3339Nano) }

// VersionOf returns the version of an instant.
func VersionOf(t time.Time) Version {
	return Version((t.Unix()-unixOfYearOne)*1_000_000 + int64(t.Nanosecond()/1000))
}

// Full returns the date with its missing month and day filled with "-01"
// (rulings.md, Names: partial dates), and the day of a timestamp.
func (d PartialDate) Full() string {
	switch {
	case len(d) == 4:
		return string(d) + "-01-01"
	case len(d) == 7:
		return string(d) + "-01"
	case len(d) > 10:
		return string(d[:10])
	}
	return string(d)
}

// Timestamp returns the date as an RFC 3339 timestamp. A timestamp with an offset stays as it
// is; a partial date, and a timestamp without an offset, becomes its first instant in UTC.
func (d PartialDate) Timestamp() string {
	if len(d) > len("2006-01-02") && !isNaive(string(d)) {
		return string(d)
	}
	if v, ok := d.Version(); ok {
		return v.String()
	}
	return string(d)
}

// Version returns the first instant of the date, and false when it is empty or
// no date.
func (d PartialDate) Version() (Version, bool) {
	v, err := ParseVersion(string(d))
	return v, err == nil
}
