package sampledata

import "math/bits"

// rng is SplitMix64. It is not math/rand/v2 because a stream is opened for every (person, purpose), thousands
// of times per millisecond, and because golden hashes of the output must not change with Go releases.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return finish(uint64(*r))
}

func finish(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// mix hashes its arguments to the start of a stream.
func mix(seed uint64, parts ...uint64) uint64 {
	h := finish(seed + 0x632be59bd9b4e019)
	for _, p := range parts {
		h = finish(h ^ (p+0x9e3779b97f4a7c15)*0xd6e8feb86659fd93)
	}
	return h
}

// n returns a number in [0, max), or 0 if max is not positive.
func (r *rng) n(max int) int {
	if max <= 0 {
		return 0
	}
	hi, _ := bits.Mul64(r.next(), uint64(max))
	return int(hi)
}

// f returns a number in [0, 1).
func (r *rng) f() float64 { return float64(r.next()>>11) / (1 << 53) }

// chance returns true with the given probability in percent.
func (r *rng) chance(percent float64) bool { return r.f()*100 < percent }

func (r *rng) pick(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[r.n(len(list))]
}

// permutation is a keyed bijection of [0, size): a Feistel network over the next even number of bits,
// repeated until the value is in range. It shuffles record order and assigns identities without a table.
type permutation struct {
	size uint64
	half uint
	mask uint64
	keys [4]uint64
}

func newPermutation(size, key uint64) permutation {
	half := max((uint(bits.Len64(max(size, 2)-1))+1)/2, 1)
	p := permutation{size: size, half: half, mask: 1<<half - 1}
	for i := range p.keys {
		p.keys[i] = mix(key, uint64(i))
	}
	return p
}

func (p *permutation) at(x uint64) uint64 {
	for {
		l, r := x>>p.half, x&p.mask
		for _, k := range p.keys {
			l, r = r, l^(finish(r^k)&p.mask)
		}
		x = l<<p.half | r
		if x < p.size {
			return x
		}
	}
}

// index is the inverse of at.
func (p *permutation) index(y uint64) uint64 {
	for {
		l, r := y>>p.half, y&p.mask
		for i := len(p.keys) - 1; i >= 0; i-- {
			l, r = r^(finish(l^p.keys[i])&p.mask), l
		}
		y = l<<p.half | r
		if y < p.size {
			return y
		}
	}
}
