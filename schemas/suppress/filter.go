package suppress

import "sync/atomic"

// filter is a Bloom filter of marks that costs one memory read per lookup: each mark has up to four bits in
// one word. It has no false negatives. It may be read while one goroutine adds.
type filter struct {
	words []uint64
	shift uint
	used  int
}

const (
	// minWords is the minimum size of a filter.
	minWords = 64
	// perWord is the maximum average number of marks per word; the false-positive rate is then about 4 %.
	perWord = 6
)

// newFilter returns a filter with room for twice n marks.
func newFilter(n int) *filter {
	words, shift := minWords, uint(64-6)
	for words*perWord < 2*n {
		words *= 2
		shift--
	}
	return &filter{words: make([]uint64, words), shift: shift}
}

// full reports whether the false-positive rate would exceed the target.
func (f *filter) full() bool { return f == nil || f.used >= perWord*len(f.words) }

// place returns a mark's word and its bits. Multiplication spreads the 32 bits of the mark: upper bits select
// the word, others the bits.
func (f *filter) place(mark uint32) (word uint32, bits uint64) {
	x := uint64(mark) * 0x9e3779b97f4a7c15
	word = uint32(x >> f.shift) //nolint:gosec // below the number of words
	return word, 1<<(x>>8&63) | 1<<(x>>14&63) | 1<<(x>>20&63) | 1<<(x>>26&63)
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
