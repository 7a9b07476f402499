package postings

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
)

// window is the number of units that are evaluated at a time, so that their data stays in the processor's caches. A
// multiple of 64.
const window = 4096

// dense is the share of a space above which units are stored as bits: a number takes as much memory as 32 of them.
const dense = 32

// matched is the posting list of a leaf in a space: the rows of a part, or the elements of a nested path of its rows.
type matched struct {
	size int      // of the space
	n    int      // units that match
	bits []uint64 // one for each unit of the space; or
	ids  []uint32 // the units, in order
	// frequencies are the distinct ones. codes has an index into them for each unit, in order; nil if there is only
	// one.
	frequencies []float64
	codes       []uint8
	// exact has the frequencies of the units, in order, if there are too many distinct ones for codes; nil otherwise.
	exact []float64
	// ranks are the numbers of units before each window.
	ranks []uint32
	// spread is the number of elements after the first that match, for each unit; nil if it is always 0.
	spread []uint32
	// more is the sum of spread.
	more int64
}

// bytes returns the memory that the list takes.
func (l *matched) bytes() int {
	return 128 + len(l.codes) + 4*(len(l.ids)+len(l.ranks)+len(l.spread)) +
		8*(len(l.bits)+len(l.frequencies)+len(l.exact))
}

// builder collects the units of a list.
type builder struct {
	size   int
	n      int
	bits   []uint64
	freqs  []float64
	codes  []uint8   // by unit; allocated with the second frequency
	exact  []float64 // by unit; allocated if codes do not suffice
	spread []uint32  // by unit; allocated with the first one
}

func newBuilder(size int) *builder {
	return &builder{size: size, bits: make([]uint64, words(size))}
}

func words(n int) int { return (n + 63) / 64 }

// maxFrequencies is the number of distinct frequencies that codes can represent.
const maxFrequencies = 256

// frequency is a frequency with its code, 0 if there is none.
type frequency struct {
	value float64
	code  uint8
}

// frequency returns the frequency with its code.
func (b *builder) frequency(value float64) frequency {
	for i, f := range b.freqs {
		if f == value {
			return frequency{value, uint8(i)}
		}
	}
	if len(b.freqs) < maxFrequencies {
		b.freqs = append(b.freqs, value)
		if len(b.freqs) == 2 {
			b.codes = make([]uint8, b.size)
		}
		return frequency{value, uint8(len(b.freqs) - 1)} //nolint:gosec // see above
	}
	if b.exact == nil {
		b.exact = make([]float64, b.size)
		for unit, code := range b.codes {
			b.exact[unit] = b.freqs[code]
		}
	}
	return frequency{value: value}
}

// add adds a unit. If it is added several times, the greatest frequency and the greatest spread count.
func (b *builder) add(unit uint32, f frequency, spread uint32) error {
	if int(unit) >= b.size {
		return fmt.Errorf("postings: unit %d of %d", unit, b.size)
	}
	word, bit := &b.bits[unit>>6], uint64(1)<<(unit&63)
	isNew := *word&bit == 0
	if isNew {
		*word |= bit
		b.n++
	}
	switch {
	case b.exact != nil:
		if isNew || b.exact[unit] < f.value {
			b.exact[unit] = f.value
		}
	case b.codes != nil && (isNew || b.freqs[b.codes[unit]] < f.value):
		b.codes[unit] = f.code
	}
	if spread > 0 {
		if b.spread == nil {
			b.spread = make([]uint32, b.size)
		}
		b.spread[unit] = max(b.spread[unit], spread)
	}
	return nil
}

// matched builds the list.
func (b *builder) matched() *matched {
	l := &matched{size: b.size, n: b.n, frequencies: b.freqs, ranks: make([]uint32, b.size/window+2)}
	if len(l.frequencies) == 0 {
		l.frequencies = []float64{1}
	}
	switch {
	case b.exact != nil:
		l.exact = make([]float64, 0, b.n)
	case len(b.freqs) > 1:
		l.codes = make([]uint8, 0, b.n)
	}
	sparse := b.n <= b.size/dense
	if sparse {
		l.ids = make([]uint32, 0, b.n)
	} else {
		l.bits = b.bits
	}
	if b.spread != nil {
		l.spread = make([]uint32, 0, b.n)
	}
	at := 0
	for w, word := range b.bits {
		if w%(window/64) == 0 {
			l.ranks[w/(window/64)] = uint32(at)
		}
		at += bits.OnesCount64(word)
		if !sparse && l.codes == nil && l.exact == nil && l.spread == nil {
			continue
		}
		for ; word != 0; word &= word - 1 {
			unit := uint32(w<<6 + bits.TrailingZeros64(word)) //nolint:gosec // see above
			if sparse {
				l.ids = append(l.ids, unit)
			}
			if l.codes != nil {
				l.codes = append(l.codes, b.codes[unit])
			}
			if l.exact != nil {
				l.exact = append(l.exact, b.exact[unit])
			}
			if l.spread != nil {
				l.spread = append(l.spread, b.spread[unit])
				l.more += int64(b.spread[unit])
			}
		}
	}
	for w := (len(b.bits) + window/64 - 1) / (window / 64); w < len(l.ranks); w++ {
		l.ranks[w] = uint32(at)
	}
	return l
}

// between returns the range in ids of the units from lo to before hi.
func (l *matched) between(lo, hi int) (begin, end int) {
	a, b := int(l.ranks[lo/window]), int(l.ranks[(hi-1)/window+1])
	ids := l.ids[a:b]
	begin = sort.Search(len(ids), func(i int) bool { return int(ids[i]) >= lo })
	end = begin + sort.Search(len(ids)-begin, func(i int) bool { return int(ids[begin+i]) >= hi })
	return a + begin, a + end
}

// rank returns the number of units before one that is a multiple of 64. The list has bits.
func (l *matched) rank(unit int) int {
	r := int(l.ranks[unit/window])
	for w := unit / window * (window / 64); w < unit>>6; w++ {
		r += bits.OnesCount64(l.bits[w])
	}
	return r
}

// place returns the index of a unit in the list. ok is false if the unit does not match.
func (l *matched) place(unit int) (place int, ok bool) {
	if l.bits != nil {
		word, bit := l.bits[unit>>6], unit&63
		return l.rank(unit&^63) + bits.OnesCount64(word&(1<<bit-1)), word>>bit&1 != 0
	}
	if len(l.ids) == 0 {
		return 0, false
	}
	place, end := l.between(unit, unit+1)
	return place, place < end
}

// frequencyOf returns the frequency of the leaf in a unit, 0 if it does not match.
func (l *matched) frequencyOf(unit int) float64 {
	place, ok := l.place(unit)
	switch {
	case !ok:
		return 0
	case l.exact != nil:
		return l.exact[place]
	case l.codes != nil:
		return l.frequencies[l.codes[place]]
	}
	return l.frequencies[0]
}

// each calls visit with each unit and its index in the list.
func (l *matched) each(visit func(unit uint32, place int)) {
	for i, id := range l.ids {
		visit(id, i)
	}
	place := 0
	for w, word := range l.bits {
		for ; word != 0; word &= word - 1 {
			visit(uint32(w<<6+bits.TrailingZeros64(word)), place) //nolint:gosec // a part has fewer rows
			place++
		}
	}
}

// intersects reports whether a unit is in bits; nil has all.
func (l *matched) intersects(bits []uint64) bool {
	if bits == nil {
		return l.n > 0
	}
	for w, word := range l.bits {
		if word&bits[w] != 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.ids, func(id uint32) bool { return bits[id>>6]>>(id&63)&1 != 0 })
}

// readMembers decodes a groupBitmapState: a count followed by four bytes each if there are few, otherwise the length
// and Roaring's portable format.
func readMembers(raw string, visit func(row uint32) error) error {
	data := []byte(raw)
	if len(data) < 2 {
		return fmt.Errorf("postings: rows of %d bytes", len(data))
	}
	kind, data := data[0], data[1:]
	length, n := binary.Uvarint(data)
	if n <= 0 {
		return fmt.Errorf("postings: rows without their length")
	}
	data = data[n:]
	if kind == 0 {
		if uint64(len(data)) != 4*length {
			return fmt.Errorf("postings: %d bytes of %d rows", len(data), length)
		}
		for ; len(data) > 0; data = data[4:] {
			if err := visit(binary.LittleEndian.Uint32(data)); err != nil {
				return err
			}
		}
		return nil
	}
	if uint64(len(data)) != length {
		return fmt.Errorf("postings: %d bytes of rows in place of %d", len(data), length)
	}
	rows := roaring.New()
	if err := rows.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("postings: rows: %w", err)
	}
	buffer := make([]uint32, 1024)
	for i := rows.ManyIterator(); ; {
		some := buffer[:i.NextMany(buffer)]
		if len(some) == 0 {
			return nil
		}
		for _, row := range some {
			if err := visit(row); err != nil {
				return err
			}
		}
	}
}

// Lucene's norms keep a length in a byte (SmallFloat.intToByte4): exact below 40, then four significant bits.
const exactLengths = 24

func normOf(length uint32) uint8 {
	if length < exactLengths {
		return uint8(length)
	}
	i := min(length, math.MaxInt32) - exactLengths
	shift := bits.Len32(i) - 4
	if shift < 0 {
		return uint8(exactLengths + i) //nolint:gosec // below 32
	}
	return uint8(exactLengths + (i>>shift&7 | uint32(shift+1)<<3)) //nolint:gosec // at most 255: shift is at most 28
}

// lengths are the lengths that norms encode.
func lengths() (out [256]float64) {
	for code := range out {
		if code < exactLengths {
			out[code] = float64(code)
			continue
		}
		i := code - exactLengths
		significant, shift := i&7, i>>3-1
		if shift < 0 {
			out[code] = float64(exactLengths + significant)
		} else {
			out[code] = float64(exactLengths) + float64((significant|8)<<shift)
		}
	}
	return out
}
