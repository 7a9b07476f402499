package extract

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"muster/schemas/identity"
)

// defaultConfidence is a request's when it names none (interface.md, Limits).
const defaultConfidence = 0.9

// sample is an input with the answer that was written for it.
type sample struct {
	set, name string
	in        Input
	want      []string // "path: value", sorted
}

func (s sample) String() string { return s.set + "/" + s.name }

// samples reads the inputs of a folder.
func readSamples(t testing.TB, folder string) []sample {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	require.NoError(t, err)
	var all []sample
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		form := strings.TrimSuffix(filepath.Base(file), ".txtar")
		for _, part := range archive.Files {
			name, what, ok := strings.Cut(part.Name, "/")
			require.True(t, ok, part.Name)
			if what != "want" {
				s := sample{set: form, name: name}
				if what == "input.json" {
					s.in.Object = jsontext.Value(strings.TrimSpace(string(part.Data)))
				} else {
					s.in.Text = string(part.Data)
				}
				all = append(all, s)
				continue
			}
			all[len(all)-1].want = parseGolden(t, string(part.Data))
		}
	}
	long := 900 << 10
	if testing.Short() {
		long /= 16 // TestBounded says what length costs
	}
	for i, s := range all {
		switch s.String() {
		case "edges/long-text":
			all[i].in.Text = padded(findSample(t, all, "bio/speaker").in.Text, long)
		case "edges/long-object":
			flat := string(findSample(t, all, "json/flat").in.Object)
			var log []string
			for n := range long / 46 {
				log = append(log, fmt.Sprintf("%q", strings.Repeat(strconv.Itoa(100_000+n*31)+" ", 6)))
			}
			all[i].in = Input{Object: jsontext.Value(strings.TrimSuffix(flat, "}") + `, "log": [` + strings.Join(log, ",") + "]}")}
		}
	}
	return all
}

// filler is a text followed by words that say nothing, up to a length.
func padded(text string, length int) string {
	b := strings.Builder{}
	b.WriteString(text)
	words := strings.Fields("the wind turned over the harbour while several boats waited for a tide that nobody had promised them and rain fell")
	for i := 0; b.Len() < length-20; i++ {
		b.WriteString(words[(i*i+i/7)%len(words)])
		switch {
		case i%90 == 89:
			b.WriteString(".\n\n")
		case i%15 == 14:
			b.WriteString(". ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func findSample(t testing.TB, all []sample, name string) sample {
	i := slices.IndexFunc(all, func(s sample) bool { return s.String() == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

// wanted takes the lines of a golden answer apart.
func parseGolden(t testing.TB, text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		require.True(t, ok, line)
		switch key {
		case "past", "education":
			names := map[string][]string{"past": {"title", "company", "start", "end"}, "education": {"school", "degree", "field", "start", "end"}}[key]
			parts := strings.Split(value, "|")
			require.Len(t, parts, len(names), line)
			for i, p := range parts {
				if p = strings.TrimSpace(p); p != "" {
					all = append(all, key+"."+names[i]+": "+p)
				}
			}
		case "skills", "languages":
			for p := range strings.SplitSeq(value, " | ") {
				all = append(all, key+": "+strings.TrimSpace(p))
			}
		default:
			all = append(all, key+": "+value)
		}
	}
	slices.Sort(all)
	return all
}

// flat writes a profile in the golden answers' lines, without what is less sure.
func profileLines(t testing.TB, p Profile, confidence float64) []string {
	var all []string
	add := func(key, value string) {
		if value != "" {
			all = append(all, key+": "+value)
		}
	}
	for path, f := range p.Fields {
		if f.Confidence < confidence {
			continue
		}
		switch path {
		case "microblog.username", "microblog.url": // a line of the identifier
		case "experience":
			var list []listedJob
			require.NoError(t, json.Unmarshal(f.Value, &list))
			for _, j := range list {
				if !j.Current {
					add("past.title", j.Summary)
					if j.Company != nil {
						add("past.company", j.Company.Name)
					}
					add("past.start", j.Start)
					add("past.end", j.End)
				}
			}
		case "education":
			var list []listedSchool
			require.NoError(t, json.Unmarshal(f.Value, &list))
			for _, s := range list {
				if s.School != nil {
					add("education.school", s.School.Name)
				}
				add("education.degree", strings.Join(s.Degrees, "; "))
				add("education.field", strings.Join(s.Majors, "; "))
				add("education.start", s.Start)
				add("education.end", s.End)
			}
		case "skills":
			var list []listedSkill
			require.NoError(t, json.Unmarshal(f.Value, &list))
			for _, s := range list {
				add(path, s.Skill)
			}
		case "languages":
			var list []listedLanguage
			require.NoError(t, json.Unmarshal(f.Value, &list))
			for _, s := range list {
				add(path, s.Language)
			}
		case "codehost.id":
			add(path, string(f.Value))
		default:
			var s string
			require.NoError(t, json.Unmarshal(f.Value, &s), path)
			add(path, s)
		}
	}
	for _, id := range p.Identifiers {
		switch {
		case id.Confidence < confidence:
		case id.Type == Account && id.Platform == identity.Microblog:
			add("microblog", id.Value)
		case id.Type == Email || id.Type == Phone || id.Type == URL:
			add(id.Type, id.Value)
		}
	}
	slices.Sort(all)
	return all
}

// score counts the values that are right, wrong and missing.
type score struct{ right, wrong, missing int }

func (s *score) add(o score) { s.right += o.right; s.wrong += o.wrong; s.missing += o.missing }

func (s score) precision() float64 { return ratio(s.right, s.right+s.wrong) }
func (s score) recall() float64    { return ratio(s.right, s.right+s.missing) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 1
	}
	return float64(a) / float64(b)
}

// isIdentifier reports whether a line names an identifier rather than a field.
func isIdentifier(line string) bool {
	key, _, _ := strings.Cut(line, ":")
	return key == Email || key == Phone || key == URL || key == "microblog"
}

// judge compares two sorted lists of lines; what differs is listed in out.
func scoreLines(want, got []string, skip func(string) bool, out *strings.Builder) score {
	var s score
	left := slices.Clone(want)
	for _, g := range got {
		if skip(g) {
			continue
		}
		if i := slices.Index(left, g); i >= 0 {
			left = slices.Delete(left, i, i+1)
			s.right++
			continue
		}
		s.wrong++
		fmt.Fprintf(out, "    + %s\n", g)
	}
	for _, w := range left {
		if !skip(w) {
			s.missing++
			fmt.Fprintf(out, "    - %s\n", w)
		}
	}
	return s
}

// read is what the extractor makes of a folder's inputs.
type extraction struct {
	sample
	profile Profile
}

// readAll reads a folder once: what is asked of it is asked at several confidences.
func extractAll(t *testing.T, folder string) []extraction {
	e, err := New(Options{})
	require.NoError(t, err)
	var all []extraction
	for _, s := range readSamples(t, folder) {
		p, err := e.Extract(t.Context(), s.in)
		require.NoError(t, err, s)
		all = append(all, extraction{s, p})
	}
	return all
}

// judged is the outcome of a folder.
func scoreAll(t *testing.T, folder string, all []extraction, confidence float64) (fields, identifiers score) {
	forms := map[string]*score{}
	var order []string
	for _, s := range all {
		got := profileLines(t, s.profile, confidence)
		var difference strings.Builder
		f := scoreLines(s.want, got, isIdentifier, &difference)
		identifiers.add(scoreLines(s.want, got, func(l string) bool { return !isIdentifier(l) }, &difference))
		fields.add(f)
		if forms[s.set] == nil {
			forms[s.set] = &score{}
			order = append(order, s.set)
		}
		forms[s.set].add(f)
		if difference.Len() > 0 && os.Getenv("EXTRACT_DIFFERENCES") != "" {
			t.Logf("%s\n%s", s, difference.String())
		}
	}
	for _, form := range order {
		t.Logf("%-14s precision %.3f recall %.3f (%d values)", form, forms[form].precision(), forms[form].recall(), forms[form].right+forms[form].missing)
	}
	t.Logf("%s from confidence %.1f: fields precision %.3f recall %.3f %+v; identifiers precision %.3f recall %.3f %+v",
		folder, confidence, fields.precision(), fields.recall(), fields, identifiers.precision(), identifiers.recall(), identifiers)
	return fields, identifiers
}

// The 100 golden answers hold, at the confidence that a request has by default and
// at none: precision at least 0.95, recall at least 0.8.
func TestExtractor_Golden(t *testing.T) {
	all := extractAll(t, "golden")
	require.Len(t, all, 100)
	for _, confidence := range []float64{defaultConfidence, 0} {
		fields, identifiers := scoreAll(t, "golden", all, confidence)
		for _, s := range []score{fields, identifiers} {
			require.GreaterOrEqual(t, s.precision(), 0.95)
			require.GreaterOrEqual(t, s.recall(), 0.8)
		}
	}
}

// 30 inputs in forms that no golden one has. The kinds of their misses were worked on,
// so what is printed is not blind. What the sets that follow gave when they were
// first run, and how to run that again, is in testdata/golden/README.md: a form that
// nobody thought of is read poorly.
func TestExtractor_GoldenHeldOut(t *testing.T) {
	all := extractAll(t, "heldout")
	require.Len(t, all, 30)
	fields, identifiers := scoreAll(t, "heldout", all, defaultConfidence)
	require.GreaterOrEqual(t, fields.precision(), 0.95)
	require.GreaterOrEqual(t, fields.recall(), 0.9)
	require.GreaterOrEqual(t, identifiers.precision(), 0.95)
	require.GreaterOrEqual(t, identifiers.recall(), 0.95)
}

// 30 more inputs in forms that neither of the others has, with answers that were
// written before the extractor was changed for the kinds of TestHeldOut's misses and
// first run after it; the kinds of their misses were worked on since.
func TestExtractor_GoldenUnseenForms(t *testing.T) {
	all := extractAll(t, "blind")
	require.Len(t, all, 30)
	fields, identifiers := scoreAll(t, "blind", all, defaultConfidence)
	require.GreaterOrEqual(t, fields.precision(), 0.95)
	require.GreaterOrEqual(t, fields.recall(), 0.8)
	require.GreaterOrEqual(t, identifiers.precision(), 0.95)
	require.GreaterOrEqual(t, identifiers.recall(), 0.95)
}

// 30 more, in forms that none of the others has, written after the extractor had
// been changed for the kinds of TestBlind's misses and run after that. Theirs were
// worked on as well, so that the next form nobody thought of is read about as well
// as these were at first.
func TestExtractor_GoldenMoreUnseenForms(t *testing.T) {
	all := extractAll(t, "blind2")
	require.Len(t, all, 30)
	fields, identifiers := scoreAll(t, "blind2", all, defaultConfidence)
	require.GreaterOrEqual(t, fields.precision(), 0.95)
	require.GreaterOrEqual(t, fields.recall(), 0.8)
	require.GreaterOrEqual(t, identifiers.precision(), 0.95)
	require.GreaterOrEqual(t, identifiers.recall(), 0.95)
}

// 60 short bios, READMEs and personal pages with little but a name, a title and a place, or with lists of names that are
// somebody else's or nobody's. The kinds of their misses were worked on since they were first run.
func TestExtractor_GoldenPages(t *testing.T) {
	all := extractAll(t, "pages")
	require.Len(t, all, 60)
	for _, confidence := range []float64{defaultConfidence, 0} { // a name that is nobody's is none, however unsure
		fields, identifiers := scoreAll(t, "pages", all, confidence)
		require.GreaterOrEqual(t, fields.precision(), 0.95)
		require.GreaterOrEqual(t, fields.recall(), 0.8)
		require.GreaterOrEqual(t, identifiers.precision(), 0.95)
		require.GreaterOrEqual(t, identifiers.recall(), 0.95)
	}
}

// 15 more, written before anybody had run them, of kinds that TestPages' rules had made worse: homes with menus, portfolios, CVs in parts,
// people of projects, towns that are called after professions, phrases before countries. They were worked on, too.
func TestExtractor_GoldenMorePages(t *testing.T) {
	all := extractAll(t, "pages2")
	require.Len(t, all, 15)
	for _, confidence := range []float64{defaultConfidence, 0} {
		fields, identifiers := scoreAll(t, "pages2", all, confidence)
		for _, s := range []score{fields, identifiers} {
			require.GreaterOrEqual(t, s.precision(), 0.95)
			require.GreaterOrEqual(t, s.recall(), 0.9)
		}
	}
}
