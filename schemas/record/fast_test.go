package record_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// sameReading checks one record with both decoders: what the fast one takes, the
// slow one must take too and read in the same way.
func sameReading(t testing.TB, kind record.Kind, raw []byte) (fast bool) {
	t.Helper()
	got, ok := record.ReadFast(kind, raw)
	if !ok {
		return false
	}
	want, spaces, bad := record.ReadSlow(kind, raw)
	require.Nil(t, bad, "%s", raw)
	require.False(t, spaces, "%s", raw)
	require.Equal(t, want, got, "%s", raw)
	return true
}

func exampleRecords(t testing.TB) map[record.Kind][][]byte {
	t.Helper()
	all := map[record.Kind][][]byte{}
	for _, d := range record.Definitions() {
		files, err := filepath.Glob(filepath.Join("testdata", string(d.Kind), "*.json"))
		require.NoError(t, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			all[d.Kind] = append(all[d.Kind], record.Compact(bytes.TrimSpace(raw)))
		}
	}
	return all
}

// Otherwise records could silently fall back to the slow decoder.
func TestDecodeFast_AcceptsExamples(t *testing.T) {
	for kind, raws := range exampleRecords(t) {
		for _, raw := range raws {
			require.True(t, sameReading(t, kind, raw), "%s: %s", kind, raw)
			require.True(t, sameReading(t, kind, append(slices.Clone(raw), " \r\n"...)))
		}
	}
}

type fastSink struct {
	t    testing.TB
	seen int
}

func (s *fastSink) Record(kind string, raw []byte) error {
	if _, known := record.Lookup(record.Kind(kind)); known {
		require.True(s.t, sameReading(s.t, record.Kind(kind), record.Compact(raw)), "%s: %s", kind, raw)
		s.seen++
	}
	return nil
}

func (s *fastSink) Truth([]byte) error { return nil }

func TestDecodeFast_AcceptsSampleData(t *testing.T) {
	sink := &fastSink{t: t}
	require.NoError(t, sampledata.Generate(t.Context(), sampledata.Options{People: 300, Seed: 5}, sink, nil))
	require.Greater(t, sink.seen, 1000)
}

// Damages records at random, mostly slightly.
func TestDecodeFast_EqualsDecodeGeneric(t *testing.T) {
	pieces := []string{
		`"`, `\`, `,`, `:`, `{`, `}`, `[`, `]`, ` `, "\n", "\x00", "\x1f", "\x7f", "\xff", "\xc3", "é", "\u2028", "0",
		"-", "-0", "1e5", "1.0", "00", ".", "E",
		"null", "true", "false", `""`, "{}", "[]", "[null]", `{"a":null}`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`,
		`"\n\/"`, `"\x"`, `"\u00e9"`, `"tab	"`,
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e400", "-1e-400", `"x":1,`,
		`"x":1,"x":2,`, `"\u0078":1,`, `,"y":{"z":[1,{"w":""}]}`,
		`"deleted":true,`, `"user_id":7,`, `"Username":"a",`, `"emails":null,`,
		`"experience":[{},null,{"start":"2019"}],`, `"repos":[1],`, `"location":null,`,
	}
	rounds := 60_000
	if testing.Short() {
		rounds = 12_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	all := exampleRecords(t)
	kinds := record.Definitions()
	fast := 0
	for range rounds {
		kind := kinds[random.IntN(len(kinds))].Kind
		raws := all[kind]
		raw := slices.Clone(raws[random.IntN(len(raws))])
		for range 1 + random.IntN(3) {
			at := random.IntN(len(raw) + 1)
			if random.IntN(3) > 0 { // where a token begins
				if i := bytes.IndexAny(raw[at:], `",:{}[]`); i >= 0 {
					at += i + random.IntN(2)
				}
			}
			end := at
			switch random.IntN(4) {
			case 0:
				end = min(len(raw), at+random.IntN(8))
			case 1: // a whole token
				if i := bytes.IndexAny(raw[at:], `,}]`); i >= 0 {
					end = at + i
				}
			}
			raw = slices.Replace(raw, at, end, []byte(pieces[random.IntN(len(pieces))])...)
			if len(raw) == 0 {
				break
			}
		}
		if sameReading(t, kind, raw) {
			fast++
		}
	}
	require.Greater(t, fast, rounds/20, "too few damaged records were still records")
}

func FuzzFast(f *testing.F) {
	definitions := record.Definitions()
	all := exampleRecords(f)
	for i, d := range definitions {
		for _, raw := range all[d.Kind] {
			f.Add(uint8(i), raw)
		}
		for _, c := range defects() {
			if c.kind == d.Kind && len(c.raw) < 4096 {
				f.Add(uint8(i), []byte(c.raw))
			}
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, raw []byte) {
		sameReading(t, definitions[int(index)%len(definitions)].Kind, raw)
	})
}
