package analysis

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The short cuts must agree with what the library's tables say, for every character.
func TestShortcutsAgreeWithTheLibrary(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		extend := isExtend(r) == joins('漢', r)
		word := isWord(r) == (joins('_', r) && !isExtend(r) && r != '_' && !unicode.Is(unicode.Pc, r) && r != 0x202f)
		connector := !isConnector(r) || joins('a', r) && joins(r, 'a')
		if !extend || !word || !connector { // a million times: require would take most of the time
			require.Failf(t, "another answer than the library's", "U+%04X: extend %t, word %t, connector %t", r, extend,
				word, connector)
		}
	}
}
