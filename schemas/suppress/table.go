package suppress

import (
	"encoding/binary"
	"sync/atomic"
)

// table is a hash table from [Hash] to a word and a mark with open addressing: 28 bytes per slot, at most
// three quarters full. Hashes are uniformly random, so their first half is the starting slot. The word 0
// marks a free slot.
type table struct {
	keys  []Hash
	words []uint64
	marks []uint32
	used  int
}

const minPlaces = 64

// slot returns the slot of a hash, or the free slot where it would be stored. The table must not be empty.
func (t *table) slot(h Hash) uint64 {
	mask := uint64(len(t.keys) - 1) //nolint:gosec // positive
	for i := binary.LittleEndian.Uint64(h[:]) & mask; ; i = (i + 1) & mask {
		if t.words[i] == 0 || t.keys[i] == h {
			return i
		}
	}
}

// get returns the word of a hash, 0 if it is missing.
func (t *table) get(h Hash) uint64 {
	if t.used == 0 {
		return 0
	}
	return t.words[t.slot(h)]
}

// mark returns the mark of a hash, 0 if it has none.
func (t *table) mark(h Hash) uint32 {
	if t.used == 0 {
		return 0
	}
	return t.marks[t.slot(h)]
}

// set stores a word, which must not be 0, and a mark.
func (t *table) set(h Hash, word uint64, mark uint32) {
	if 4*(t.used+1) > 3*len(t.keys) {
		t.grow()
	}
	i := t.slot(h)
	if t.words[i] == 0 {
		t.used++
	}
	t.keys[i], t.words[i], t.marks[i] = h, word, mark
}

func (t *table) grow() {
	before := *t
	places := max(minPlaces, 2*len(t.keys))
	*t = table{keys: make([]Hash, places), words: make([]uint64, places), marks: make([]uint32, places)}
	for i, w := range before.words {
		if w != 0 {
			t.set(before.keys[i], w, before.marks[i])
		}
	}
}

// filter returns a filter of all marks.
func (t *table) filter(n int) *filter {
	f := newFilter(n)
	for _, mark := range t.marks {
		if mark != 0 {
			f.add(mark)
		}
	}
	return f
}

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
	bits = 1<<(x>>8&63) | 1<<(x>>14&63) | 1<<(x>>20&63) | 1<<(x>>26&63)
	return uint32(x >> f.shift), bits //nolint:gosec // below the number of words
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
