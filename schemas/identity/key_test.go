package identity_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
)

func TestNormalizeUsername_ReturnsOneFormOrRejects(t *testing.T) {
	for in, want := range map[string]string{
		"jane":                   "jane",
		"Jane-Doe":               "jane-doe",
		"  JANE\t":               "jane",
		"@Jane_Doe":              "jane_doe",
		"jane.doe":               "jane.doe",
		"j%C3%A9r%C3%B4me":       "jérôme",
		"J%c3%89":                "jé",
		"jane%2Ddoe":             "jane-doe",
		"jane%252Ddoe":           "jane-doe",
		"%40jane":                "jane",
		"je\u0301rome":           "j\u00e9rome",
		"ИВАН":                   "иван",
		"محمد-العلي":             "محمد-العلي",
		"山田太郎":                   "山田太郎",
		"dev-👩‍💻":                "dev-👩‍💻",
		"o'neil":                 "o'neil",
		"12345":                  "12345",
		"dependabot[bot]":        "dependabot[bot]",
		"Dependabot%5BBot%5D":    "dependabot[bot]",
		"张伟[bot]":                "张伟[bot]",
		"[bot]":                  "",
		"a[bot][bot]":            "",
		"a[bot]b":                "",
		"a[b]":                   "",
		"..[bot]":                "",
		strings.Repeat("a", 400): strings.Repeat("a", 400),
		"":                       "",
		"@":                      "",
		" ":                      "",
		"jane doe":               "",
		"jane/doe":               "",
		"jane%2Fdoe":             "",
		"jane%00":                "",
		"jane\x00":               "",
		"jane\n":                 "jane",
		"ja\nne":                 "",
		"jane%":                  "",
		"jane%zz":                "",
		"jane@mail.example":      "",
		"a|b":                    "",
		"a:b":                    "",
		"..":                     "",
		".":                      "",
		"\xff":                   "",
		"%ff":                    "",
		"'; DROP TABLE people":   "",
		"\u202ejane":             "",
		strings.Repeat("a", 401): "",
	} {
		require.Equal(t, want, identity.NormalizeUsername(in), "%q", in)
	}
}

func TestNormalizeEmail_ReturnsOneFormOrRejects(t *testing.T) {
	for in, want := range map[string]string{
		"jane@mail.example":                     "jane@mail.example",
		" Jane.Doe+News@Mail.Example ":          "jane.doe+news@mail.example",
		"j@localhost":                           "j@localhost",
		"o'neil@mail.example":                   "o'neil@mail.example",
		"12+user@users.noreply.code.example":    "12+user@users.noreply.code.example",
		"JÉRÔME@exämple.example":                "jérôme@exämple.example",
		"7+Pin[bot]@users.noreply.code.example": "7+pin[bot]@users.noreply.code.example",
		"Pin[bot] <pin[bot]@code.example>":      "pin[bot]@code.example",
		"je\u0301@mail.example":                 "j\u00e9@mail.example",
		"Jane <Jane@mail.example>":              "jane@mail.example",
		"<jane@mail.example>":                   "jane@mail.example",
		`"Doe, Jane" <jane@mail.example>`:       "jane@mail.example",
		"mailto:jane@mail.example":              "jane@mail.example",
		"MailTo:Jane%2Bx@mail.example?cc=a@b":   "jane+x@mail.example",
		"Jane <mailto:jane@mail.example>":       "jane@mail.example",
		strings.Repeat("Jane ", 99) + "<j@x.y>": "j@x.y",
		strings.Repeat("a", 64) + "@x.example":  strings.Repeat("a", 64) + "@x.example",
	} {
		got, err := identity.NormalizeEmail(in)
		require.NoError(t, err, "%q", in)
		require.Equal(t, want, got, "%q", in)
	}
	for _, in := range []string{
		"", " ", "jane", "@", "jane@", "@mail.example", "jane@@mail.example", "a@b@c.example", "jane doe@mail.example",
		"jane@mail .example", "Joe <joe@mail.example>, Jane <jane@mail.example>", "<>", "mailto:", "<mailto:>",
		"Jane <jane>", "jane@mail.example, joe@mail.example",
		"jane.@mail.example", ".jane@mail.example", "ja..ne@mail.example", "jane@mail..example", "jane@.example",
		"jane@mail.example.",
		"jane\x00@mail.example", "jane@mail.example\x00", "jane\n@mail.example", "\xff@mail.example",
		"jane@mail.example (Jane)",
		strings.Repeat("a", 65) + "@x.example", "a@" + strings.Repeat("b", 260),
		"mailto:jane@mail.example,joe@mail.example", "'; DROP TABLE people; --@x",
		"[bot]@code.example", "pin[bot][bot]@code.example", "pin[bot]x@code.example", "pin[x]@code.example",
		"pin@code[bot].example",
	} {
		_, err := identity.NormalizeEmail(in)
		require.Error(t, err, "%q", in)
		if len(in) > 5 {
			require.NotContains(t, err.Error(), in)
		}
	}
}

func TestEmailForms_ReturnsTheOtherFormOfDomain(t *testing.T) {
	for key, want := range map[string][]string{
		"ada@mail.example":                 nil,
		"adä@mail.example":                 nil,
		"ada@bücher.example":               {"ada@xn--bcher-kva.example"},
		"ada@xn--bcher-kva.example":        {"ada@bücher.example"},
		"ada@bücher.xn--bcher-kva.example": {"ada@xn--bcher-kva.xn--bcher-kva.example", "ada@bücher.bücher.example"},
		"ada@xn--\u00fc.example":           nil,
		"no address ü":                     nil,
	} {
		require.Equal(t, want, identity.EmailForms(key), key)
	}
}

func FuzzNormalizeUsername(f *testing.F) {
	for _, s := range []string{"jane", "J%C3%89", "@Jane", "%2540x", "İstanbul", "ǅ", "Ω\u0301", "dev-👩‍💻", "ﬁ", "ẞ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key := identity.NormalizeUsername(s)
		if key == "" {
			return
		}
		require.Equal(t, key, identity.NormalizeUsername(key), "idempotent")
		require.True(t, utf8.ValidString(key))
		require.LessOrEqual(t, len(key), identity.MaxUsername)
		require.Equal(t, key, identity.NormalizeUsername("@"+key), "a leading @ changes nothing")
	})
}

func FuzzNormalizeEmail(f *testing.F) {
	for _, s := range []string{"jane@mail.example", "JÉ@x.example", `"a b"@x.example`, "a@[127.0.0.1]", "İ@x.example",
		"a@x.example\u00a0", "A <a@x.example>", "mailto:a%40x.example?b", "a@bücher.example",
		"a@xn--bcher-kva.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := identity.NormalizeEmail(s)
		if err != nil {
			require.Empty(t, key)
			return
		}
		again, err := identity.NormalizeEmail(key)
		require.NoError(t, err)
		require.Equal(t, key, again)
		require.LessOrEqual(t, len(key), identity.MaxEmail)
		require.True(t, utf8.ValidString(key))
		require.Contains(t, key, "@")
		for _, form := range identity.EmailForms(key) {
			again, err := identity.NormalizeEmail(form)
			require.NoError(t, err)
			require.Equal(t, form, again)
		}
	})
}
