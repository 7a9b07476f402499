package suppress

import (
	"crypto/aes"
	"crypto/sha256"
)

// asked are identifiers of one or several records, which are looked up together: each look
// at the filter misses the processor's caches, and misses that do not wait for one another
// cost little more than one; nor is the code that hashes loaded anew for each record. The
// first of a record's identifiers that is suppressed is its answer. One at a time uses it.
type asked struct {
	set    *Set
	webset uint64 // of what is asked for next
	open   []ask
	found  []Found // of each record
	block  [aes.BlockSize]byte
}

// ask is an identifier that is to be looked up.
type ask struct {
	typ    Type
	index  int
	webset uint64
	record int    // of found
	value  string // in its standard form; empty when there is the sum
	sum    [sha256.Size]byte
	mark   uint32
	bits   uint64 // of the mark, in its word
	word   uint64
}

// askedAtOnce is how many identifiers are looked up together at most.
const askedAtOnce = 64

// Found is what a set says of a record: whether it is suppressed, and by which hash.
type Found struct {
	Hash Hash
	Hit  bool
}

// begin returns what is asked with, for one record until next is called; end gives it
// back.
func (s *Set) begin(webset uint64) *asked {
	a, _ := s.asking.Get().(*asked)
	if a == nil {
		a = new(asked)
	}
	a.set = s
	a.next(webset)
	return a
}

// next begins another record, which is of a webset.
func (a *asked) next(webset uint64) {
	a.webset = webset
	a.found = append(a.found, Found{})
}

// standard asks for an identifier in its standard form, if it is one and any of its type
// was ever suppressed.
func (a *asked) standard(t Type, standard string) {
	if standard == "" {
		return
	}
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.add(t, i).value = standard
	}
}

// sum asks for an identifier of which only the sum is known.
func (a *asked) sum(t Type, sum [sha256.Size]byte) {
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.add(t, i).sum = sum
	}
}

func (a *asked) add(t Type, index int) *ask {
	if len(a.open) == askedAtOnce {
		a.look()
	}
	n := len(a.open)
	if n < cap(a.open) {
		a.open = a.open[:n+1]
	} else {
		a.open = append(a.open, ask{})
	}
	i := &a.open[n]
	i.typ, i.index, i.webset, i.record, i.value = t, index, a.webset, len(a.found)-1, ""
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
	a.set, a.found = nil, a.found[:0]
	s.asking.Put(a)
}

// look looks up what was asked for so far.
func (a *asked) look() {
	if len(a.open) == 0 {
		return
	}
	s := a.set
	var last *ask // commits of an account mostly have one author's address
	for at := range a.open {
		switch i := &a.open[at]; {
		case i.value == "":
		case last != nil && i.value == last.value:
			i.sum = last.sum
		default:
			i.sum, last = Sum(i.value), i
		}
	}
	unmarked, marks := s.unmarked.Load(), s.marks.Load()
	if marks != nil {
		for at := range a.open {
			if i := &a.open[at]; i.index < typeCount {
				i.mark = markWith(s.key.marks[i.index], &a.block, &i.sum)
			}
		}
		for at := range a.open {
			i := &a.open[at]
			i.word, i.bits = marks.look(i.mark)
		}
	}
	for at := range a.open {
		i := &a.open[at]
		if a.found[i.record].Hit || unmarked&(1<<i.index) == 0 && (marks == nil || i.word&i.bits != i.bits) {
			continue
		}
		if h := s.key.Hash(i.typ, i.sum); s.hit(h, i.webset) {
			a.found[i.record] = Found{h, true}
		}
	}
	for at := range a.open {
		a.open[at].value = "" // is not kept from being freed
	}
	a.open = a.open[:0]
}
