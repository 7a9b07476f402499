package suppress

import "encoding/binary"

// table is an exact hash table of [Hash] to a word, with open addressing: 24 bytes
// a place, three quarters of the places used at most. Hashes are random already, so
// their first half says where to begin. A word of 0 marks a free place.
type table struct {
	keys  []Hash
	words []uint64
	used  int
}

const minPlaces = 64

func (t *table) get(h Hash) uint64 {
	if t.used == 0 {
		return 0
	}
	mask := uint64(len(t.keys) - 1) //nolint:gosec // a table with entries has places
	for i := binary.LittleEndian.Uint64(h[:]) & mask; ; i = (i + 1) & mask {
		if t.words[i] == 0 || t.keys[i] == h {
			return t.words[i]
		}
	}
}

// set stores a word, which is not 0.
func (t *table) set(h Hash, word uint64) {
	if 4*(t.used+1) > 3*len(t.keys) {
		t.grow()
	}
	mask := uint64(len(t.keys) - 1) //nolint:gosec // a table with entries has places
	for i := binary.LittleEndian.Uint64(h[:]) & mask; ; i = (i + 1) & mask {
		if t.words[i] == 0 {
			t.keys[i], t.words[i] = h, word
			t.used++
			return
		}
		if t.keys[i] == h {
			t.words[i] = word
			return
		}
	}
}

func (t *table) grow() {
	before := *t
	places := max(minPlaces, 2*len(t.keys))
	*t = table{keys: make([]Hash, places), words: make([]uint64, places)}
	for i, w := range before.words {
		if w != 0 {
			t.set(before.keys[i], w)
		}
	}
}
