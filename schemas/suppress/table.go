package suppress

import "encoding/binary"

// table is an exact hash table of [Hash] to a word and a mark, with open addressing: 28
// bytes a place, three quarters of the places used at most. Hashes are random already, so
// their first half says where to begin. A word of 0 marks a free place.
type table struct {
	keys  []Hash
	words []uint64
	marks []uint32
	used  int
}

const minPlaces = 64

// place is where a hash is, or would be, in a table that has places.
func (t *table) place(h Hash) uint64 {
	mask := uint64(len(t.keys) - 1) //nolint:gosec // a table with entries has places
	for i := binary.LittleEndian.Uint64(h[:]) & mask; ; i = (i + 1) & mask {
		if t.words[i] == 0 || t.keys[i] == h {
			return i
		}
	}
}

// get returns the word of a hash, 0 if it is not there.
func (t *table) get(h Hash) uint64 {
	if t.used == 0 {
		return 0
	}
	return t.words[t.place(h)]
}

// mark returns the mark of a hash, 0 if it has none.
func (t *table) mark(h Hash) uint32 {
	if t.used == 0 {
		return 0
	}
	return t.marks[t.place(h)]
}

// set stores a word, which is not 0, and a mark.
func (t *table) set(h Hash, word uint64, mark uint32) {
	if 4*(t.used+1) > 3*len(t.keys) {
		t.grow()
	}
	i := t.place(h)
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

// filter is a filter of all marks.
func (t *table) filter(n int) *filter {
	f := newFilter(n)
	for _, mark := range t.marks {
		if mark != 0 {
			f.add(mark)
		}
	}
	return f
}
