package identity

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFoldTransliterations_EqualsReplacer(t *testing.T) {
	oracle := strings.NewReplacer("ph", "f", "ck", "k", "kh", "h", "x", "ks", "c", "k", "q", "k", "w", "v", "z", "s",
		"j", "y")
	const alphabet = "phckxqwzjaeb"
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		word := make([]byte, random.IntN(9))
		for i := range word {
			word[i] = alphabet[random.IntN(len(alphabet))]
		}
		require.Equal(t, oracle.Replace(string(word)), FoldTransliterations(string(word)), "%s", word)
	}
}
