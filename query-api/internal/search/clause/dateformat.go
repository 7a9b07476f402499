package clause

import (
	"strings"
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
			return at.errorf("unknown date format %s: known are %s, and patterns of yyyy, MM, dd, HH, mm, ss, SSS, XXX", quote(name), strings.Join(namedFormats(), ", "))
		}
		d.formats = append(d.formats, f)
	}
	return nil
}

func namedFormats() []string {
	return []string{
		"strict_date_optional_time", "strict_date_optional_time_nanos", "date_optional_time", "epoch_millis", "epoch_second", "date", "strict_date", "basic_date",
		"year", "strict_year", "year_month", "strict_year_month", "year_month_day", "strict_year_month_day",
		"date_hour_minute", "date_hour_minute_second", "date_time_no_millis", "date_time",
		"strict_date_hour_minute", "strict_date_hour_minute_second", "strict_date_time_no_millis", "strict_date_time",
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
	pattern := name
	switch strings.TrimPrefix(name, "strict_") {
	case "date", "year_month_day":
		pattern = "yyyy-MM-dd"
	case "basic_date":
		pattern = "yyyyMMdd"
	case "year":
		pattern = "yyyy"
	case "year_month":
		pattern = "yyyy-MM"
	case "date_hour_minute":
		pattern = "yyyy-MM-dd'T'HH:mm"
	case "date_hour_minute_second":
		pattern = "yyyy-MM-dd'T'HH:mm:ss"
	case "date_time_no_millis":
		pattern = "yyyy-MM-dd'T'HH:mm:ssXXX"
	case "date_time":
		pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
	}
	return patternFormat(pattern)
}

// patternFormat reads dates of a Java pattern of numeric parts.
func patternFormat(pattern string) (dateFormat, bool) {
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
			if !strings.ContainsRune("yMdHmsSXZ", rune(c)) || seen[c] || n > 9 || c == 'M' && n > 2 {
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
				if d.zone, rest, ok = offset(rest); !ok {
					return d, false
				}
				continue
			}
			most := p.n
			if p.n == 1 {
				most = 2
			}
			var n int
			if n, rest, ok = digits(rest, p.n, most); !ok {
				return d, false
			}
			var to precision
			switch p.letter {
			case 'y':
				d.year, to = n, toYear
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
				for range 9 - p.n {
					n *= 10
				}
				d.nano, to = n, toNano
			}
			d.precision = max(d.precision, to)
		}
		return d, rest == ""
	}, true
}
