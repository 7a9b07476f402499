package clause

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/query-api/internal/search/aggregation"
)

// format sets the formats of a range clause: names and patterns, separated by "||".
func (d *dateReader) format(at value, text string) error {
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, "||") {
		f, ok := formatOf(name)
		if !ok {
			return at.errorf("unknown date format %s: known are %s, and patterns of yyyy, MM, dd, MMM, HH, mm, "+
				"ss, SSS, XXX", quote(name), strings.Join(namedFormats(), ", "))
		}
		d.formats = append(d.formats, f)
	}
	return nil
}

func namedFormats() []string {
	out := []string{"strict_date_optional_time", "strict_date_optional_time_nanos", "iso8601", "date_optional_time",
		"epoch_millis", "epoch_second"}
	for _, f := range namedPatterns() {
		out = append(out, f[0])
		if !strings.HasPrefix(f[0], "basic_") {
			out = append(out, "strict_"+f[0])
		}
	}
	return out
}

// namedPatterns returns the named formats that are defined by patterns.
func namedPatterns() [][2]string {
	return [][2]string{
		{"date", "yyyy-MM-dd"}, {"year_month_day", "yyyy-MM-dd"}, {"year_month", "yyyy-MM"}, {"year", "yyyy"},
		{"date_hour", "yyyy-MM-dd'T'HH"}, {"date_hour_minute", "yyyy-MM-dd'T'HH:mm"},
		{"date_hour_minute_second", "yyyy-MM-dd'T'HH:mm:ss"},
		{"date_hour_minute_second_fraction", "yyyy-MM-dd'T'HH:mm:ss.S"},
		{"date_hour_minute_second_millis", "yyyy-MM-dd'T'HH:mm:ss.S"},
		{"date_time_no_millis", "yyyy-MM-dd'T'HH:mm:ssX"}, {"date_time", "yyyy-MM-dd'T'HH:mm:ss.SX"},
		{"basic_date", "yyyyMMd"}, {"basic_date_time_no_millis", "yyyyMMdd'T'HHmmssX"},
		{"basic_date_time", "yyyyMMdd'T'HHmmss.SX"},
	}
}

func formatOf(name string) (dateFormat, bool) {
	switch name {
	case "strict_date_optional_time", "strict_date_optional_time_nanos", "iso8601":
		return strictDateOptionalTime, true
	case "date_optional_time":
		return dateOptionalTime, true
	case "epoch_millis":
		return epochMillis, true
	case "epoch_second":
		return epochSecond, true
	// These accept more than the pattern of the same name.
	case "date":
		return patternFormat("yyyy[-MM[-dd]]", patternStyle{named: true, lenient: true})
	case "strict_year_month_day":
		return patternFormat("yyyy[-MM[-dd]]", patternStyle{named: true})
	case "strict_date_time":
		return patternFormat("yyyy-MM-dd'T'HH:mm:ss[.S]X", patternStyle{named: true})
	}
	for _, f := range namedPatterns() {
		basic := strings.HasPrefix(f[0], "basic_")
		switch {
		case name == f[0]:
			return patternFormat(f[1], patternStyle{named: true, lenient: !basic})
		case name == "strict_"+f[0] && !basic:
			return patternFormat(f[1], patternStyle{named: true})
		}
	}
	return patternFormat(name, patternStyle{})
}

// patternStyle is how the parts of a pattern are parsed: named formats accept fractions and offsets of any length,
// lenient ones numbers without leading zeros.
type patternStyle struct{ named, lenient bool }

// digits returns the minimum and maximum number of digits of a part of n letters.
func (style patternStyle) digits(letter byte, n int) (least, most int) {
	switch {
	case letter == 'S' && style.named:
		return 1, 9
	case style.lenient && letter == 'y':
		return 1, 5
	case style.lenient, n == 1:
		return 1, 2
	}
	return n, n
}

// offsetFits reports whether an offset has the form of the letters of a pattern: X accepts +hh, +hhmm and Z, XX +hhmm
// and Z, XXX +hh:mm and Z, and Z +hhmm.
func offsetFits(letter byte, n int, text string) bool {
	colon := strings.Contains(text, ":")
	switch {
	case letter == 'Z' && n < 4:
		return !colon && len(text) == len("+hhmm")
	case text == "Z":
		return true
	case n == 1:
		return !colon
	case n == 2:
		return !colon && len(text) == len("+hhmm")
	}
	return colon
}

// maxPattern is the maximum length of a pattern in bytes, which limits the depth of its brackets.
const maxPattern = 200

// patternFormat returns the format of a Java pattern with numeric parts, and months as MMM. Each letter occurs at
// most once, and there is a year.
func patternFormat(pattern string, style patternStyle) (dateFormat, bool) {
	if len(pattern) > maxPattern {
		return nil, false
	}
	parts, rest, ok := dateParts(pattern, make(map[byte]bool))
	if !ok || rest != "" || !slices.ContainsFunc(parts, func(p datePart) bool { return p.letter == 'y' }) {
		return nil, false
	}
	return func(text string) (d localDate, ok bool) {
		text, ok = readParts(parts, &d, text, style)
		return d, ok && text == ""
	}, true
}

// datePart is a part of a pattern: n times a letter, literal text, or optional parts.
type datePart struct {
	letter   byte // 0: literal or optional
	n        int
	literal  string
	optional []datePart
}

// dateParts parses a pattern up to its end or the closing bracket. seen are the letters that have occurred.
func dateParts(pattern string, seen map[byte]bool) (parts []datePart, rest string, ok bool) {
	for pattern != "" && pattern[0] != ']' {
		var p datePart
		if inside, found := strings.CutPrefix(pattern, "["); found {
			p.optional, pattern, ok = dateParts(inside, seen)
			pattern = strings.TrimPrefix(pattern, "]")
		} else {
			p, pattern, ok = cutDatePart(pattern)
		}
		if !ok || p.letter != 0 && seen[p.letter] {
			return nil, "", false
		}
		seen[p.letter] = true
		parts = append(parts, p)
	}
	return parts, pattern, true
}

// readParts parses a prefix of text by parts, into d.
func readParts(parts []datePart, d *localDate, text string, style patternStyle) (rest string, ok bool) {
	for _, p := range parts {
		before := *d
		switch rest, ok = p.read(d, text, style); {
		case ok:
			text = rest
		case p.optional == nil:
			return "", false
		default:
			*d = before
		}
	}
	return text, true
}

// cutDatePart splits off the first part of a pattern.
func cutDatePart(pattern string) (p datePart, rest string, ok bool) {
	switch c := pattern[0]; {
	case c == '\'':
		p.literal, rest, ok = strings.Cut(pattern[1:], "'")
		for ok && strings.HasPrefix(rest, "'") { // Two quotes are an escaped one.
			var more string
			more, rest, ok = strings.Cut(rest[1:], "'")
			p.literal += "'" + more
		}
		if p.literal == "" {
			p.literal = "'"
		}
		return p, rest, ok
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		rest = strings.TrimLeft(pattern, pattern[:1])
		p = datePart{letter: c, n: len(pattern) - len(rest)}
		if c == 'u' {
			p.letter = 'y'
		}
		return p, rest, p.known()
	case strings.IndexByte("{}#", c) >= 0: // reserved in Java
		return p, "", false
	}
	return datePart{literal: pattern[:1]}, pattern[1:], true
}

// known reports whether the number of letters is supported.
func (p datePart) known() bool {
	switch p.letter {
	case 'y', 'd', 'H', 'm', 's', 'S':
		return p.n <= 9
	case 'M', 'X':
		return p.n <= 3
	case 'Z':
		return p.n <= 9 && p.n != 4
	}
	return false
}

// read parses a prefix of text by the part, into d.
func (p datePart) read(d *localDate, text string, style patternStyle) (rest string, ok bool) {
	switch {
	case p.optional != nil:
		return readParts(p.optional, d, text, style)
	case p.letter == 0:
		return strings.CutPrefix(text, p.literal)
	case p.letter == 'X' || p.letter == 'Z':
		d.zone, rest, ok = offset(text)
		return rest, ok && (style.named || offsetFits(p.letter, p.n, text[:len(text)-len(rest)]))
	case p.letter == 'M' && p.n == 3:
		d.month, rest, ok = monthName(text)
		d.precision = max(d.precision, toMonth)
		return rest, ok
	}
	least, most := style.digits(p.letter, p.n)
	n, rest, ok := digits(text, least, most)
	switch {
	case p.letter == 'y' && p.n == 2:
		n += 2000
	case p.letter == 'S':
		for range 9 - (len(text) - len(rest)) {
			n *= 10
		}
	}
	field, precision := p.field(d)
	*field, d.precision = n, max(d.precision, precision)
	return rest, ok
}

// field returns the field of a date that the letter sets, and the precision that it gives.
func (p datePart) field(d *localDate) (*int, precision) {
	switch p.letter {
	case 'y':
		return &d.year, toYear
	case 'M':
		return &d.month, toMonth
	case 'd':
		return &d.day, toDay
	case 'H':
		return &d.hour, toHour
	case 'm':
		return &d.minute, toMinute
	case 's':
		return &d.second, toSecond
	}
	return &d.nano, toNano
}

// monthName parses Jan, Feb and so on.
func monthName(text string) (month int, rest string, ok bool) {
	for m := time.January; m <= time.December; m++ {
		if rest, ok = strings.CutPrefix(text, m.String()[:3]); ok {
			return int(m), rest, true
		}
	}
	return 0, text, false
}

// datePrinter returns a function that writes instants in a format, in UTC.
func datePrinter(name string) (print func(ms int64) string, ok bool) {
	switch name {
	case "strict_date_optional_time", "strict_date_optional_time_nanos", "iso8601", "date_optional_time":
		return aggregation.ISODate, true
	case "epoch_millis":
		return func(ms int64) string { return strconv.FormatInt(ms, 10) }, true
	case "epoch_second":
		return epochSeconds, true
	}
	pattern, named := name, false
	for _, f := range namedPatterns() {
		if name == f[0] || name == "strict_"+f[0] && !strings.HasPrefix(f[0], "basic_") {
			pattern, named = f[1], true
		}
	}
	if len(pattern) > maxPattern {
		return nil, false
	}
	parts, rest, ok := dateParts(pattern, make(map[byte]bool))
	if !ok || rest != "" || len(parts) == 0 {
		return nil, false
	}
	return func(ms int64) string { return string(appendDate(nil, parts, time.UnixMilli(ms).UTC(), named)) }, true
}

func epochSeconds(ms int64) string {
	seconds, rest := ms/1000, ms%1000
	if rest < 0 {
		seconds, rest = seconds-1, rest+1000
	}
	text := strconv.FormatInt(seconds, 10)
	if rest > 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return text
}

// appendDate appends the parts of a date. In named formats, numbers have all their digits.
func appendDate(b []byte, parts []datePart, t time.Time, named bool) []byte {
	for _, p := range parts {
		n := p.n
		switch {
		case p.optional != nil:
			b = appendDate(b, p.optional, t, named)
			continue
		case p.letter == 0:
			b = append(b, p.literal...)
			continue
		case named && p.letter == 'S':
			n = 3
		case named && p.letter != 'y':
			n = 2
		}
		b = append(b, p.write(t, n)...)
	}
	return b
}

// write returns a part with n letters of a date in UTC.
func (p datePart) write(t time.Time, n int) string {
	var value int
	switch p.letter {
	case 'y':
		if n == 2 {
			return fmt.Sprintf("%02d", (t.Year()%100+100)%100)
		}
		return aggregation.Year(t.Year(), n)
	case 'M':
		if p.n == 3 {
			return t.Month().String()[:3]
		}
		value = int(t.Month())
	case 'd':
		value = t.Day()
	case 'H':
		value = t.Hour()
	case 'm':
		value = t.Minute()
	case 's':
		value = t.Second()
	case 'S':
		return fmt.Sprintf("%09d", t.Nanosecond())[:n]
	case 'Z':
		if p.n < 4 {
			return "+0000"
		}
		return "Z"
	default: // X
		return "Z"
	}
	return fmt.Sprintf("%0*d", n, value)
}
