package suppress

import "sync/atomic"

// filter says of most marks that they are not in it, with one read of memory: two bits
// a mark, both in one word. A mark that was added is always found. It is read beside
// whoever adds to it; only one adds at a time.
type filter struct {
	words []uint64
	shift uint
	used  int
}

const (
	// minWords is how small a filter may be.
	minWords = 64
	// perWord is how many marks a word takes at most, on average: at that some 4 % of
	// the marks that are not in a filter are found in it all the same.
	perWord = 6
)

// newFilter returns a filter with room for so many marks and as many again.
func newFilter(n int) *filter {
	words, shift := minWords, uint(64-6)
	for words*perWord < 2*n {
		words *= 2
		shift--
	}
	return &filter{words: make([]uint64, words), shift: shift}
}

// full says that the filter would begin to say little.
func (f *filter) full() bool { return f == nil || f.used >= perWord*len(f.words) }

// place is a mark's word and its bits there. The product spreads the 32 bits of a mark:
// the word is told by its upper bits, and the bits by others.
func (f *filter) place(mark uint32) (word uint32, bits uint64) {
	x := uint64(mark) * 0x9e3779b97f4a7c15
	return uint32(x >> f.shift), 1<<(x>>8&63) | 1<<(x>>14&63) | 1<<(x>>20&63) | 1<<(x>>26&63) //nolint:gosec // below the number of words
}

func (f *filter) add(mark uint32) {
	word, bits := f.place(mark)
	atomic.OrUint64(&f.words[word], bits)
	f.used++
}

func (f *filter) has(mark uint32) bool {
	if f == nil {
		return false
	}
	at, bits := f.place(mark)
	return atomic.LoadUint64(&f.words[at])&bits == bits
}
