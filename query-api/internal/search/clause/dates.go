package clause

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // Containers may have no zone files.
)

// dateReader parses dates as date fields of Elasticsearch: a date in one of the formats, or an anchor with date math.
type dateReader struct {
	now     time.Time
	zone    *time.Location // nil: UTC
	formats []dateFormat   // nil: strict_date_optional_time||epoch_millis
	zones   zones          // the named zones of the query's dates
}

// dateFormat parses a date. ok is false if the text has another form. Missing parts are zero; the precision tells
// which.
type dateFormat func(text string) (d localDate, ok bool)

// localDate is a date without zone, or an instant.
type localDate struct {
	year, month, day, hour, minute, second, nano int
	precision                                    precision
	zone                                         *time.Location // as written; nil: none
	zoneName                                     string         // of a zone that is written by its name
	instant                                      *int64         // milliseconds, of epoch formats
}

type precision int

const (
	toYear precision = iota
	toMonth
	toDay
	toHour
	toMinute
	toSecond
	toNano
)

// maxMillis limits instants to the range in which dates are compared.
const maxMillis = 1 << 53

func (d *dateReader) inZone(at value, name string) error {
	if name == "" {
		return nil
	}
	zone, ok := zoneOf(name)
	if !ok {
		return at.errorf(
			"time_zone %s is neither a UTC offset such as +01:00 nor a zone such as Europe/Berlin", quote(name),
		)
	}
	d.zone = zone
	return nil
}

// zoneOf returns the zone with a name or a fixed offset.
func zoneOf(name string) (*time.Location, bool) {
	if zone, ok := fixedZone(name); ok {
		return zone, true
	}
	if slices.Contains([]string{"Local", "EST", "MST", "HST", "ROC"}, name) {
		return nil, false // unknown in Java
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// fixedZone returns a zone with a fixed offset.
func fixedZone(name string) (*time.Location, bool) {
	hours := name // +2, perhaps after GMT
	for _, prefix := range []string{"UTC", "GMT", "UT"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok &&
			(strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-")) {
			hours = rest
			break
		}
	}
	if len(hours) == len("+2") {
		hours = hours[:1] + "0" + hours[1:]
	}
	if slices.Contains([]string{"UTC", "GMT", "UT"}, name) {
		return time.UTC, true
	}
	zone, rest, ok := offset(hours)
	return zone, ok && rest == ""
}

// offset parses Z, +hh, +hhmm or +hh:mm at the start of a text.
func offset(text string) (zone *time.Location, rest string, ok bool) {
	if text == "" {
		return nil, "", false
	}
	if text[0] == 'Z' {
		return time.UTC, text[1:], true
	}
	if text[0] != '+' && text[0] != '-' {
		return nil, "", false
	}
	sign := 1
	if text[0] == '-' {
		sign = -1
	}
	hours, rest, ok := digits(text[1:], 2, 2)
	if !ok {
		return nil, "", false
	}
	minutes := 0
	next := strings.TrimPrefix(rest, ":")
	if m, after, found := digits(next, 2, 2); found {
		minutes, rest = m, after
	} else if next != rest {
		return nil, "", false
	}
	if hours*60+minutes > 18*60 || minutes > 59 {
		return nil, "", false
	}
	return time.FixedZone(text[:len(text)-len(rest)], sign*(hours*3600+minutes*60)), rest, true
}

// digits parses a number of least to most digits.
func digits(text string, least, most int) (n int, rest string, ok bool) {
	i := 0
	for i < len(text) && i < most && text[i] >= '0' && text[i] <= '9' {
		n = n*10 + int(text[i]-'0')
		i++
	}
	return n, text[i:], i >= least
}

// read returns the instant of a text in milliseconds. up completes missing parts, and rounds, to the last instant
// instead of the first.
func (d dateReader) read(at value, text string, up bool) (int64, error) {
	anchor, math, isMath := strings.Cut(text, "||")
	var t time.Time
	switch {
	case strings.HasPrefix(text, "now"):
		t, math, isMath = d.now.Truncate(time.Millisecond), text[len("now"):], true
	default:
		ms, ok := d.date(anchor, up && !isMath)
		if !ok {
			return 0, at.errorf("cannot parse %s as a date: write 2006-01-02, 2006-01-02T15:04:05Z, milliseconds "+
				"since 1970, now-1d/d or 2006-01-02||+1M/d, or name the format", quote(text))
		}
		t = time.UnixMilli(ms)
	}
	if isMath {
		var err error
		if t, err = d.math(at, t, math, up); err != nil {
			return 0, err
		}
	}
	ms := t.UnixMilli()
	if ms > maxMillis || ms < -maxMillis {
		return 0, at.errorf("the date %s is too far away", quote(text))
	}
	return ms, nil
}

// dateText returns the text of a date given as a JSON value. A number with a fraction has the form of Java, with an
// exponent from ten million on, which no format accepts.
func dateText(at value, text string) string {
	if at.kind != '0' || !strings.ContainsAny(text, ".eE") {
		return text
	}
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return text
	case math.Abs(x) < 1e7:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'E', -1, 64)
}

// date parses a date without date math.
func (d dateReader) date(text string, up bool) (int64, bool) {
	formats := d.formats
	if formats == nil {
		formats = []dateFormat{strictDateOptionalTime, epochMillis}
	}
	for _, f := range formats {
		parsed, ok := f(text)
		if !ok {
			continue
		}
		if parsed.instant != nil {
			t := time.UnixMilli(*parsed.instant).UTC()
			if up && parsed.precision < toNano {
				t = t.Add(time.Second - time.Millisecond)
			}
			if d.zone != nil {
				t = localTime(t, d.zone, noOffset) // Elasticsearch also takes it as a local time of the zone.
			}
			return min(max(t.UnixMilli(), -maxMillis), maxMillis), true // No value is outside.
		}
		zone := parsed.zone
		if parsed.zoneName != "" {
			if zone, ok = d.zones.load(parsed.zoneName); !ok {
				continue
			}
		}
		if zone == nil {
			zone = d.zone
		}
		if ms, ok := parsed.millis(zone, up); ok {
			return ms, true
		}
	}
	return 0, false
}

// millis completes a date: missing months and days are the first, missing times zero, or with up the last of the day.
// ok is false if there is no such day or time.
func (p localDate) millis(zone *time.Location, up bool) (ms int64, ok bool) {
	if zone == nil {
		zone = time.UTC
	}
	if p.precision < toMonth {
		p.month = 1
	}
	if p.precision < toDay {
		p.day = 1
	}
	if up {
		if p.precision < toHour {
			p.hour = 23
		}
		if p.precision < toMinute {
			p.minute = 59
		}
		if p.precision < toSecond {
			p.second = 59
		}
		if p.precision < toNano {
			p.nano = 999_999_999
		}
	}
	if p.month < 1 || p.month > 12 || p.day < 1 || p.hour > 23 || p.minute > 59 || p.second > 59 {
		return 0, false
	}
	const farthest = 280_000 // years; maxMillis is some 285,000
	if p.year > farthest || p.year < -farthest {
		return int64(math.Copysign(maxMillis, float64(p.year))), true
	}
	last := time.Date(p.year, time.Month(p.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
	if p.day > last && !(up && p.day <= 31) {
		return 0, false // No such day. Rounded up, a day up to the 31st is the month's last.
	}
	clock := time.Date(p.year, time.Month(p.month), min(p.day, last), p.hour, p.minute, p.second, p.nano, time.UTC)
	return localTime(clock, zone, noOffset).UnixMilli(), true
}

// noOffset is the offset of no zone.
const noOffset = time.Duration(math.MinInt64)

// localTime returns the instant of a local time in a zone, as java.time does: a time in a gap moves forward by the
// length of the gap; of two instants in an overlap it is the one with the given offset, or else the first.
func localTime(clock time.Time, zone *time.Location, offset time.Duration) time.Time {
	y, m, d := clock.Date()
	t := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), zone)
	if skipped := clock.Sub(wallClock(t)); skipped != 0 {
		return t.Add(max(skipped, 0)) // time.Date moves forward or back.
	}
	first, second := t, t
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		if other := t.Add(zoneOffset(t) - zoneOffset(start.Add(-1))); other.Before(start) {
			first = other
		}
	}
	if !end.IsZero() {
		if other := t.Add(zoneOffset(t) - zoneOffset(end)); !other.Before(end) {
			second = other
		}
	}
	if zoneOffset(second) == offset {
		return second
	}
	return first
}

// strictDateOptionalTime parses 2006, 2006-01 or 2006-01-02, with an optional time from the hour on after T, a
// fraction of up to nine digits, and an offset.
func strictDateOptionalTime(text string) (d localDate, ok bool) {
	return isoDate(text, 4)
}

func dateOptionalTime(text string) (d localDate, ok bool) {
	return isoDate(text, 1)
}

func isoDate(text string, yearDigits int) (d localDate, ok bool) {
	var rest string
	two := func(rest string) (int, string, bool) {
		if yearDigits == 4 {
			return digits(rest, 2, 2)
		}
		return digits(rest, 1, 2)
	}
	if d.year, rest, ok = isoYear(text, yearDigits); !ok {
		return d, false
	}
	for _, part := range []struct {
		into *int
		to   precision
	}{{&d.month, toMonth}, {&d.day, toDay}} {
		after, found := strings.CutPrefix(rest, "-")
		if !found {
			break
		}
		if *part.into, rest, ok = two(after); !ok || *part.into == 0 {
			return d, false
		}
		d.precision = part.to
	}
	after, hasTime := strings.CutPrefix(rest, "T")
	if !hasTime {
		return d, rest == ""
	}
	if d.precision < toDay {
		return d, false
	}
	if rest = after; rest == "" {
		return d, true // "2006-01-02T"
	}
	if d.hour, rest, ok = two(rest); !ok {
		return d, false
	}
	d.precision = toHour
	for _, part := range []struct {
		into *int
		to   precision
	}{{&d.minute, toMinute}, {&d.second, toSecond}} {
		after, found := strings.CutPrefix(rest, ":")
		if !found {
			break
		}
		if *part.into, rest, ok = two(after); !ok {
			return d, false
		}
		d.precision = part.to
	}
	if d.precision == toSecond && rest != "" && (rest[0] == '.' || rest[0] == ',') {
		before := len(rest) - 1
		fraction, after, ok := digits(rest[1:], 1, 9)
		if !ok {
			return d, false
		}
		for range 9 - (before - len(after)) {
			fraction *= 10
		}
		d.nano, d.precision, rest = fraction, toNano, after
	}
	if rest == "" {
		return d, true
	}
	if rest[0] != '+' && rest[0] != '-' {
		if d.zone, ok = fixedZone(rest); !ok { // Z, UTC+01:00
			d.zoneName = rest
		}
		return d, true
	}
	d.zone, rest, ok = offset(rest)
	return d, ok && rest == ""
}

// isoYear parses a year of at least the given digits. After a minus it may have up to nine, after a plus five to nine
// (java.time's SignStyle.EXCEEDS_PAD); a longer number is one of milliseconds.
func isoYear(text string, least int) (year int, rest string, ok bool) {
	const most = 9
	switch {
	case strings.HasPrefix(text, "-"):
		year, rest, ok = digits(text[1:], least, most)
		return -year, rest, ok
	case strings.HasPrefix(text, "+"):
		return digits(text[1:], 5, most)
	}
	return digits(text, least, max(4, 6-least))
}

// zones caches time zones by name, including unknown ones, since each is read from a file. A nil value caches
// nothing.
type zones map[string]*time.Location

// maxZones is the maximum number of zone names in the dates of one query.
const maxZones = 1000

func (z zones) load(name string) (*time.Location, bool) {
	zone, cached := z[name]
	if !cached && len(z) < maxZones {
		zone, _ = zoneOf(name)
		if z != nil {
			z[name] = zone
		}
	}
	return zone, zone != nil
}

// epochMillis parses milliseconds since 1970.
func epochMillis(text string) (localDate, bool) { return epoch(text, 1) }

// epochSecond parses seconds since 1970.
func epochSecond(text string) (localDate, bool) { return epoch(text, 1000) }

func epoch(text string, unit int64) (localDate, bool) {
	whole, fraction, hasFraction := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.HasPrefix(whole, "+") || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return localDate{}, false
	}
	ms, to := min(max(n*unit, -maxMillis), maxMillis), toNano
	if unit == 1000 && !hasFraction {
		to = toSecond
	}
	if hasFraction {
		f, rest, ok := digits(fraction, 1, 9)
		if !ok || rest != "" {
			return localDate{}, false
		}
		part := int64(float64(f) / pow10(len(fraction)) * float64(unit))
		if strings.HasPrefix(whole, "-") {
			part = -part
		}
		ms = min(max(ms+part, -maxMillis), maxMillis)
	}
	return localDate{instant: &ms, precision: to}, true
}

func pow10(n int) float64 {
	p := 1.0
	for range n {
		p *= 10
	}
	return p
}
