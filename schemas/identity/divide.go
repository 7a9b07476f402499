package identity

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxDividedName is the maximum length of a name to divide, in bytes.
	maxDividedName = 100
	// maxNameWords is the maximum number of words of a name to divide.
	maxNameWords = 6
)

// DivideName returns the given and the family name in a full name. A single word is a given name. Both are
// empty for text that is not a person's name, and if the order of the parts is unknown.
func DivideName(full string) (given, family string) {
	if len(full) > maxDividedName {
		return "", ""
	}
	if strings.ContainsRune(full, '&') {
		full = html.UnescapeString(full)
	}
	full, ok := nameText(full)
	if !ok {
		return "", ""
	}
	if before, after, ok := strings.Cut(full, ","); ok {
		before, after = strings.TrimSpace(before), strings.TrimSpace(after)
		switch {
		case isSuffixes(after):
			full = before
		case strings.ContainsAny(before, " ,") || strings.ContainsAny(after, ","):
			return "", "" // "Ann Lee, Designer"
		default: // "Lee, Ann"
			after, _ = DivideName(after)
			return after, before
		}
	}
	words := strings.Fields(full)
	for len(words) > 1 && isTitleWord(words[0]) {
		words = words[1:]
	}
	for len(words) > 1 && isSuffix(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) == 0 || len(words) > maxNameWords || !slices.ContainsFunc(words,
		func(w string) bool { return !isInitial(w) }) {
		return "", ""
	}
	if IsCJK(full) {
		return divideCJK(words)
	}
	if slices.ContainsFunc(words, func(w string) bool { return !isNameWord(w) || isTeamWord(w) }) {
		return "", ""
	}
	if len(words) == 1 {
		if !isCapitalized(words[0]) {
			return "", "" // a username, or an abbreviation
		}
		return words[0], ""
	}
	if isVietnamese(words[0]) {
		return "", "" // either order is usual
	}
	at := len(words) - 1
	for at > 1 && isParticle(words[at-1]) {
		at--
	}
	if at > 1 && slices.Contains([]string{"y", "e", "i"}, words[at]) { // "Ortega y Gasset"
		at--
	}
	switch {
	case isParticle(words[0]):
		return "", ""
	case at == len(words)-1 && (isInitial(words[at]) || at > 2 && !slices.ContainsFunc(words[1:at], isInitial)):
		return words[0], "" // "Ann L."; or two given names and two family names
	}
	return words[0], strings.Join(words[at:], " ")
}

// nameText returns a name without emoji and text in parentheses or quotation marks. ok is false if the text
// has characters that names do not have.
func nameText(full string) (name string, ok bool) {
	var b strings.Builder
	depth, quoted := 0, false
	for _, r := range full {
		switch {
		case r == '(' || r == '[' || r == '（':
			depth++
		case r == ')' || r == ']' || r == '）':
			depth = max(depth-1, 0)
		case r == '"' || r == '“' || r == '”' || r == '«' || r == '»':
			quoted = !quoted
		case depth > 0 || quoted:
		case unicode.Is(unicode.Cf, r) || r == '\ufe0f':
		case unicode.IsSpace(r) || r > 0x2000 && unicode.In(r, unicode.So, unicode.Sk):
			b.WriteByte(' ')
		case unicode.IsLetter(r) || unicode.IsMark(r) || strings.ContainsRune(".,'’‘`ʻʼ-‐–·・", r):
			b.WriteRune(r)
		default:
			return "", false
		}
	}
	return strings.TrimSpace(b.String()), depth == 0 && !quoted
}

// IsCJK reports whether a name is entirely in Chinese, Japanese or Korean script.
func IsCJK(s string) bool {
	letters := false
	for _, r := range s {
		if unicode.IsLetter(r) {
			if letters = unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana); !letters {
				return false
			}
		}
	}
	return letters
}

// divideCJK divides a name in Chinese, Japanese or Korean script. Only a space or a dot marks the end of the
// family name. Names in katakana are foreign.
func divideCJK(words []string) (given, family string) {
	if len(words) == 1 {
		parts := strings.FieldsFunc(words[0], func(r rune) bool { return r == '・' || r == '·' })
		if len(parts) == 2 {
			return parts[0], parts[1]
		}
		return "", ""
	}
	if len(words) != 2 || utf8.RuneCountInString(words[0]) > 4 {
		return "", ""
	}
	if isKatakana(words[0]) && isKatakana(words[1]) {
		return words[0], words[1]
	}
	return words[1], words[0]
}

func isKatakana(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.Is(unicode.Katakana, r) && r != 'ー' }) < 0
}

// isCapitalized reports whether a word is capitalized like a name. It is true for scripts without capital
// letters.
func isCapitalized(w string) bool {
	first, n := utf8.DecodeRuneInString(w)
	return !unicode.IsLower(first) && strings.IndexFunc(w[n:], unicode.IsUpper) < 0 && n < len(w)
}

// isNameWord reports whether a word may be part of a person's name.
func isNameWord(w string) bool {
	first, _ := utf8.DecodeRuneInString(w)
	return (unicode.IsLetter(first) || isParticle(w)) && !strings.ContainsAny(w, ",·")
}

// isInitial reports whether a word is a single letter, or letters with dots.
func isInitial(w string) bool {
	for part := range strings.SplitSeq(strings.Trim(w, "."), ".") {
		if utf8.RuneCountInString(strings.Trim(part, "-")) != 1 {
			return false
		}
	}
	return true
}

func plainWord(w string) string { return strings.ToLower(strings.ReplaceAll(w, ".", "")) }

// isTitleWord reports whether a word before a name is a title.
func isTitleWord(w string) bool {
	switch plainWord(w) {
	case "mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "doctor", "sir", "dame", "lady", "lord", "rev",
		"fr", "hon", "dipl-ing", "ing",
		"eng", "herr", "frau", "mme", "m", "mag", "sr", "sra", "srta", "dra", "don", "doña", "drs", "ir", "er",
		"shri", "smt":
		return plainWord(w) != "m" && plainWord(w) != "fr" && plainWord(w) != "don" || strings.HasSuffix(w, ".")
	}
	return false
}

// isSuffix reports whether a word after a name is a degree or a generation.
func isSuffix(w string) bool {
	switch plainWord(strings.Trim(w, ",")) {
	case "jr", "sr", "jnr", "snr", "ii", "iii", "iv", "phd", "md", "mba", "esq", "msc", "bsc", "cpa", "cfa", "pmp",
		"dds", "jd", "llm", "llb", "ma", "ba",
		"meng", "beng", "mph", "rn", "pe", "cissp", "md phd", "dphil", "dr", "facs", "frcs", "mpa", "mfa", "cisa",
		"shrm-cp", "phr", "ccie", "aia", "pharmd",
		"edd", "dvm", "obe", "mbe", "cbe":
		first, _ := utf8.DecodeRuneInString(w)
		return unicode.IsUpper(first) || strings.Contains(w, ".")
	}
	return false
}

// isSuffixes reports whether all words are degrees or generations.
func isSuffixes(s string) bool {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' })
	return !slices.ContainsFunc(words, func(w string) bool { return !isSuffix(w) })
}

// isParticle reports whether a word belongs to the family name after it.
func isParticle(w string) bool {
	switch strings.ToLower(w) {
	case "van", "von", "der", "den", "de", "del", "della", "di", "da", "do", "dos", "das", "du", "des", "la", "le",
		"los", "las", "el", "al", "bin", "ibn",
		"ter", "ten", "te", "zu", "zur", "zum", "af", "av", "vom", "van't", "'t", "y", "e", "i", "bint", "abu",
		"ben", "st", "st.", "mac", "dello", "dei",
		"degli", "op", "in", "ap":
		return w != "Ben" && w != "In" && w != "I" && w != "Al" && w != "E" && w != "Y" && w != "Mac"
	}
	return false
}

// isVietnamese reports whether a word is a frequent Vietnamese family name in Vietnamese spelling.
func isVietnamese(w string) bool {
	switch w {
	case "Nguyễn", "Trần", "Lê", "Phạm", "Huỳnh", "Hoàng", "Võ", "Vũ", "Đặng", "Bùi", "Đỗ", "Hồ", "Ngô", "Dương",
		"Lý", "Phan", "Trương", "Đinh":
		return w != "Phan"
	}
	return false
}

// isTeamWord reports whether a word indicates that the text is the name of a team or a company.
func isTeamWord(w string) bool {
	switch plainWord(w) {
	case "the", "team", "inc", "ltd", "llc", "gmbh", "corp", "company", "group", "labs", "lab", "bot", "official",
		"project", "software", "solutions",
		"foundation", "studio", "studios", "technologies", "technology", "systems", "university", "community",
		"organization", "club", "and", "und", "of",
		"at", "for", "dev", "developer", "engineer", "engineering", "admin", "support", "account", "user", "test",
		"anonymous", "unknown", "private":
		return true
	}
	return false
}
