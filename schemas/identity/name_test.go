package identity_test

import (
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
