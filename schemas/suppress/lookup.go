package suppress

import (
	"crypto/aes"
	"crypto/sha256"
	"strconv"
	"sync/atomic"

	"muster/schemas/record"
)

// batchLookup looks up the identifiers of several records together: filter lookups miss the CPU caches, but
// independent misses overlap and cost little more than one. The result for a record is its first suppressed
// identifier. Single lookups use it, too.
type batchLookup struct {
	set    *Set
	webset uint64 // of the current record
	summer *summer
	found  []Found // result of each record
	raw    string  // last address looked up, as given in the record
	n      int
	open   [lookupBatchSize]lookup
	// The arrays below are parallel to open and separate from it, so that each step touches little memory.
	sums  [lookupBatchSize][sha256.Size]byte
	words [lookupBatchSize]uint32 // of the mark in the filter
	bits  [lookupBatchSize]uint64 // of the mark in its word
	read  [lookupBatchSize]uint64 // the word
	block [aes.BlockSize]byte
}

// lookup is an identifier to look up.
type lookup struct {
	typ    Type
	webset uint64
	record int32 // index in found
	index  uint8
	form   form
	// text is the padded normalized form, if it is short: a copy made while the record is in the CPU caches.
	text  short
	value string // the normalized form, if it is long
	same  int    // index of an identifier with the same normalized form
}

// form is how an identifier is given.
type form uint8

const (
	asSum form = iota
	asShort
	asLong
	asSame
)

// lookupBatchSize is the maximum number of identifiers looked up together.
const lookupBatchSize = 64

// Found is the result for a record: whether it is suppressed, and the hash of the matching entry.
type Found struct {
	Hash Hash
	Hit  bool
}

// Batch looks up several records: identifiers are collected when records are added and looked up together at
// the end. It costs nothing if nothing is suppressed. It must be used by one goroutine.
type Batch struct {
	lookup *batchLookup // nil if nothing is suppressed
}

// Batch begins a batch, which Batch.Found ends. The batch of a nil Set finds nothing.
func (s *Set) Batch() Batch {
	if !s.active() {
		return Batch{}
	}
	return Batch{lookup: s.acquireLookup()}
}

// Add adds a record. A nil record is not suppressed.
func (b Batch) Add(r *record.Record) {
	if b.lookup == nil {
		return
	}
	b.lookup.next(0)
	if r != nil {
		b.lookup.record(r)
	}
}

// Found stores the results of the records in found, in their order, and ends the batch. found must have one
// element per record.
func (b Batch) Found(found []Found) {
	clear(found)
	if b.lookup == nil {
		return
	}
	b.lookup.resolve()
	copy(found, b.lookup.found)
	b.lookup.release()
}

// acquireLookup returns a batchLookup without a current record: call next. release returns it to the pool.
func (s *Set) acquireLookup() *batchLookup {
	a, _ := s.lookups.Get().(*batchLookup)
	if a == nil {
		a = &batchLookup{summer: newSummer()}
	}
	a.set = s
	return a
}

// lookUpRecord returns a batchLookup for a single record of a webset.
func (s *Set) lookUpRecord(webset uint64) *batchLookup {
	a := s.acquireLookup()
	a.next(webset)
	return a
}

// next begins another record, of a webset.
func (a *batchLookup) next(webset uint64) {
	a.webset, a.raw = webset, ""
	a.found = append(a.found, Found{})
}

// standard looks up an identifier by its normalized form, if it is valid and its type was ever suppressed.
func (a *batchLookup) standard(t Type, standard string) {
	if standard == "" {
		return
	}
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.value(t, i, standard)
	}
}

func (a *batchLookup) value(t Type, index int, standard string) {
	i := a.add(t, index)
	if len(standard) > maxShort {
		i.form, i.value = asLong, standard
		return
	}
	i.text.set(standard)
	a.short(i)
}

// short completes a short identifier, whose text is set. Commits of an account alternate between few author
// addresses and one id, so recently hashed forms are reused.
func (a *batchLookup) short(i *lookup) {
	i.form = asShort
	for at := a.n - 2; at >= max(0, a.n-3); at-- {
		if o := &a.open[at]; o.form != asShort && o.form != asSame || o.text != i.text {
			continue
		}
		i.form, i.same = asSame, at
		return
	}
}

// number looks up a number.
func (a *batchLookup) number(t Type, id *int64) {
	if id == nil {
		return
	}
	if index := t.index(); a.set.ofTypes(1 << index) {
		i := a.add(t, index)
		i.text.pad(len(strconv.AppendInt(i.text[:0], *id, 10)))
		a.short(i)
	}
}

// sum looks up an identifier of which only the SHA-256 is known.
func (a *batchLookup) sum(t Type, sum [sha256.Size]byte) {
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.add(t, i).form = asSum
		a.sums[a.n-1] = sum
	}
}

func (a *batchLookup) add(t Type, index int) *lookup {
	if a.n == lookupBatchSize {
		a.resolve()
	}
	i := &a.open[a.n]
	a.n++
	i.typ, i.index, i.webset, i.record = t, uint8(index), a.webset, int32(len(a.found)-1) //nolint:gosec // both are few
	return i
}

// finish ends the lookup of a single record and returns its first suppressed hash.
func (a *batchLookup) finish() (Hash, bool) {
	a.resolve()
	found := a.found[0]
	a.release()
	return found.Hash, found.Hit
}

// release resets the lookup and returns it to the pool.
func (a *batchLookup) release() {
	s := a.set
	a.set, a.found, a.raw = nil, a.found[:0], ""
	s.lookups.Put(a)
}

// resolve looks up the identifiers collected so far.
func (a *batchLookup) resolve() {
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
			i.value = "" // Released.
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
				a.words[at], a.bits[at] = 0, 0 // Looked up by its hash only.
			}
		}
		// Reads only, so that the CPU overlaps the cache misses.
		for at, word := range a.words[:len(open)] {
			a.read[at] = atomic.LoadUint64(&marks.words[word])
		}
	}
	for at := range open {
		i := &open[at]
		if unmarked&(1<<i.index) == 0 && (marks == nil || a.read[at]&a.bits[at] != a.bits[at]) ||
			a.found[i.record].Hit {
			continue
		}
		if h := s.key.Hash(i.typ, a.sums[at]); s.matches(h, i.webset) {
			a.found[i.record] = Found{h, true}
		}
	}
}
