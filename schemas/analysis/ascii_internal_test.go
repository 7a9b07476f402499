package analysis

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts consist of characters that affect word boundaries.
func TestASCII_EqualsGeneral(t *testing.T) {
	const alphabet = "abz019__..''::,,;;--  \"\r\n\t@/\x00\x7f"
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var b strings.Builder
		for range random.IntN(14) {
			b.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		sameAsGeneral(t, b.String())
	}
	for _, s := range []string{strings.Repeat("a", MaxToken), strings.Repeat("a", MaxToken+1),
		strings.Repeat("_", 2*MaxToken), "a\u0301b", "abc é"} {
		sameAsGeneral(t, s)
	}
}

func FuzzASCII(f *testing.F) {
	f.Add("a.b 1,2 c:d _e_ f'g")
	f.Fuzz(func(t *testing.T, s string) { sameAsGeneral(t, lower(s)) })
}

func sameAsGeneral(t *testing.T, s string) {
	t.Helper()
	before := []Token{{Text: "before"}}
	got, ok := ascii(before, s)
	if !ok {
		require.Equal(t, before, got)
		return
	}
	require.Equal(t, general(before, s), got, "%q", s)
}
