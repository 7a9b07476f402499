package suppress

import "encoding/binary"

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
