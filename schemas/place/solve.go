package place

import "slices"

// reading is a consistent interpretation of all parts of a text.
type reading struct {
	spot spot
	// kinds has the level of each part, from 1, in two bits each.
	kinds uint32
	// weight is the weight of the most precise part, whose level is level.
	weight int64
	level  int
}

// solve returns the place that all parts agree on.
func (v *solver) solve() (s spot, sure bool) {
	known, unknown, named, area := v.count()
	if known == 0 {
		return unknownSpot(), false
	}
	readings := v.readings()
	if len(readings) == 0 {
		return unknownSpot(), false
	}
	best, sure := v.choose(readings, known == 1)
	if best.country < 0 {
		return best, false
	}
	if unknown > 0 && !named && !v.isLargeCity(best) {
		return unknownSpot(), false
	}
	if area {
		best.city = -1
	}
	return best, sure
}

// count counts the parts by what is known of them.
func (v *solver) count() (known, unknown int, named, area bool) {
	for i := range v.parts {
		p := &v.parts[i]
		switch {
		case p.noise:
		case p.unknown:
			unknown++
		default:
			known++
			named = named || p.named && !v.isCity(p) || p.upper && isUnambiguous(p.refs)
			area = area || p.area
		}
	}
	return known, unknown, named, area
}

// isCity reports whether a part may name a city, so that it does not locate another part.
func (v *solver) isCity(p *part) bool {
	return slices.ContainsFunc(p.refs, func(r reference) bool { return r.kind == cityName }) && !hasCountry(p.refs)
}

func hasCountry(refs []reference) bool {
	return slices.ContainsFunc(refs, func(r reference) bool { return r.kind == countryName })
}

// isUnambiguous reports whether a code has a single country or state as meaning.
func isUnambiguous(refs []reference) bool {
	return len(slices.DeleteFunc(slices.Clone(refs), func(r reference) bool { return r.kind.level() == 2 })) == 1
}

// isLargeCity reports whether a place is a city that is usually named without state or country.
func (v *solver) isLargeCity(s spot) bool {
	last := v.parts[len(v.parts)-1]
	if s.city < 0 || last.unknown || last.noise {
		return false
	}
	size := int64(v.g.cities[s.city].population)
	if size < largeCity {
		return false
	}
	for _, r := range last.refs {
		if r.index != s.city && r.kind.level() == 2 && r.weight*largeCityShare > size {
			return false
		}
	}
	return true
}

// readings returns all consistent interpretations of the known parts: at most one city, one state and one
// country each.
func (v *solver) readings() []reading {
	out := []reading{{spot: unknownSpot()}}
	n := 0
	for i := range v.parts {
		p := &v.parts[i]
		if p.noise || p.unknown {
			continue
		}
		var next []reading
		for _, have := range out {
			for _, r := range p.refs {
				both, ok := have.spot.merge(v.g.spotOf(r))
				if !ok {
					continue
				}
				level := r.kind.level() + 1
				kinds := have.kinds | uint32(level)<<(2*n) //nolint:gosec // at most 3
				add := reading{spot: both, kinds: kinds, weight: have.weight, level: have.level}
				if level > have.level {
					add.weight, add.level = r.weight, level
				}
				next = append(next, add)
			}
		}
		if len(next) > 4*maxReferences {
			next = next[:4*maxReferences]
		}
		out, n = next, n+1
	}
	if n == 1 {
		return v.single(out)
	}
	return out
}

// single drops interpretations of a text of one part that need further parts.
func (v *solver) single(list []reading) []reading {
	i := slices.IndexFunc(v.parts, func(p part) bool { return !p.noise && !p.unknown })
	p := &v.parts[i]
	code := p.upper && isUnambiguous(p.refs) && len(v.parts) > 1
	kept := list[:0]
	for j, r := range list {
		isCode := p.refs[j].kind == countryCode || p.refs[j].kind == stateCode
		if isCode && code || !isCode && !p.refs[j].weak {
			kept = append(kept, r)
		}
	}
	return kept
}

// choose returns the common place of the readings. Among cities with the same name, the most populous wins.
// alone: the text has a single part.
func (v *solver) choose(list []reading, alone bool) (s spot, sure bool) {
	var best []reading // one of each way to read
	for _, r := range list {
		switch i := slices.IndexFunc(best, func(b reading) bool { return b.kinds == r.kinds }); {
		case i < 0:
			best = append(best, r)
		case r.spot.city < 0 && r.weight < decisive*best[i].weight && best[i].weight < decisive*r.weight:
			// States with the same name differ only in size.
			best[i].spot, best[i].weight = best[i].spot.common(r.spot), max(best[i].weight, r.weight)
		case r.weight > best[i].weight:
			best[i] = r
		}
	}
	result := best[0]
	for _, r := range best[1:] {
		result = v.prefer(result, r, alone)
	}
	for _, r := range list {
		if c := result.spot; c.city >= 0 && r.spot.city >= 0 && r.spot.country == c.country &&
			r.spot.state != c.state &&
			sureShare*r.weight > result.weight {
			return c, false
		}
	}
	return result.spot, true
}

const (
	// decisive is the minimum population ratio to a place of another kind with the same name.
	decisive = 10
	// cityShare is the maximum population ratio of a state to a city with its name for the city to win.
	cityShare = 3
	// innerShare is the same for a city in the state with its name: New York, but not Quebec.
	innerShare = 8
	// sureShare is the minimum population ratio of a city to a namesake in its country for its state to be
	// returned.
	sureShare = 2
)

// prefer returns the preferred reading, or what both have in common.
func (v *solver) prefer(a, b reading, alone bool) reading {
	inner := a.spot.within(b.spot)
	if !inner {
		if inner = b.spot.within(a.spot); inner || b.spot.city >= 0 {
			a, b = b, a
		}
	}
	sizeA, sizeB := v.size(a), v.size(b)
	switch {
	case a.spot == b.spot:
		return a
	case b.spot.country < 0: // namesakes that exclude each other
		if a.spot.city >= 0 && sizeA > sizeB/cityShare {
			return a
		}
		return b
	case inner && b.spot.state < 0:
		if alone && !v.g.countries[b.spot.country].cityState {
			return b // the name of a country means the country
		}
		return a
	case inner && b.spot.city < 0 && a.spot.city >= 0:
		if sizeA*innerShare < sizeB && !b.repeats() {
			return b
		}
		return a
	case inner:
		return a
	case a.spot.city >= 0 && b.spot.city < 0 && b.spot.state >= 0: // a city, and a state somewhere else
		if sizeA*cityShare >= sizeB && (alone || a.spot.country == b.spot.country) {
			return a
		}
		if alone && sizeB > sizeA*decisive {
			return b
		}
	case alone && b.spot.state < 0 && (a.spot.city >= 0 || sizeA*decisive < sizeB):
		return b // the name of a country, unless a state of another one is as well known: Georgia
	case alone && a.spot.state < 0 && (b.spot.city >= 0 || sizeB*decisive < sizeA):
		return a
	}
	return reading{spot: a.spot.common(b.spot), kinds: a.kinds, weight: max(a.weight, b.weight)}
}

// repeats reports whether two parts name the same state: the first may then name the city ("Québec, QC").
func (r reading) repeats() bool {
	states := 0
	for k := r.kinds; k > 0; k >>= 2 {
		if k&3 == 2 {
			states++
		}
	}
	return states > 1
}

// size returns the population of a reading's place in hundreds, independent of the name used.
func (v *solver) size(r reading) int64 {
	if r.spot.city >= 0 {
		return int64(v.g.cities[r.spot.city].population)
	}
	return r.weight
}
