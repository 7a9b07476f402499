package place

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

//go:embed gazetteer.bin.gz
var compressed []byte

var decoded = sync.OnceValues(func() (*Gazetteer, error) { //nolint:gochecknoglobals // a table, never written
	return decode(compressed)
})

// Default returns the embedded gazetteer. It is decoded once per process, which takes about 30 ms and 12 MiB.
func Default() *Gazetteer {
	g, err := decoded()
	if err != nil {
		panic("place: embedded gazetteer: " + err.Error()) // A test decodes it.
	}
	return g
}

// Gazetteer is a table of places.
type Gazetteer struct {
	data      string // the decoded table; names are parts of it
	countries []country
	states    []state
	cities    []city
	zones     []string
	byCode    map[string]uint16 // countries by ISO 3166-1 alpha-2 code
	keys      map[string]int32  // folded name: its first entry of meanings
	meanings  []meaning
	weak      map[string]bool // folded names that are valid only with a country or state
}

type country struct {
	code, name, continent string
	// cityState: the country and its city are one place.
	cityState  bool
	population int64 // of its cities
}

type state struct {
	name       string
	country    uint16
	population int64 // of its cities
}

type city struct {
	name       string
	country    uint16
	state      int32 // -1 for none
	zone       uint16
	population int32 // in hundreds
	// latitude and longitude in units of 1/Degree degrees.
	latitude, longitude int32
}

// Degree is the number of coordinate units of the table in one degree.
const Degree = 1e4

// kind is the kind of place that a name refers to.
type kind uint8

// Kinds of references, as stored in the table.
const (
	countryName kind = iota
	countryCode
	stateName
	stateCode
	cityName
	cityAlternate
	regionName // a region of a state; index is the state
	kinds
)

// level orders kinds from the largest to the smallest places.
func (k kind) level() int {
	switch k {
	case countryName, countryCode:
		return 0
	case stateName, stateCode, regionName:
		return 1
	}
	return 2
}

// meaning is an entry in the list of meanings of a name.
type meaning struct {
	kind  kind
	index int32
	next  int32 // of the same name; -1 for none
}

// reference is one meaning of a name.
type reference struct {
	kind  kind
	index int
	// weight ranks meanings: population in hundreds, reduced for alternate names.
	weight int64
	// weak names are valid only with a country or state.
	weak bool
}

const (
	// maxReferences is the maximum number of meanings considered, the most populous first.
	maxReferences = 24
	// alternateShare reduces the weight of a city under an alternate name: "Frisco" is the city in Texas, not
	// San Francisco.
	alternateShare = 10
)

// lookup returns the meanings of a folded name: countries, then states, then cities, the most populous first.
func (g *Gazetteer) lookup(key []byte) []reference {
	at, ok := g.keys[string(key)]
	if !ok {
		return nil
	}
	weak := g.weak[string(key)]
	refs := make([]reference, 0, 4)
	for ; at >= 0; at = g.meanings[at].next {
		m := &g.meanings[at]
		r := reference{kind: m.kind, index: int(m.index), weak: weak}
		switch m.kind {
		case cityName:
			r.weight = int64(g.cities[m.index].population)
		case cityAlternate:
			r.weight = int64(g.cities[m.index].population) / alternateShare
		case stateName, stateCode, regionName:
			r.weight = g.states[m.index].population
		default:
			r.weight = g.countries[m.index].population
		}
		refs = append(refs, r)
	}
	if len(refs) > 1 {
		slices.SortFunc(refs, func(a, b reference) int {
			return cmp.Or(cmp.Compare(a.kind.level(), b.kind.level()), cmp.Compare(b.weight, a.weight),
				cmp.Compare(a.index, b.index))
		})
	}
	return refs[:min(len(refs), maxReferences)]
}

func decode(packed []byte) (*Gazetteer, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	r := reader{data: string(raw)}
	g := &Gazetteer{data: r.data, byCode: make(map[string]uint16, 256)}
	for i := range r.count() {
		c := country{code: r.string(), name: r.string(), continent: r.string(), cityState: r.uint() == 1}
		g.byCode[c.code] = uint16(i)
		g.countries = append(g.countries, c)
	}
	for range r.count() {
		g.states = append(g.states, state{name: r.string(), country: r.index(len(g.countries))})
	}
	for range r.count() {
		g.zones = append(g.zones, r.string())
	}
	g.readCities(&r)
	g.readNames(&r)
	if r.bad || r.at != len(r.data) {
		return nil, errDamaged
	}
	return g, nil
}

var errDamaged = errors.New("damaged table; regenerate it")

// readCities reads the columns of cities.
func (g *Gazetteer) readCities(r *reader) {
	g.cities = make([]city, r.count())
	for i := range g.cities {
		g.cities[i].name = r.string()
	}
	for i := range g.cities {
		g.cities[i].country = r.index(len(g.countries))
	}
	for i := range g.cities {
		g.cities[i].state = int32(r.index(len(g.states)+1)) - 1
	}
	for i := range g.cities {
		g.cities[i].zone = r.index(len(g.zones))
	}
	for i := range g.cities {
		g.cities[i].latitude = r.int()
	}
	for i := range g.cities {
		g.cities[i].longitude = r.int()
	}
	for i := range g.cities {
		c := &g.cities[i]
		c.population = int32(r.uint()) //nolint:gosec // the greatest city has some 25 million people
		g.countries[c.country].population += int64(c.population)
		if c.state >= 0 {
			g.states[c.state].population += int64(c.population)
		}
	}
}

// readNames reads the names of all places.
func (g *Gazetteer) readNames(r *reader) {
	g.keys, g.weak = make(map[string]int32, 4*len(g.cities)), map[string]bool{}
	for i := range g.cities {
		g.name(Fold(g.cities[i].name), cityName, i)
		for range r.count() {
			key, k := r.string(), cityAlternate
			if r.uint() == 1 {
				k = cityName
			}
			g.name(key, k, i)
		}
	}
	limits := [kinds]int{countryName: len(g.countries), countryCode: len(g.countries), stateName: len(g.states),
		stateCode: len(g.states), regionName: len(g.states)}
	for range r.count() {
		key := r.string()
		for range r.count() {
			v := r.uint()
			k, i := v&7, v>>3
			if k >= uint64(kinds) || i >= uint64(limits[k]) { //nolint:gosec // lengths
				r.bad = true
				return
			}
			g.name(key, kind(k), int(i))
		}
	}
	for range r.count() {
		g.weak[r.string()] = true
	}
}

// name adds a meaning to a name.
func (g *Gazetteer) name(key string, k kind, index int) {
	next, ok := g.keys[key]
	if !ok {
		next = -1
	}
	g.keys[key] = int32(len(g.meanings))                   //nolint:gosec // some 200,000
	m := meaning{kind: k, index: int32(index), next: next} //nolint:gosec // checked by the caller
	g.meanings = append(g.meanings, m)
}

// reader reads a decoded table. After an error it returns zero values and sets bad.
type reader struct {
	data string
	at   int
	bad  bool
}

func (r *reader) uint() uint64 {
	var v uint64
	for shift := 0; shift < 64 && r.at < len(r.data); shift += 7 {
		b := r.data[r.at]
		r.at++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.bad, r.at = true, len(r.data)
	return 0
}

func (r *reader) int() int32 {
	v := r.uint()
	return int32(int64(v>>1) ^ -int64(v&1)) //nolint:gosec // zigzag, as binary.AppendVarint
}

func (r *reader) string() string {
	n := r.uint()
	if n > uint64(len(r.data)-r.at) { //nolint:gosec // not negative
		r.bad, r.at = true, len(r.data)
		return ""
	}
	s := r.data[r.at : r.at+int(n)] //nolint:gosec // checked above
	r.at += len(s)
	return s
}

// count reads the number of the following items, each of at least one byte.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.data)-r.at) { //nolint:gosec // not negative
		r.bad = true
		return 0
	}
	return int(n) //nolint:gosec // checked above
}

// index reads an index below limit.
func (r *reader) index(limit int) uint16 {
	n := r.uint()
	if n >= uint64(limit) || n > 1<<16-1 { //nolint:gosec // a length
		r.bad = true
		return 0
	}
	return uint16(n)
}
