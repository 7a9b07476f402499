package analysis_test

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"muster/schemas/analysis"
)

func texts(tokens []analysis.Token) (out []string) {
	for i, t := range tokens {
		if t.Position != i {
			return append(out, "gap before "+t.Text)
		}
		out = append(out, t.Text)
	}
	return out
}

func TestFolded_RemovesAccents(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             nil,
		"José Ångström-Ünal":           {"jose", "angstrom", "unal"},
		"Straße İstanbul ﬁnance ΣΊΣ":   {"strasse", "istanbul", "finance", "σίσ"},
		"Łódź, Đà Nẵng & Ærø":          {"lodz", "da", "nang", "aero"},
		"Ольга 田中 e\u0301":             {"ольга", "田", "中", "e\u0301"},
		"C++ node.js already-in-ascii": {"c", "node.js", "already", "in", "ascii"},
	} {
		require.Equal(t, want, texts(analysis.Folded(nil, text)), text)
	}
}

func TestCode_KeepsSignsOfNames(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, " \t": nil, "--- & (.) ...": {"---", "&"},
		`C++, C# and .NET; "Node.js" (F#), a/b CI/CD!`: {"c++", "c#", "and", ".net", "node.js", "f#", "a/b", "ci/cd"},
		"R&D: 'quoted' [x] {y} <z>. end?!":             {"r&d", "quoted", "x", "y", "z", "end"},
		"no\u00a0break\u2003space\u3000İΣ":             {"no\u00a0break", "space", "iσ"},
		"a.b. ).x( ..net":                              {"a.b", ").x(", "..net"},
	} {
		require.Equal(t, want, texts(analysis.Code(nil, text)), text)
	}
}

func TestFoldings_AreThoseOfLowerCase(t *testing.T) {
	from, to := analysis.Foldings()
	require.Len(t, to, len(from))
	require.Greater(t, len(from), 700)
	known := make(map[string]string)
	for i, s := range from {
		known[s] = to[i]
	}
	for r := rune(0x80); r <= 0xffff; r++ {
		s := string(unicode.ToLower(r))
		if folded := analysis.Fold(s); folded != s {
			require.Equal(t, folded, known[s], s)
		}
	}
}
