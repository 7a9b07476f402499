package analysis

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Tested for every character.
func TestProperties_AgreeWithLibrary(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		extend := isExtend(r) == joins('漢', r)
		word := isWord(r) == (joins('_', r) && !isExtend(r) && r != '_' && !unicode.Is(unicode.Pc, r) && r != 0x202f)
		connector := !isConnector(r) || joins('a', r) && joins(r, 'a')
		if !extend || !word || !connector { // a million times: require would take most of the time
			require.Failf(t, "differs from the library", "U+%04X: extend %t, word %t, connector %t", r, extend,
				word, connector)
		}
	}
}
