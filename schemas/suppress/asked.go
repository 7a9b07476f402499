package suppress

import "crypto/sha256"

// askedAtOnce is how many identifiers are looked up together. Most records have fewer.
const askedAtOnce = 8

// asked are identifiers of one record, which are looked up together: each look at the
// filter misses the processor's caches, and misses that do not wait for one another cost
// little more than one. The first that is suppressed is the answer.
type asked struct {
	set    *Set
	webset uint64

	n     int
	types [askedAtOnce]Type
	index [askedAtOnce]int
	sums  [askedAtOnce][sha256.Size]byte

	hash Hash
	hit  bool
}

// standard asks for an identifier in its standard form, if it is one and any of its type
// was ever suppressed.
func (a *asked) standard(t Type, standard string) {
	if standard == "" {
		return
	}
	if i := t.index(); a.set.ofTypes(1 << i) {
		a.sum(t, i, Sum(standard))
	}
}

func (a *asked) sum(t Type, index int, sum [sha256.Size]byte) {
	if a.n == askedAtOnce {
		a.look()
	}
	a.types[a.n], a.index[a.n], a.sums[a.n] = t, index, sum
	a.n++
}

// answer is the first hash that is suppressed in the records of the webset.
func (a *asked) answer() (Hash, bool) {
	a.look()
	return a.hash, a.hit
}

// look looks up what was asked for so far.
func (a *asked) look() {
	n := a.n
	if a.n = 0; a.hit || n == 0 {
		return
	}
	s := a.set
	unmarked, marks := s.unmarked.Load(), s.marks.Load()
	var maybe uint64 // of which it is not sure that they are not in the set
	if marks != nil {
		var of [askedAtOnce]uint32
		var words, bits [askedAtOnce]uint64
		s.key.marksOf(a.index[:n], a.sums[:n], &of)
		for i := range n {
			words[i], bits[i] = marks.look(of[i])
		}
		for i := range n {
			if words[i]&bits[i] == bits[i] {
				maybe |= 1 << i
			}
		}
	}
	for i := range n {
		if maybe&(1<<i) == 0 && unmarked&(1<<a.index[i]) == 0 {
			continue
		}
		if h := s.key.Hash(a.types[i], a.sums[i]); s.hit(h, a.webset) {
			a.hash, a.hit = h, true
			return
		}
	}
}
