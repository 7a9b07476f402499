package record

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Version orders the states of one identity: the newest wins (records.md, rule 1). It is in microseconds
// since 0001-01-01T00:00:00Z, truncated.
type Version int64

// unixOfYearOne is the Unix time of 0001-01-01T00:00:00Z in seconds.
const unixOfYearOne = -62135596800

var (
	errDateForm = errors.New("must be a year (2006), a month (2006-01), a day (2006-01-02) or a timestamp " +
		"(2006-01-02T15:04:05Z)")
	errDateRange = errors.New("must be within the years 0001 to 9999 in UTC")
)

// ParseVersion parses a year, a month, a day or a timestamp in any form of [NormalizeDate]. A partial date
// stands for its first instant. Years are 0001 to 9999.
func ParseVersion(s string) (Version, error) {
	v, err := parseStrict(s)
	if err == nil || errors.Is(err, errDateRange) {
		return v, err
	}
	text, err := NormalizeDate(s)
	if err != nil {
		return 0, err
	}
	return parseStrict(text)
}

// NormalizeDate returns a date in RFC 3339 form: years, months and days unchanged, timestamps with the digits
// of their fraction and their offset. It accepts what ISO 8601 allows and common programs write: no seconds,
// no colon in the offset, a comma before the fraction, no separators; a space in place of the T (RFC 3339,
// 5.6; PostgreSQL, pandas, BigQuery); an offset without minutes (PostgreSQL) or followed by a zone name (Go,
// Ruby). Without an offset, UTC is assumed.
func NormalizeDate(s string) (string, error) {
	if isNormal(s) {
		if _, err := parseStrict(s); err == nil || errors.Is(err, errDateRange) {
			return s, err
		}
	}
	m := looseDate.FindStringSubmatch(s)
	if len(s) > maxDate || m == nil || s[4] == '-' && s[7] != '-' || s[4] != '-' && s[6] == '-' {
		return "", errDateForm
	}
	day := strings.Join([]string{m[1], m[2], m[3]}, "-")
	if m[4] == "" {
		_, err := parseStrict(day)
		return day, err
	}
	number := func(digits string) int {
		n, _ := strconv.Atoi(digits) // At most two digits.
		return n
	}
	fraction := strings.Replace(m[7], ",", ".", 1)
	zone := "Z"
	east := (number(m[10])*60+number(m[11]))*60 + number(m[12])
	if east > 0 {
		zone = m[9] + m[10] + ":" + (m[11] + "00")[:2]
	}
	clock := m[4] + ":" + (m[5] + "00")[:2] + ":" + (m[6] + "00")[:2]
	if m[6] != "60" && m[12] == "" {
		text := day + "T" + clock + fraction + zone
		_, err := parseStrict(text)
		return text, err
	}
	// A leap second is the first second of the next minute, as in PostgreSQL. Offsets with seconds cannot be
	// written in RFC 3339.
	if m[6] == "60" {
		clock = clock[:len(clock)-2] + "59"
	}
	instant, err := time.Parse(time.RFC3339, day+"T"+clock+"Z")
	if err != nil || number(m[10]) > 23 || number(m[11]) > 59 || number(m[12]) > 59 {
		return "", errDateForm
	}
	if m[6] == "60" {
		instant = instant.Add(time.Second)
	}
	if m[9] == "+" {
		east = -east
	}
	text := instant.Add(time.Duration(east)*time.Second).Format("2006-01-02T15:04:05") + fraction + "Z"
	_, err = parseStrict(text)
	return text, err
}

// maxDate is the maximum length of a date in bytes.
const maxDate = 48

// looseDate matches the input of NormalizeDate: year, month, day, hour, minute, second, fraction, zone, its
// sign, hours, minutes and seconds.
var looseDate = regexp.MustCompile(
	`^([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[Tt ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})([.,][0-9]+)?)?)?` +
		`( ?(?:[Zz]|UTC|GMT|([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?(?: [A-Z]{1,5})?))?)?$`)

// isNormal reports whether s has the RFC 3339 form of a date, so that it needs no normalization. It may still
// be invalid.
func isNormal(s string) bool {
	if len(s) <= len("2006-01-02") {
		return len(s) != len("20060102")
	}
	const second = len("2006-01-02T15:04:05")
	if len(s) <= second || s[10] != 'T' || s[13] != ':' || s[16] != ':' || strings.IndexByte(s, ',') >= 0 ||
		s[17:19] == "60" {
		return false
	}
	if s[len(s)-1] == 'Z' {
		return true
	}
	offset := s[len(s)-len("+07:00"):]
	return len(s) >= second+len(offset) && (offset[0] == '+' || offset[0] == '-') && offset[3] == ':' &&
		s[second] != ' '
}

// parseStrict parses a year, a month, a day or an RFC 3339 timestamp. A timestamp without an offset is in
// UTC.
func parseStrict(s string) (Version, error) {
	// A partial date is completed to a timestamp for the standard library. What that accepts beyond RFC 3339
	// is rejected here.
	const fill = "0000-01-01T00:00:00"
	var buf [64]byte
	if len(s) > maxDate || strings.IndexByte(s, ',') >= 0 { // UnmarshalText accepts ISO 8601's decimal comma.
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

// isStrict reports whether a timestamp accepted by UnmarshalText has an hour of two digits and an offset
// below 24:00 with less than 60 minutes.
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

// isNaive reports whether the timestamp s has no offset.
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

// String returns the instant as an RFC 3339 timestamp in UTC, with the required fraction digits. ParseVersion
// reads it back.
func (v Version) String() string { return v.Time().Format(time.RFC3339Nano) }

// Observed returns the time when the state was observed. The version of evidence encodes seconds since 1970
// as microseconds, so that every crawled record is newer (mapping evidence_version); Observed decodes it.
// Other versions are returned unchanged.
func (v Version) Observed() Version {
	seconds := int64(v) + unixOfYearOne*1_000_000
	if seconds <= 0 || seconds >= maxEvidence {
		return v
	}
	return VersionOf(time.Unix(seconds, 0))
}

// maxEvidence is the end of evidence versions, in microseconds after 1970.
const maxEvidence = 3600 * 1_000_000

// Observed is [Version.Observed] for the text of a version.
func Observed(version string) string {
	v, err := ParseVersion(version)
	if observed := v.Observed(); err == nil && observed != v {
		return observed.String()
	}
	return version
}

// VersionOf returns the version of an instant.
func VersionOf(t time.Time) Version {
	return Version((t.Unix()-unixOfYearOne)*1_000_000 + int64(t.Nanosecond()/1000))
}

// UnmarshalText accepts a date in RFC 3339 form only; Decode rewrites others.
func (d *PartialDate) UnmarshalText(text []byte) error {
	if *d = PartialDate(text); !isNormal(string(*d)) {
		return errDateForm
	}
	return nil
}

// Full returns the date with a missing month and day filled with "-01" (rulings.md, Names: partial dates); of
// a timestamp, its day.
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

// Timestamp returns the date as an RFC 3339 timestamp. Timestamps with an offset are unchanged; partial
// dates, and timestamps without an offset, become their first instant in UTC.
func (d PartialDate) Timestamp() string {
	if len(d) > len("2006-01-02") && !isNaive(string(d)) {
		return string(d)
	}
	if v, ok := d.Version(); ok {
		return v.String()
	}
	return string(d)
}

// Version returns the first instant of the date, and false if it is empty or invalid.
func (d PartialDate) Version() (Version, bool) {
	v, err := ParseVersion(string(d))
	return v, err == nil
}
