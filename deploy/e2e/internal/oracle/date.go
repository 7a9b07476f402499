package oracle

import (
	"fmt"
	"time"
)

// instant returns the time of a date (MAPPING.md, section 1, "Dates"). ok is false if it is missing.
func instant(s string) (t time.Time, ok bool) {
	if s == "" {
		return time.Time{}, false
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02", "2006-01", "2006",
		"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	panic(fmt.Sprintf("oracle: %q is not a date of MAPPING.md", s))
}

// instantText returns a date as *instant*.
func instantText(s string) string {
	t, ok := instant(s)
	if !ok {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// putInstant adds a date as *instant*.
func putInstant(dst Object, name string, src Object, from string) {
	put(dst, name, instantText(str(src, from)))
}

// putTimestamps adds dates as *timestamp*.
func putTimestamps(dst, src Object, names ...string) {
	for _, name := range names {
		given := str(src, name)
		if _, err := time.Parse(time.RFC3339Nano, given); err != nil {
			given = instantText(given)
		}
		put(dst, name, given)
	}
}

// day returns a date as *day*.
func day(s string) string {
	switch {
	case s == "":
		return ""
	case len(s) == len("2006"):
		return s + "-01-01"
	case len(s) == len("2006-01"):
		return s + "-01"
	}
	return s[:len("2006-01-02")]
}

func putDay(dst Object, name string, src Object, from string) {
	put(dst, name, day(str(src, from)))
}

// newestFirst orders dates, newest first, missing ones last.
func newestFirst(a, b string) int {
	ta, oka := instant(a)
	tb, okb := instant(b)
	switch {
	case oka && okb:
		return tb.Compare(ta)
	case oka:
		return -1
	case okb:
		return 1
	}
	return 0
}
