package sampledata

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

//go:embed data
var data embed.FS

type country struct {
	code, name, continent, lang string
	legal                       []string
	dial                        string
	cities                      []int
	cityWeight                  weights
}

type city struct {
	name, native, state, region, timezone, postal string
	country                                       int
	lat, lon                                      float64
	slug                                          string
}

// texts are the sentence templates of one language.
type texts struct{ headline, summary, job, bio []string }

type industry struct {
	name, kind  string
	specialties []string
}

type field struct {
	name   string
	titles []string
	skills []string
	majors []string
}

// lexicon holds the embedded word lists.
type lexicon struct {
	countries    []country
	byCode       map[string]int
	cities       []city
	cultures     []*culture
	cultureW     weights
	english      *culture
	text         map[string]*texts
	words        map[string][]string
	industries   []industry
	fields       []field
	fieldW       weights
	techNames    []string
	techTopics   [][]string
	languageName map[string]string
}

// weights samples an index by weight: cumulative sums, binary search.
type weights struct{ cum []float64 }

func newWeights(n int, weight func(i int) float64) weights {
	w := weights{cum: make([]float64, n)}
	sum := 0.0
	for i := range w.cum {
		sum += weight(i)
		w.cum[i] = sum
	}
	return w
}

// zipfMandelbrot returns weights 1/(i+1+q) for rank i, the distribution of name frequencies. A smaller q
// gives a heavier head.
func zipfMandelbrot(n int, q float64) weights {
	return newWeights(n, func(i int) float64 { return 1 / (float64(i) + 1 + q) })
}

func (w weights) pick(r *rng) int {
	if len(w.cum) == 0 {
		return 0
	}
	u := r.f() * w.cum[len(w.cum)-1]
	return min(sort.SearchFloat64s(w.cum, math.Nextafter(u, math.Inf(1))), len(w.cum)-1)
}

func readLines(name string) ([]string, error) {
	b, err := data.ReadFile(path.Join("data", name))
	if err != nil {
		return nil, fmt.Errorf("read word list: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out, nil
}

// readSections reads "[name]" headings with their lines; lines before the first heading have the key "".
func readSections(name string) (map[string][]string, error) {
	lines, err := readLines(name)
	if err != nil {
		return nil, err
	}
	out, section := map[string][]string{}, ""
	for _, l := range lines {
		if strings.HasPrefix(l, "[") && strings.HasSuffix(l, "]") && !strings.ContainsAny(l, " |") {
			section = l[1 : len(l)-1]
			continue
		}
		out[section] = append(out[section], l)
	}
	return out, nil
}

func loadLexicon() (*lexicon, error) {
	lx := &lexicon{byCode: map[string]int{}, text: map[string]*texts{}, words: map[string][]string{},
		languageName: map[string]string{}}
	for _, load := range []func() error{lx.loadPlaces, lx.loadWords, lx.loadTexts, lx.loadCultures} {
		if err := load(); err != nil {
			return nil, err
		}
	}
	return lx, nil
}

func (lx *lexicon) loadPlaces() error {
	lines, err := readLines("countries.txt")
	if err != nil {
		return err
	}
	for _, l := range lines {
		p := strings.Split(l, "|")
		if len(p) != 6 {
			return fmt.Errorf("countries: line %q has %d parts", l, len(p))
		}
		lx.byCode[p[0]] = len(lx.countries)
		lx.countries = append(lx.countries, country{code: p[0], name: p[1], continent: p[2], lang: p[3],
			legal: strings.Split(p[4], ";"), dial: p[5]})
	}
	if lines, err = readLines("cities.txt"); err != nil {
		return err
	}
	weight := map[int][]float64{}
	for _, l := range lines {
		p := strings.Split(l, "|")
		if len(p) != 9 {
			return fmt.Errorf("cities: line %q has %d parts", l, len(p))
		}
		name, native, _ := strings.Cut(p[0], "=")
		c, ok := lx.byCode[p[3]]
		if !ok {
			return fmt.Errorf("cities: unknown country %q", p[3])
		}
		lat, err1 := strconv.ParseFloat(p[4], 64)
		lon, err2 := strconv.ParseFloat(p[5], 64)
		wt, err3 := strconv.ParseFloat(p[8], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			return fmt.Errorf("cities: bad number in %q", l)
		}
		lx.countries[c].cities = append(lx.countries[c].cities, len(lx.cities))
		weight[c] = append(weight[c], wt)
		lx.cities = append(lx.cities, city{name: name, native: native, state: p[1], region: p[2], country: c,
			lat: lat, lon: lon, timezone: p[6], postal: p[7], slug: kebab(name)})
	}
	for c := range lx.countries {
		ws := weight[c]
		if len(ws) == 0 {
			return fmt.Errorf("countries: %s has no city", lx.countries[c].code)
		}
		lx.countries[c].cityWeight = newWeights(len(ws), func(i int) float64 { return ws[i] })
	}
	return nil
}

func (lx *lexicon) loadWords() error {
	sections, err := readSections("words.txt")
	if err != nil {
		return err
	}
	for name, lines := range sections {
		switch name {
		case "industries":
			for _, l := range lines {
				p := strings.Split(l, "|")
				lx.industries = append(lx.industries, industry{name: p[0], kind: p[1], specialties: strings.Split(p[2],
					",")})
			}
		case "fields", "tech", "languages", "majors":
		case "repo.desc", "certs":
			lx.words[name] = lines
		default:
			joined := strings.Join(lines, "\n")
			if strings.Contains(joined, "|") {
				for _, w := range strings.Split(strings.ReplaceAll(joined, "\n", "|"), "|") {
					lx.words[name] = append(lx.words[name], strings.ReplaceAll(w, `\n`, "\n"))
				}
			} else {
				lx.words[name] = strings.Fields(joined)
			}
		}
	}
	majors := map[string][]string{}
	for _, l := range sections["majors"] {
		k, v, _ := strings.Cut(l, "=")
		majors[k] = strings.Split(v, ",")
	}
	var fieldWeight []float64
	for _, l := range sections["fields"] {
		p := strings.Split(l, "|")
		wt, err := strconv.ParseFloat(p[1], 64)
		if err != nil {
			return fmt.Errorf("fields: %w", err)
		}
		fieldWeight = append(fieldWeight, wt)
		lx.fields = append(lx.fields, field{name: p[0], titles: strings.Split(p[2], ","),
			skills: lx.words["skills."+p[0]], majors: majors[p[0]]})
	}
	lx.fieldW = newWeights(len(fieldWeight), func(i int) float64 { return fieldWeight[i] })
	for _, l := range sections["tech"] {
		name, topics, _ := strings.Cut(l, "|")
		lx.techNames = append(lx.techNames, name)
		lx.techTopics = append(lx.techTopics, strings.Fields(topics))
	}
	for _, l := range strings.Split(strings.Join(sections["languages"], "|"), "|") {
		code, name, _ := strings.Cut(l, "=")
		lx.languageName[code] = name
	}
	return nil
}

func (lx *lexicon) loadTexts() error {
	for c := range lx.countries {
		lang := lx.countries[c].lang
		if lx.text[lang] != nil {
			continue
		}
		s, err := readSections("text/" + lang + ".txt")
		if err != nil {
			return err
		}
		t := &texts{headline: s["headline"], summary: s["summary"], job: s["job"], bio: s["bio"]}
		for i, j := range t.job {
			t.job[i] = strings.ReplaceAll(j, `\n`, "\n")
		}
		if len(t.headline) == 0 || len(t.summary) == 0 || len(t.job) == 0 || len(t.bio) == 0 {
			return fmt.Errorf("texts %s: a section is empty", lang)
		}
		lx.text[lang] = t
	}
	return nil
}

func (lx *lexicon) loadCultures() error {
	files, err := fs.Glob(data, "data/names/*.txt")
	if err != nil {
		return fmt.Errorf("list cultures: %w", err)
	}
	slices.Sort(files)
	for _, f := range files {
		c, err := lx.readCulture(path.Base(f))
		if err != nil {
			return err
		}
		if c.code == "en" {
			lx.english = c
		}
		lx.cultures = append(lx.cultures, c)
	}
	lx.cultureW = newWeights(len(lx.cultures), func(i int) float64 { return float64(lx.cultures[i].weight) })
	return nil
}
