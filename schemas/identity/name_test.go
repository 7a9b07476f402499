package identity_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
)

func TestNameBlockingKeys_AreEqualForVariantsOfAName(t *testing.T) {
	for name, want := range map[string][]string{
		"Juno Abara":             {"abara juno", "~abr an"},
		"Dr. Juno M. Abara, PhD": {"abara juno", "~abr an"},
		"ABARA  Juno":            {"abara juno", "~abr an"},
		"Juno (she/her) Abara 🚀": {"abara juno", "~abr an"},
		"José Núñez":             {"jose nunez"},
		"Иван Петров":            {"=иван петров", "ivan petrov", "~avn ptrv"},
		"王伟":                     {"=王伟", "wang wei", "~v vng"},
		"Juno":                   nil,
		"":                       nil,
		"🚀":                      nil,
	} {
		got := identity.NameBlockingKeys(name)
		if name == "王伟" { // too short for a consonant key
			want = want[:2]
		}
		require.Equal(t, want, got, name)
	}
	require.Equal(t, identity.ConsonantSkeleton("mohammed"), identity.ConsonantSkeleton("muhammad"))
}

// Names of one person in two forms share a key.
func TestNameBlockingKeys_OtherFormsShareAKey(t *testing.T) {
	for _, names := range [][2]string{
		{"Costa Ana Silvan", "Ana Silvan Costa"},
		{"Brenka Lindoval Harkesh", "Brenka Lindoval"},
		{"Brenka Lindoval Harkesh", "Brenka Harkesh"},
		{"Karl van der Quarn", "Vanderquarn, Karl"},
		{"Karl van der Quarn", "Karl Quarn"},
		{"Karl de Quarn", "Karl DeQuarn"},
		{"欧阳铭铎", "Mingduo Ouyang"},
		{"欧阳铭铎", "Ming Duo Ouyang"},
		{"王伟", "Wei Wang"},
		{"남궁혁찬", "Hyukchan Namgung"},
		{"김서연", "Kim Seo-yeon"},
		{"Odrin Müllenrath", "Odrin Muellenrath"},
	} {
		keys := identity.NameBlockingKeys(names[1])
		require.True(t, slices.ContainsFunc(identity.NameBlockingKeys(names[0]), func(k string) bool {
			return slices.Contains(keys, k)
		}), "%v: %v and %v", names, identity.NameBlockingKeys(names[0]), keys)
	}
	require.LessOrEqual(t, len(identity.NameBlockingKeys(strings.Repeat("Ana de Silva Costa ", 9))), 12)
}

func TestNameParts_SplitsNamesWithoutSpaces(t *testing.T) {
	for name, want := range map[string][]string{
		"欧阳铭铎": {"ouyang", "mingduo"}, "王伟": {"wang", "wei"}, "王 伟明": {"wang", "weiming"}, "王": {"wang"},
		"김서연": {"kim", "seoyeon"}, "남궁 혁찬": {"namgung", "hyeokchan"}, "Juno Abara": {"juno", "abara"}, "": nil,
	} {
		require.Equal(t, want, identity.NameParts(name), name)
	}
}

func TestUsernameBlockingKey_KeepsOnlyDistinctiveLetters(t *testing.T) {
	for username, want := range map[string]string{
		"Juno-Abara": "junoabara", "juno_abara82": "junoabara", "juno-abara-8f3a91b02": "junoabara",
		"junoabara": "junoabara",
		"ab":        "", "12345": "", "x-9": "", "juno.abara": "junoabara", "j0hn": "j0hn",
	} {
		require.Equal(t, want, identity.UsernameBlockingKey(username), username)
	}
}

func TestFindMentions_FindsURLsAndHandlesWithPlatform(t *testing.T) {
	p := identity.Default()
	account := func(platform, username string) identity.Account {
		return identity.Account{Platform: platform, Username: username}
	}
	for text, want := range map[string][]identity.Account{
		"Makes things. https://codehost.example/Juno/ and network.example/in/juno-a.": {account("codehost", "Juno"),
			account("network", "juno-a")},
		"@juno on codehost":                          {account("codehost", "juno")},
		"codehost: juno | microblog: @juno_a":        {account("codehost", "juno"), account("microblog", "juno_a")},
		"(github.com/juno) twitter/juno_a":           {account("codehost", "juno"), account("microblog", "juno_a")},
		"https://short.example/x9 @acme":             nil,
		"On codehost as @juno, on network as j":      nil,
		"On codehost as @juno, on network as juno-a": nil,
		"network.example/company/acme":               nil,
		"I work on codehost tools":                   nil,
		"codehost: https://codehost.example/juno":    {account("codehost", "juno")},
		"https://codehost.example@evil.example/juno": nil,
		"": nil,
	} {
		require.Equal(t, want, p.FindMentions(text), text)
	}
}

func FuzzNames(f *testing.F) {
	p := identity.Default()
	for _, s := range []string{"Juno Abara", "王伟", "@a on codehost", "x:y", "((", "codehost:",
		"https://codehost.example/a%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, k := range identity.NameBlockingKeys(s) {
			require.NotEmpty(t, k)
		}
		_ = identity.UsernameBlockingKey(s)
		for _, a := range p.FindMentions(s) {
			require.NotEmpty(t, identity.NormalizeUsername(a.Username))
		}
	})
}
