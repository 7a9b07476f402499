package analysis_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"muster/schemas/analysis"
)

// Expected tokens are those of Lucene 9.12's standard analyzer; the search suite compares random texts with it.
func TestAnalyze_EqualsLucene(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"  \t\n--- !? __ ":        "",
		"Staff Software Engineer": "staff software engineer",
		"O'Neil's":                "o'neil's",
		"O’Neil":                  "o’neil",
		"C++ and C#, .NET":        "c and c net",
		"AT&T R&D":                "at t r d",
		"node.js foo_bar _x_ _1_": "node.js foo_bar _x_ _1_",
		"1,000.50 3.14, 10:30":    "1,000.50 3.14 10 30",
		"aws:lambda":              "aws:lambda",
		"wi-fi U.S.A.":            "wi fi u.s.a",
		"john@x.com":              "john x.com",
		"a1 1a v2.0beta":          "a1 1a v2.0beta",
		"Zürich İstanbul STRASSE": "zürich istanbul strasse",
		"ΣΊΣΥΦΟΣ":                 "σίσυφοσ", // simple mapping: no final sigma
		"cafe\u0301 \u0301x":      "cafe\u0301 x",
		"soft\u00adhyphen":        "soft\u00adhyphen",
		"Инженер-программист":     "инженер программист",
		"مهندس برمجيات ١٢٣":       "مهندس برمجيات ١٢٣",
		`צה"ל ג'ירפה`:             `צה"ל ג'ירפה`,
		"東京都 株式会社 々a 佐々木":         "東 京 都 株 式 会 社 々a 佐 々 木",
		"ソフトウェア ひらがな ﾌﾞ":          "ソフトウェア ひ ら が な ﾌﾞ",
		"소프트웨어 엔지니어":              "소프트웨어 엔지니어",
		"วิศวกรซอฟต์แวร์ ไทย":             "วิศวกรซอฟต์แวร์ ไทย",
		"ကမ္ဘာ ខ្មែរ":                     "ကမ္ဘာ ខ្មែរ",
		"हिन्दी தமிழ்":                    "हिन्दी தமிழ்",
		"😀™©® ★ ☕":                        "😀 ™ © ® ★ ☕",
		"👍🏽👩‍💻🇩🇪🇫🇷🇩":                      "👍🏽 👩‍💻 🇩🇪 🇫🇷",
		"1️⃣ #️⃣ *⃣ # *":                  "1️⃣ #️⃣ *⃣",
		"❤️ ❤\ufe0e":                      "❤️ ❤",
		"a\u200d😀":                        "a\u200d 😀",
		"🏴\U000e0067\U000e0062\U000e007f": "🏴\U000e0067\U000e0062\U000e007f",
		"→ • | ¦ § ° ½ ² Ⅷ":               "ⅷ",
	} {
		var got []string
		for i, tok := range analysis.Analyze(nil, in) {
			require.Equal(t, i, tok.Position, "%q", in)
			got = append(got, tok.Text)
		}
		require.Equal(t, want, strings.Join(got, " "), "%q", in)
	}
}

func TestAnalyze_CutsLongTokens(t *testing.T) {
	for in, want := range map[string][]int{
		strings.Repeat("a", 255): {255},
		strings.Repeat("a", 256): {255, 1},
		strings.Repeat("é", 700): {255, 255, 190},
		// the dot is last in the buffer: the word ends
		strings.Repeat("a", 254) + "." + strings.Repeat("b", 9): {254, 9},
		strings.Repeat("ก", 300):                                {255, 45},
		strings.Repeat("𝒳", 200):                                {254, 146}, // surrogate pairs stay whole
		strings.Repeat(" ", 1000) + strings.Repeat("_", 1000):   {},
		strings.Repeat("‿\u0301", 300) + "x":                    {255},
	} {
		got := []int{}
		for _, tok := range analysis.Analyze(nil, in) {
			got = append(got, len(utf16.Encode([]rune(tok.Text))))
		}
		require.Equal(t, want, got, "%.20q", in)
	}
}

func TestNamed_EqualsElasticsearch(t *testing.T) {
	in := "The Café No.5\u00a0is a-B"
	for name, want := range map[string][]analysis.Token{
		"simple":     {{"the", 0}, {"café", 1}, {"no", 2}, {"is", 3}, {"a", 4}, {"b", 5}},
		"stop":       {{"café", 1}, {"b", 5}},
		"whitespace": {{"The", 0}, {"Café", 1}, {"No.5\u00a0is", 2}, {"a-B", 3}},
		"keyword":    {{in, 0}},
		"standard":   {{"the", 0}, {"café", 1}, {"no", 2}, {"5", 3}, {"is", 4}, {"a", 5}, {"b", 6}},
	} {
		a, err := analysis.Named(name)
		require.NoError(t, err)
		require.Equal(t, want, a(nil, in), name)
	}
	_, err := analysis.Named("english")
	var unknown *analysis.UnknownAnalyzerError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, `analyzer "english" is not supported; supported are default, keyword, simple, standard, stop, `+
		`whitespace`, err.Error())
	a, err := analysis.Named("whitespace")
	require.NoError(t, err)
	require.Len(t, a(nil, strings.Repeat("x", 256)), 2)
}

func FuzzAnalyze(f *testing.F) {
	for _, s := range []string{"", "a b", "C++ ๛ก็็", "👩‍💻\u200d", "\xff\xfea", strings.Repeat("‿́", 40),
		strings.Repeat("a.", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		seen := analysis.Analyze(nil, s)
		rest, last := strings.ToLower(s), -1
		for _, tok := range seen {
			i := strings.Index(rest, tok.Text)
			require.GreaterOrEqual(t, i, 0, "tokens come from the text, in its order")
			rest = rest[i+len(tok.Text):]
			require.NotEmpty(t, tok.Text)
			require.LessOrEqual(t, len(utf16.Encode([]rune(tok.Text))), analysis.MaxToken)
			require.Equal(t, last+1, tok.Position)
			last = tok.Position
		}
	})
}

func BenchmarkAnalyze(b *testing.B) {
	for name, s := range map[string]string{
		"headline": "Senior Software Engineer at Northwind Logistics | Kubernetes, Go, C++ and PostgreSQL",
		"lower":    "senior software engineer at northwind logistics kubernetes go and postgresql again",
		"cyrillic": "Старший инженер-программист в компании Северный ветер, Санкт-Петербург",
		"japanese": "株式会社東京ソフトウェアのシニアエンジニア",
		"thai":     "วิศวกรซอฟต์แวร์อาวุโส กรุงเทพมหานคร",
		"emoji":    "🚀 Building things 👩‍💻 since 2009 ★ Berlin 🇩🇪",
		"spiteful": strings.Repeat("‿́_\u200d", 20000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			var dst []analysis.Token
			for b.Loop() {
				dst = analysis.Analyze(dst[:0], s)
			}
		})
	}
}
