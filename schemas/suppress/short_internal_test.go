package suppress

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// With and without access to the state of SHA-256.
func TestShort_EqualsLibrary(t *testing.T) {
	s := newSummer()
	require.NotNil(t, s.state, "unknown state of SHA-256: sums of identifiers take longer")
	plain := &summer{hash: sha256.New()}
	b := short([]byte(strings.Repeat("x", len(short{})))) // previous contents
	var sum [sha256.Size]byte
	for n := range maxShort + 1 {
		text := strings.Repeat("é€", n)[:n]
		b.set(text)
		s.sum(&b, &sum)
		require.Equal(t, Sum(text), sum, n)
		plain.sum(&b, &sum)
		require.Equal(t, Sum(text), sum, n)
	}
}

func FuzzShort(f *testing.F) {
	f.Add("ada@example.com")
	s := newSummer()
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxShort {
			return
		}
		var b short
		var sum [sha256.Size]byte
		b.set(text)
		s.sum(&b, &sum)
		require.Equal(t, Sum(text), sum)
	})
}

// Tested at the maximum number of marks per word.
func TestFilter_FalsePositiveRate(t *testing.T) {
	var f *filter
	mark := func(i uint64) uint32 { // pseudorandom, like real marks
		i *= 0xff51afd7ed558ccd
		i ^= i >> 33
		i *= 0xc4ceb9fe1a85ec53
		return uint32(i >> 32)
	}
	f = newFilter(100_000)
	added := uint64(0)
	for ; !f.full(); added++ {
		f.add(mark(added))
	}
	for i := range added {
		require.True(t, f.has(mark(i)))
	}
	const tries = 100_000
	wrong := 0
	for i := range uint64(tries) {
		if f.has(mark(added + i)) {
			wrong++
		}
	}
	t.Logf("%d of %d", wrong, tries)
	require.Less(t, wrong, tries/40)
}
