package clause

import (
	"strings"
	"time"
)

// format sets the formats of a range clause: names and patterns, separated by
// "||".
func (d *dateReader) format(at value, text string) error {
	if text == "" {
		return nil
	}
	d.formats = nil
	for name := range strings.SplitSeq(text, "||") {
		f, ok := formatOf(name)
		if !ok {
			return at.errorf("unknown date format %s: known are %s, and patterns of yyyy, MM, dd, MMM, HH, mm, ss, SSS, XXX", quote(name), strings.Join(namedFormats(), ", "))
		}
		d.formats = append(d.formats, f)
	}
	return nil
}

func namedFormats() []string {
	out := []string{"strict_date_optional_time", "strict_date_optional_time_nanos", "date_optional_time", "epoch_millis", "epoch_second"}
	for _, f := range namedPatterns() {
		out = append(out, f[0])
		if !strings.HasPrefix(f[0], "basic_") {
			out = append(out, "strict_"+f[0])
		}
	}
	return out
}

// namedPatterns are the formats whose names stand for patterns.
func namedPatterns() [][2]string {
	return [][2]string{
		{"date", "yyyy-MM-dd"}, {"year_month_day", "yyyy-MM-dd"}, {"year_month", "yyyy-MM"}, {"year", "yyyy"},
		{"date_hour", "yyyy-MM-dd'T'HH"}, {"date_hour_minute", "yyyy-MM-dd'T'HH:mm"}, {"date_hour_minute_second", "yyyy-MM-dd'T'HH:mm:ss"},
		{"date_time_no_millis", "yyyy-MM-dd'T'HH:mm:ssX"}, {"date_time", "yyyy-MM-dd'T'HH:mm:ss.SX"},
		{"basic_date", "yyyyMMd"}, {"basic_date_time_no_millis", "yyyyMMdd'T'HHmmssX"}, {"basic_date_time", "yyyyMMdd'T'HHmmss.SX"},
	}
}

func formatOf(name string) (dateFormat, bool) {
	switch name {
	case "strict_date_optional_time", "strict_date_optional_time_nanos":
		return strictDateOptionalTime, true
	case "date_optional_time":
		return dateOptionalTime, true
	case "epoch_millis":
		return epochMillis, true
	case "epoch_second":
		return epochSecond, true
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

// patternStyle is how the parts of a pattern are read: named formats take
// fractions and offsets of any length, lenient ones numbers without their zeros.
type patternStyle struct{ named, lenient bool }

// digits are the fewest and the most digits of a part of n letters.
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

// offsetFits says whether an offset is written as the letters of a pattern ask:
// X takes +hh, +hhmm and Z, XX +hhmm and Z, XXX +hh:mm and Z, and Z +hhmm.
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

// patternFormat reads dates of a Java pattern of numeric parts, and of months as
// MMM.
func patternFormat(pattern string, style patternStyle) (dateFormat, bool) {
	type part struct {
		letter  byte // 0: literal
		n       int
		literal string
	}
	var parts []part
	seen := make(map[byte]bool)
	for i := 0; i < len(pattern); {
		c := pattern[i]
		switch {
		case c == '\'':
			end := strings.IndexByte(pattern[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			literal := pattern[i+1 : i+1+end]
			if literal == "" {
				literal = "'"
			}
			parts = append(parts, part{literal: literal})
			i += end + 2
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			n := 1
			for i+n < len(pattern) && pattern[i+n] == c {
				n++
			}
			if c == 'u' {
				c = 'y'
			}
			if !strings.ContainsRune("yMdHmsSXZ", rune(c)) || seen[c] || n > 9 || c == 'M' && n > 3 || c == 'X' && n > 3 || c == 'Z' && n == 4 {
				return nil, false
			}
			seen[c] = true
			parts = append(parts, part{letter: c, n: n})
			i += n
		default:
			parts = append(parts, part{literal: string(c)})
			i++
		}
	}
	if !seen['y'] {
		return nil, false
	}
	return func(text string) (d localDate, ok bool) {
		rest := text
		for _, p := range parts {
			if p.letter == 0 {
				if rest, ok = strings.CutPrefix(rest, p.literal); !ok {
					return d, false
				}
				continue
			}
			if p.letter == 'X' || p.letter == 'Z' {
				before := rest
				if d.zone, rest, ok = offset(rest); !ok || !style.named && !offsetFits(p.letter, p.n, before[:len(before)-len(rest)]) {
					return d, false
				}
				continue
			}
			if p.letter == 'M' && p.n == 3 {
				if d.month, rest, ok = monthName(rest); !ok {
					return d, false
				}
				d.precision = max(d.precision, toMonth)
				continue
			}
			least, most := style.digits(p.letter, p.n)
			before := len(rest)
			var n int
			if n, rest, ok = digits(rest, least, most); !ok {
				return d, false
			}
			var to precision
			switch p.letter {
			case 'y':
				d.year, to = n, toYear
				if p.n == 2 {
					d.year += 2000
				}
			case 'M':
				d.month, to = n, toMonth
			case 'd':
				d.day, to = n, toDay
			case 'H':
				d.hour, to = n, toHour
			case 'm':
				d.minute, to = n, toMinute
			case 's':
				d.second, to = n, toSecond
			case 'S':
				for range 9 - (before - len(rest)) {
					n *= 10
				}
				d.nano, to = n, toNano
			}
			d.precision = max(d.precision, to)
		}
		return d, rest == ""
	}, true
}

// monthName reads Jan, Feb and so on.
func monthName(text string) (month int, rest string, ok bool) {
	for m := time.January; m <= time.December; m++ {
		if rest, ok = strings.CutPrefix(text, m.String()[:3]); ok {
			return int(m), rest, true
		}
	}
	return 0, text, false
}
