package clause

import "time"

// math applies date math: +1M, -2d, /d and so on.
func (d dateReader) math(at value, t time.Time, math string, up bool) (time.Time, error) {
	zone := d.zone
	if zone == nil {
		zone = time.UTC
	}
	t = t.In(zone)
	for rest := math; rest != ""; {
		operator := rest[0]
		rest = rest[1:]
		if operator != '/' && operator != '+' && operator != '-' {
			return t, at.errorf("operator not supported for date math %s: use +, - or /", quote(math))
		}
		n := 1
		if rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			var ok bool
			if n, rest, ok = digits(rest, 1, 9); !ok || operator == '/' && n != 1 {
				return t, at.errorf("rounding `/` can only be used on single unit types: %s", quote(math))
			}
		}
		if rest == "" {
			return t, at.errorf("truncated date math %s: a unit is missing, one of y, M, w, d, h, m, s", quote(math))
		}
		unit := rest[0]
		rest = rest[1:]
		if operator == '-' {
			n = -n
		}
		var ok bool
		if operator == '/' {
			t, ok = round(t, unit, up)
		} else {
			t, ok = add(t, unit, n)
		}
		if !ok {
			return t, at.errorf("unit %s not supported for date math %s: use y, M, w, d, h, m, s",
				quote(string(rune(unit))), quote(math))
		}
	}
	return t, nil
}

// zoneOffset returns the offset of a time's zone from UTC.
func zoneOffset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// wallClock returns the local time of t as if it were UTC.
func wallClock(t time.Time) time.Time { return t.Add(zoneOffset(t)).UTC() }

// withWallClock returns the time in the zone of t at a local time.
func withWallClock(t, clock time.Time) time.Time {
	return localTime(clock, t.Location(), zoneOffset(t))
}

// add adds calendar units. A day that the month lacks becomes its last one.
func add(t time.Time, unit byte, n int) (time.Time, bool) {
	switch unit {
	case 'y':
		return withWallClock(t, addMonths(wallClock(t), 12*n)), true
	case 'M':
		return withWallClock(t, addMonths(wallClock(t), n)), true
	case 'w':
		return withWallClock(t, wallClock(t).AddDate(0, 0, 7*n)), true
	case 'd':
		return withWallClock(t, wallClock(t).AddDate(0, 0, n)), true
	case 'h', 'H':
		return t.Add(time.Duration(min(max(n, -maxHours), maxHours)) * time.Hour), true
	case 'm':
		return t.Add(time.Duration(n) * time.Minute), true
	case 's':
		return t.Add(time.Duration(n) * time.Second), true
	}
	return t, false
}

// maxHours keeps a number of hours within a time.Duration.
const maxHours = 2_500_000

func addMonths(clock time.Time, n int) time.Time {
	first := clock.AddDate(0, n, 1-clock.Day())
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(clock.Day(), last)-1)
}

// round returns the first instant of a unit, or with up the last.
func round(t time.Time, unit byte, up bool) (time.Time, bool) {
	clock := wallClock(t)
	y, m, d := clock.Date()
	switch unit {
	case 'y':
		clock = time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	case 'M':
		clock = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case 'w':
		clock = time.Date(y, m, d-(int(clock.Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
	case 'd':
		clock = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	case 'h', 'H':
		clock = time.Date(y, m, d, clock.Hour(), 0, 0, 0, time.UTC)
	case 'm':
		clock = time.Date(y, m, d, clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	case 's':
		clock = time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), 0, time.UTC)
	default:
		return t, false
	}
	t = withWallClock(t, clock)
	if !up {
		return t, true
	}
	next, _ := add(t, unit, 1)
	return next.Add(-time.Millisecond), true
}
