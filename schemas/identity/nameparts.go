package identity

import (
	"slices"
	"strings"
	"unicode"
)

// NameParts returns the parts of a display name as people of its script write them in Latin letters: for Chinese and
// Korean names, which have no spaces, surname and given name, otherwise NameTokens.
func NameParts(name string) []string {
	isHan := func(r rune) bool { return unicode.Is(unicode.Han, r) }
	isHangul := func(r rune) bool { return unicode.Is(unicode.Hangul, r) }
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, unicode.Hiragana, unicode.Katakana) }):
	case strings.ContainsFunc(name, isHangul):
		return syllabicParts(name, isHangul, koreanSurnames, func(word string, surname bool) string {
			romanized := romanizeHangul(word)
			if surname {
				return usualSurname(romanized)
			}
			return romanized
		})
	case strings.ContainsFunc(name, isHan):
		return syllabicParts(name, isHan, chineseSurnames, func(word string, _ bool) string {
			return strings.Join(NameTokens(word), "")
		})
	}
	return NameTokens(name)
}

// Surnames of two syllables. All others have one.
const (
	chineseSurnames = " 欧阳 歐陽 上官 司马 司馬 诸葛 諸葛 夏侯 皇甫 尉迟 尉遲 公孙 公孫 慕容 令狐 司徒 东方 東方 南宫 南宮 长孙 長孫 宇文 端木 百里 " +
		"独孤 獨孤 西门 西門 轩辕 軒轅 "
	koreanSurnames = " 남궁 황보 제갈 사공 선우 서문 독고 동방 "
)

// syllabicParts splits a name at its spaces. A single word is a surname, of one syllable or in the list of those of
// two, and a given name. Words of other scripts are left out.
func syllabicParts(name string, isSyllable func(rune) bool, surnames string,
	romanize func(word string, surname bool) string) []string {
	words := slices.DeleteFunc(strings.Fields(display(name)), func(w string) bool {
		return !strings.ContainsFunc(w, isSyllable)
	})
	if len(words) == 1 {
		runes, n := []rune(words[0]), 1
		if len(runes) > 2 && strings.Contains(surnames, " "+string(runes[:2])+" ") {
			n = 2
		}
		words = []string{string(runes[:n]), string(runes[n:])}
	}
	var out []string
	for i, w := range words {
		if part := romanize(w, i == 0); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// romanizeHangul returns a word in the Revised Romanization, syllable by syllable, as names are written.
func romanizeHangul(word string) string {
	const first, last = 0xAC00, 0xD7A3
	initials := [...]string{"g", "kk", "n", "d", "tt", "r", "m", "b", "pp", "s", "ss", "", "j", "jj", "ch", "k", "t",
		"p", "h"}
	vowels := [...]string{"a", "ae", "ya", "yae", "eo", "e", "yeo", "ye", "o", "wa", "wae", "oe", "yo", "u", "wo", "we",
		"wi", "yu", "eu", "ui", "i"}
	finals := [...]string{"", "k", "k", "k", "n", "n", "n", "t", "l", "k", "m", "l", "l", "l", "p", "l", "m", "p", "p",
		"t", "t", "ng", "t", "t", "k", "t", "p", "t"}
	var b strings.Builder
	for _, r := range word {
		if r < first || r > last {
			continue
		}
		n := int(r - first)
		b.WriteString(initials[n/(len(vowels)*len(finals))])
		b.WriteString(vowels[n/len(finals)%len(vowels)])
		b.WriteString(finals[n%len(finals)])
	}
	return b.String()
}

// usualSurname returns the usual spelling of a Korean surname in the Revised Romanization.
func usualSurname(surname string) string {
	switch surname {
	case "gim":
		return "kim"
	case "i":
		return "lee"
	case "bak":
		return "park"
	case "choe":
		return "choi"
	case "jeong":
		return "jung"
	case "gang":
		return "kang"
	case "jo":
		return "cho"
	case "yun":
		return "yoon"
	case "im":
		return "lim"
	case "sin":
		return "shin"
	case "gwon":
		return "kwon"
	case "u":
		return "woo"
	case "o":
		return "oh"
	case "an":
		return "ahn"
	case "yu":
		return "yoo"
	}
	return surname
}
