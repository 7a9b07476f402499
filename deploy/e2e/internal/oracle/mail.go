package oracle

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

const removed = "[e-mail removed]"

// shaper renders known objects. noMail is set for shapes marked *no e-mail*.
type shaper struct{ noMail bool }

// atSign returns the length of an at sign at i, or 0.
func atSign(r []rune, i int) int {
	switch r[i] {
	case '@', '\uff20', '\ufe6b':
		return 1
	case '%':
		if i+2 < len(r) && r[i+1] == '4' && r[i+2] == '0' {
			return 3
		}
	}
	return 0
}

func letterMarkNumber(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.N) }

func localRune(r rune) bool {
	return letterMarkNumber(r) || strings.ContainsRune(".!#$%&'*+-=?^_`{|}~", r)
}

func domainRune(r rune) bool { return letterMarkNumber(r) || r == '-' || r == '.' }

// removeShaped replaces substrings that look like email addresses (MAPPING.md, "E-mail removal", 1).
func removeShaped(s string) string {
	r := []rune(s)
	var out strings.Builder
	written, floor := 0, 0
	for i := 0; i < len(r); {
		n := atSign(r, i)
		if n == 0 {
			i++
			continue
		}
		begin := i
		for begin > floor && localRune(r[begin-1]) {
			begin--
		}
		after := i + n
		end := after
		for end < len(r) && domainRune(r[end]) {
			end++
		}
		for end > after && (r[end-1] == '.' || r[end-1] == '-') {
			end--
		}
		host := r[after:end]
		if begin < i && len(host) > 0 && host[0] != '.' && slices.Contains(host, '.') {
			out.WriteString(string(r[written:begin]))
			out.WriteString(removed)
			written, floor, i = end, end, end
			continue
		}
		floor, i = after, after
	}
	out.WriteString(string(r[written:]))
	return out.String()
}

// removeOwn replaces the record's own addresses (MAPPING.md, "E-mail removal", 2).
func removeOwn(s string, own []string) string {
	for _, address := range own {
		low, wanted := lowerASCII(s), lowerASCII(address)
		var out strings.Builder
		at := 0
		for {
			i := strings.Index(low[at:], wanted)
			if i < 0 {
				break
			}
			out.WriteString(s[at : at+i])
			out.WriteString(removed)
			at += i + len(wanted)
		}
		out.WriteString(s[at:])
		s = out.String()
	}
	return s
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// ownAddresses returns a record's own addresses, longest first.
func ownAddresses(rec Object) []string {
	var own []string
	add := func(s string) {
		if len(s) > 2 && strings.Contains(s[1:len(s)-1], "@") && !slices.Contains(own, s) {
			own = append(own, s)
		}
	}
	add(givenEmail(rec["email"]))
	for _, name := range []string{"personal_email", "school_email", "author_email"} {
		add(str(rec, name))
	}
	for _, name := range []string{"emails", "additional_emails"} {
		for _, s := range presentStrings(rec[name]) {
			add(s)
		}
	}
	slices.SortStableFunc(own, func(a, b string) int { return len(b) - len(a) })
	return own
}

// scrub removes email addresses from all strings of a rendered value if the shape requires it.
func (sh shaper) scrub(v, record any) any {
	if !sh.noMail {
		return v
	}
	return scrub(v, ownAddresses(object(record)))
}

func scrub(v any, own []string) any {
	switch v := v.(type) {
	case string:
		return removeOwn(removeShaped(v), own)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = scrub(e, own)
		}
		return out
	case Object:
		out := make(Object, len(v))
		for k, e := range v {
			out[k] = scrub(e, own)
		}
		return out
	}
	return v
}

func mailName(name string) bool {
	return strings.Contains(strings.ToLower(name), "mail") || removeShaped(name) != name
}

// unknown adds the fields of src that the shape neither has nor reserves.
func (sh shaper) unknown(dst, src Object, reserved ...[]string) {
	sh.members(dst, src, func(name string, v any) bool {
		return absent(v) || slices.ContainsFunc(reserved, func(names []string) bool { return slices.Contains(names, name) })
	})
}

// members adds unknown fields, except those that leave reports, and those named after e-mail. The count of a truncated
// list replaces a field of its name.
func (sh shaper) members(dst, src Object, leave func(name string, v any) bool) {
	var long []string
	for name, v := range src {
		if leave(name, v) || sh.noMail && mailName(name) {
			continue
		}
		dst[name] = sh.unknownValue(v)
		if len(list(v)) > maxEntries {
			long = append(long, name)
		}
	}
	slices.Sort(long)
	counts := Object{}
	for _, name := range long {
		if counts[name] == nil { // not replaced by the count of another list
			counts[name+"_count"] = number(len(list(src[name])))
		}
	}
	maps.Copy(dst, counts)
}

// unknownValue renders an unknown value unchanged, except for entries beyond the hundredth and fields named after
// e-mail.
func (sh shaper) unknownValue(v any) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, e := range v[:min(len(v), maxEntries)] {
			out = append(out, sh.unknownValue(e))
		}
		return out
	case Object:
		out := Object{}
		sh.members(out, v, func(string, any) bool { return false })
		return out
	}
	return v
}
