package searchtest

import (
	"strconv"
	"strings"
	"time"
)

func (g *Generator) rangeOf(s scope, _ int) any {
	args := object()
	var name string
	switch pick(g.r, number, date, date, text) {
	case number:
		f, v := g.fieldOf(s, number)
		n, ok := integer(v)
		if !ok {
			return nil
		}
		name = f.path
		g.bounds(args, func(side int) any {
			bound := n + int64(side*g.r.IntN(40))
			return pick[any](g.r, bound, bound, strconv.FormatInt(bound, 10), float64(bound)+0.5)
		})
	case date:
		f, v := g.fieldOf(s, date)
		str, _ := v.(string)
		t, err := parseDate(str)
		if err != nil {
			return nil
		}
		name = f.path
		g.dateRange(args, name, t)
	default:
		f, v := g.textField(s)
		if v == "" {
			return nil
		}
		name = f.keyword()
		if g.r.IntN(3) == 0 {
			name, v = f.path, strings.ToLower(v)
		}
		r := []rune(v)
		g.bounds(args, func(side int) any {
			if side < 0 {
				return string(r[:1+g.r.IntN(len(r))])
			}
			return string(r[:1+g.r.IntN(min(3, len(r)))]) + "zz"
		})
	}
	g.boost("range", args)
	return object(name, args)
}

// bounds sets one or two bounds; side is -1 below and 1 above the value. Of two on one side the last one counts, here
// the longer name.
func (g *Generator) bounds(args map[string]any, bound func(side int) any) {
	which := g.r.IntN(3)
	if which != 0 {
		g.bound(args, bound, -1, "gt", "from", "include_lower")
	}
	if which != 1 {
		g.bound(args, bound, 1, "lt", "to", "include_upper")
	}
	if g.may("range", "relation", 10) {
		args["relation"] = pick(g.r, "intersects", "within", "CONTAINS")
	}
}

func (g *Generator) bound(args map[string]any, bound func(side int) any, side int, short, old, include string) {
	if g.may("range", old, 12) {
		args[old] = bound(side)
		if g.may("range", include, 2) {
			args[include] = g.r.IntN(2) == 0
		}
		return
	}
	p := short + pick(g.r, "", "e")
	g.use("range." + p)
	args[p] = bound(side)
	if len(p) == 3 && g.r.IntN(10) == 0 {
		g.use("range." + short)
		args[short] = bound(side)
	}
}

func (g *Generator) dateRange(args map[string]any, name string, t time.Time) {
	layout := ""
	if g.may("range", "format", 4) {
		args["format"] = pick(g.r, "yyyy-MM-dd", "dd/MM/yyyy", "yyyy", "epoch_millis", "yyyy-MM||yyyy",
			"strict_date_optional_time")
		layout = map[string]string{"yyyy-MM-dd": "2006-01-02", "dd/MM/yyyy": "02/01/2006", "yyyy": "2006",
			"yyyy-MM||yyyy":             "2006-01",
			"strict_date_optional_time": "2006-01-02T15:04:05Z", "epoch_millis": "ms"}[args["format"].(string)]
	}
	if layout != "ms" && g.may("range", "time_zone", 5) {
		args["time_zone"] = pick(g.r, "+01:00", "-05:00", "UTC", "Europe/Berlin", "America/New_York",
			"America/Santiago", "America/Havana", "Asia/Beirut")
	}
	g.bounds(args, func(side int) any {
		u := t.AddDate(0, side*g.r.IntN(30), side*g.r.IntN(300))
		switch {
		case g.r.IntN(4) == 0:
			u = t
		case name == "updated_at" && g.r.IntN(4) == 0: // the only field with hours: around the clock changes of those zones
			u = pick(g.r, clockChanges()...).Add(time.Duration(g.r.IntN(12)) * 30 * time.Minute)
		}
		var literal string
		switch layout {
		case "":
			literal = u.Format(pick(g.r, "2006-01-02", "2006-01-02", "2006-01", "2006", "2006-01-02T15:04:05Z",
				"2006-01-02T15:04"))
		case "ms":
			return u.UnixMilli()
		default:
			literal = u.Format(layout)
		}
		if g.r.IntN(3) > 0 {
			return literal
		}
		g.use("range.date_math")
		if g.r.IntN(5) == 0 && layout == "" {
			return pick(g.r, "now", "now-20y", "now/y", "now-5y/M", "now+1d/d")
		}
		return literal + "||" + pick(g.r, "/M", "/y", "/d", "-1y", "+3M/M", "+1w/w", "-36h", "-2d/d", "+90m", "/w")
	})
}

// clockChanges returns the nights, from midnight UTC, in which the clocks of the time zones change.
func clockChanges() []time.Time {
	night := func(m time.Month, d int) time.Time { return time.Date(2026, m, d, 0, 0, 0, 0, time.UTC) }
	return []time.Time{
		night(time.March, 8), night(time.March, 29), night(time.April, 5), night(time.September, 6),
		night(time.October, 25), night(time.November, 1),
	}
}

func parseDate(s string) (time.Time, error) {
	if t, err := time.Parse("2006-01-02", s); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}
