package cursor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is encoded can be decoded again, or is refused.
func TestSize(t *testing.T) {
	key, query, now := make([]byte, KeySize), []byte("q"), time.Now()
	words := func(n int) Cursor {
		return Cursor{Query: query, Now: now.UnixMilli(), Expansions: map[string][]string{"w": {strings.Repeat("a", n)}}}
	}
	text, err := Encode(words(maxSize-200), key)
	require.NoError(t, err)
	c, err := Decode(text, query, now, key)
	require.NoError(t, err)
	require.Len(t, c.Expansions["w"][0], maxSize-200)
	_, err = Encode(words(maxSize), key)
	require.ErrorIs(t, err, ErrTooLarge)
}
