package text

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
		require.Equal(t, joins('漢', r), isExtend(r), "U+%04X", r)
		require.Equal(t, joins('_', r) && !isExtend(r) && r != '_' && !unicode.Is(unicode.Pc, r) && r != 0x202f, isWord(r), "U+%04X", r)
		if isConnector(r) {
			require.True(t, joins('a', r) && joins(r, 'a'), "U+%04X", r)
		}
	}
}
