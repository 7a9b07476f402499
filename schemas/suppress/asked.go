package suppress

import (
	"crypto/aes"
	"crypto/sha256"
	"strconv"
	"sync/atomic"

	"muster/schemas/record"
)

// asked are identifiers of one or several records, which are looked up together: each look
// at the filter misses the processor's caches, and misses that do not wait for one another
// cost little more than one; nor is the code that hashes loaded anew for each record. The
// first of a record's identifiers that is suppressed is its answer. One at a time uses it.
type asked struct {
	set    *Set
	webset uint64 // of what is asked for next
	summer *summer
	found  []Found // of each record
	raw    string  // the address of the record that was asked for last, as the record has it
	n      int
	open   [askedAtOnce]ask
	// What follows is of the identifier of the same place in open, and apart from it: what
	// is done for one after the other touches little memory.
	sums  [askedAtOnce][sha256.Size]byte
	words [askedAtOnce]uint32 // of the mark in the filter
	bits  [askedAtOnce]uint64 // of the mark in its word
	read  [askedAtOnce]uint64 // the word
	block [aes.BlockSize]byte
}

// ask is an identifier that is to be looked up.
type ask struct {
	typ    Type
	webset uint64
	record int32 // of found
	index  uint8
	form   form
	// text is the standard form that is to be hashed, of a short one: a copy, made while
	// the record is in the caches.
	text  short
	value string // of a long one
	same  int    // the place of an identifier with the same standard form
}

// form says how an identifier is given.
type form uint8

const (
	asSum form = iota
	asShort
	asLong
	asSame
)

// askedAtOnce is how many identifiers are looked up together at most.
const askedAtOnce = 64

// Found is what a set says of a record: whether it is suppressed, and by which hash.
type Found struct {
	Hash Hash
	Hit  bool
}

// Batch asks a set for several records, each told as soon as it was read and all looked up
// together at the end. Of a set that suppresses nothing it costs nothing. It is for one
// goroutine.
type Batch struct {
	asked *asked // nil when nothing is suppressed
}

// Batch begins one, which Found ends. A nil Set's finds nothing.
func (s *Set) Batch() Batch {
	if !s.active() {
		return Batch{}
	}
	return Batch{asked: s.ask()}
}

// Add asks for one more record; one that is nil is not suppressed.
func (b Batch) Add(r *record.Record) {
	if b.asked == nil {
		return
	}
	b.asked.next(0)
	if r != nil {
		b.asked.record(r)
	}
}

// Found puts what the set says of the records, in their order, into found, which has a
// place for each. It ends the batch.
func (b Batch) Found(found []Found) {
	clear(found)
	if b.asked == nil {
		return
	}
	b.asked.look()
	copy(found, b.asked.found)
	b.asked.end()
}

// ask returns what is asked with, for no record until next is called; end gives it back.
func (s *Set) ask() *asked {
	a, _ := s.asking.Get().(*asked)
	if a == nil {
		a = &asked{summer: newSummer()}
	}
	a.set = s
	return a
}

// begin is ask for one record.
func (s *Set) begin(webset uint64) *asked {
	a := s.ask()
	a.next(webset)
	return a
}

// next begins another record, which is of a webset.
func (a *asked) next(webset uint64) {
	a.webset, a.raw = webset, ""
	a.found = append(a.found, Found{})
}

// standard asks for an identifier in its standard form, if it is one and any of its type
// was ever suppressed.
func (a *asked) standard(t Type, standard string) {
	if standard == "" {
		return
	}
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.value(t, i, standard)
	}
}

func (a *asked) value(t Type, index int, standard string) {
	i := a.add(t, index)
	if len(standard) > maxShort {
		i.form, i.value = asLong, standard
		return
	}
	i.text.set(standard)
	a.short(i)
}

// short says that the identifier that was added last is a short one, whose text is set.
// Commits of an account mostly have one author's address, and all have its id, in turns:
// what was asked for just before is not hashed again.
func (a *asked) short(i *ask) {
	i.form = asShort
	for at := a.n - 2; at >= max(0, a.n-3); at-- {
		if o := &a.open[at]; o.form != asShort && o.form != asSame || o.text != i.text {
			continue
		}
		i.form, i.same = asSame, at
		return
	}
}

// number asks for a number.
func (a *asked) number(t Type, id *int64) {
	if id == nil {
		return
	}
	if index := t.index(); a.set.ofTypes(1 << index) {
		i := a.add(t, index)
		i.text.pad(len(strconv.AppendInt(i.text[:0], *id, 10)))
		a.short(i)
	}
}

// sum asks for an identifier of which only the sum is known.
func (a *asked) sum(t Type, sum [sha256.Size]byte) {
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.add(t, i).form = asSum
		a.sums[a.n-1] = sum
	}
}

func (a *asked) add(t Type, index int) *ask {
	if a.n == askedAtOnce {
		a.look()
	}
	i := &a.open[a.n]
	a.n++
	i.typ, i.index, i.webset, i.record = t, uint8(index), a.webset, int32(len(a.found)-1) //nolint:gosec // both are few
	return i
}

// answer is the first hash of the one record that is suppressed. It ends the asking.
func (a *asked) answer() (Hash, bool) {
	a.look()
	found := a.found[0]
	a.end()
	return found.Hash, found.Hit
}

// end forgets what was asked for.
func (a *asked) end() {
	s := a.set
	a.set, a.found, a.raw = nil, a.found[:0], ""
	s.asking.Put(a)
}

// look looks up what was asked for so far.
func (a *asked) look() {
	if a.n == 0 {
		return
	}
	s, open := a.set, a.open[:a.n]
	a.n = 0
	for at := range open {
		switch i := &open[at]; i.form {
		case asSum:
		case asShort:
			a.summer.sum(&i.text, &a.sums[at])
		case asLong:
			a.sums[at] = Sum(i.value)
			i.value = "" // is not kept from being freed
		case asSame:
			a.sums[at] = a.sums[i.same]
		}
	}
	unmarked, marks := s.unmarked.Load(), s.marks.Load()
	if marks != nil {
		for at := range open {
			if index := open[at].index; index < typeCount {
				a.words[at], a.bits[at] = marks.place(markWith(s.key.marks[index], &a.block, &a.sums[at]))
			} else {
				a.words[at], a.bits[at] = 0, 0 // looked up by its hash
			}
		}
		// Nothing but reading: the more of it the processor sees ahead, the more of it is
		// read at once.
		for at, word := range a.words[:len(open)] {
			a.read[at] = atomic.LoadUint64(&marks.words[word])
		}
	}
	for at := range open {
		i := &open[at]
		if unmarked&(1<<i.index) == 0 && (marks == nil || a.read[at]&a.bits[at] != a.bits[at]) || a.found[i.record].Hit {
			continue
		}
		if h := s.key.Hash(i.typ, a.sums[at]); s.hit(h, i.webset) {
			a.found[i.record] = Found{h, true}
		}
	}
}
